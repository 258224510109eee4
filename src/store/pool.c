/*
 * Where the pool is: makes, finds, mounts and removes it. Three kinds, each
 * mounted at state_dir/pool.d/mnt with flags of its own:
 *
 *	a loop file	state_dir/pool.img
 *	a directory	state_dir/pool.d/dir, for hosts without btrfs
 *	the user's own	the directory that `pool` names
 *
 * The file is allocated whole: were it sparse, a full host would turn the pool
 * read-only for everyone. Files in the pool keep real set-id bits and owners,
 * so its parent is root's and closed to everybody else: the api's user may
 * read and write in state_dir, and must get neither at the files nor at the
 * names on the way. Hence work relative to pool.d, no links followed, owners
 * checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/product.h"
#include "store/loopdev.h"
#include "store/mkfs.h"
#include "store/ops.h"

#define AUTO_MAX_BYTES (32ULL << 30)
#define AUTO_MIN_BYTES (1ULL << 30)
#define MIN_BYTES (256ULL << 20) /* less, and mkfs.btrfs mixes block groups */

static const char img[] = "pool.img", closed[] = "pool.d";

bool pool_is_ours(const struct conf *c)
{
	return strcmp(c->pool, "auto") == 0;
}

bool pool_has_file(const struct conf *c)
{
	char path[CONF_PATH + 16];

	snprintf(path, sizeof(path), "%s/%s", c->state_dir, img);
	return pool_is_ours(c) && access(path, F_OK) == 0;
}

static bool driver_is(const struct conf *c, const char *name)
{
	return strcmp(c->pool_driver, name) == 0;
}

static bool is_btrfs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

/* 1 or 0, or -errno: not known. fsopen() also loads the module. */
static int kernel_has_btrfs(struct err *e)
{
	AUTO_CLOSE int fd = fsopen("btrfs", FSOPEN_CLOEXEC);

	if (fd >= 0)
		return 1;
	return errno == ENODEV ? 0 : err_sys(e, "ask the kernel for btrfs");
}

static int open_state(const struct conf *c, struct err *e)
{
	int fd = open(c->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e,
			       "open state_dir %s (make it, or run the "
			       "installation again)",
			       c->state_dir);
	return fd;
}

/* A directory of root's that nobody else can look into, made if missing. */
static int open_closed(int dir_fd, const char *name, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make %s", name);
	fd = openat(dir_fd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open %s", name);
	if (st.st_uid != 0 || (st.st_mode & 077) != 0)
		return err_set(e, EPERM,
			       "%s must be root's alone: chown root %s; "
			       "chmod 0700 %s",
			       name, name, name);
	return take_fd(&fd);
}

static int pool_size(const struct conf *c, int dir_fd, uint64_t *out,
		     struct err *e)
{
	char have[SIZE_TEXT], want[SIZE_TEXT];
	struct statvfs fs;
	uint64_t avail, min = c->pool_bytes ? MIN_BYTES : AUTO_MIN_BYTES;

	if (fstatvfs(dir_fd, &fs) < 0)
		return err_sys(e, "free space of %s", c->state_dir);
	avail = (uint64_t)fs.f_bavail * fs.f_frsize;
	*out = c->pool_bytes ? c->pool_bytes : avail / 10 * 4;
	if (!c->pool_bytes && *out > AUTO_MAX_BYTES)
		*out = AUTO_MAX_BYTES;
	*out &= ~((uint64_t)(1 << 20) - 1);
	size_text(avail, have);
	size_text(c->pool_bytes ? *out : min, want);
	if (c->pool_bytes && *out < min)
		return err_set(e, EINVAL, "pool_size: at least %llu MiB",
			       (unsigned long long)(min >> 20));
	if (*out < min || *out > avail)
		return err_set(e, ENOSPC,
			       "no space for a pool of %s in %s, %s free: free "
			       "some, set pool_size, or set pool = DIRECTORY",
			       want, c->state_dir, have);
	return 0;
}

/* Whole, or not at all: mkfs works on a file with another name. */
static int make_file(const struct conf *c, int state_fd, int closed_fd,
		     struct err *e)
{
	static const char tmp[] = "new.img";
	AUTO_CLOSE int fd = -1;
	uint64_t bytes = 0;
	int r;

	unlinkat(closed_fd, tmp, 0);
	r = pool_size(c, closed_fd, &bytes, e);
	if (r < 0)
		return r;
	fd = openat(closed_fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return err_sys(e, "make %s", img);
	if (is_btrfs(fd)) {
		int flags = FS_NOCOW_FL;

		/* Copy-on-write below ours would break the allocation. */
		if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0)
			return err_sys(e, "set nocow on %s", img);
	}
	r = posix_fallocate(fd, 0, (off_t)bytes);
	if (r != 0) {
		unlinkat(closed_fd, tmp, 0);
		return err_set(e, r,
			       "allocate %s/%s (free some space, or set "
			       "pool_size): %s",
			       c->state_dir, img, strerror(r));
	}
	r = mkfs_btrfs(closed_fd, tmp, e);
	if (r < 0) {
		unlinkat(closed_fd, tmp, 0);
		return r;
	}
	if (fsync(fd) < 0 || renameat(closed_fd, tmp, state_fd, img) < 0 ||
	    fsync(state_fd) < 0)
		return err_sys(e, "keep %s", img);
	return 0;
}

static int open_file(const struct conf *c, int state_fd, struct err *e)
{
	AUTO_CLOSE int fd =
		openat(state_fd, img, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open %s/%s", c->state_dir, img);
	if (!S_ISREG(st.st_mode) || st.st_uid != 0 || st.st_nlink != 1 ||
	    (st.st_mode & 077) != 0)
		return err_set(e, EPERM,
			       "%s/%s is not the file that was made here: it "
			       "must be root's alone, mode 0600",
			       c->state_dir, img);
	return take_fd(&fd);
}

/* Is this directory the root of a mount of that loop device? */
static int on_device(int fd, const char *dev)
{
	struct btrfs_ioctl_dev_info_args info = { .devid = 1 };
	struct stat a, b;

	if (!is_btrfs(fd) || ioctl(fd, BTRFS_IOC_DEV_INFO, &info) < 0)
		return 0;
	info.path[sizeof(info.path) - 1] = '\0';
	return stat((const char *)info.path, &a) == 0 && stat(dev, &b) == 0 &&
	       S_ISBLK(a.st_mode) && a.st_rdev == b.st_rdev;
}

/* 1 or 0, or -errno: not known. */
static int is_mount_root(int dir_fd, const char *name, struct err *e)
{
	struct statx st;

	if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) == 0)
		return (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
	return err_sys(e, "look for a mount at %s", name);
}

static int mount_device(const struct conf *c, const char *dev, struct err *e)
{
	char path[CONF_PATH + 16];

	snprintf(path, sizeof(path), "%s/%s/mnt", c->state_dir, closed);
	if (mount(dev, path, "btrfs",
		  MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME,
		  "nodiscard") == 0)
		return 0;
	return err_sys(e,
		       "mount %s/%s (see dmesg; a pool with simple quotas "
		       "needs Linux 6.7 or newer)",
		       c->state_dir, img);
}

static int open_mounted(const struct conf *c, int closed_fd, struct err *e)
{
	int fd = openat(closed_fd, "mnt",
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "open %s/%s/mnt", c->state_dir, closed);
	return fd;
}

static int other_mount(const struct conf *c, struct err *e)
{
	return err_set(e, EBUSY,
		       "something else is mounted at %s/%s/mnt: unmount it",
		       c->state_dir, closed);
}

/*
 * Never a second loop device on one file: two devices with one file system
 * would be its end. The old one may have no mount here any more and still be
 * held by the mounts of living sandboxes.
 */
static int mount_file(const struct conf *c, int file_fd, int closed_fd,
		      struct err *e)
{
	AUTO_CLOSE int dev_fd = -1, fd = -1;
	char dev[LOOPDEV_PATH] = "";
	int r = loopdev_find(file_fd, dev);

	if (r < 0 && r != -ENOENT)
		return err_set(e, -r, "look for loop devices: %s",
			       strerror(-r));
	if (r < 0) {
		dev_fd = loopdev_attach(file_fd, dev, e);
		if (dev_fd < 0)
			return dev_fd;
	}
	r = is_mount_root(closed_fd, "mnt", e);
	if (r == 0)
		r = mount_device(c, dev, e);
	if (r < 0)
		return r;
	fd = open_mounted(c, closed_fd, e);
	if (fd < 0)
		return fd;
	return on_device(fd, dev) ? take_fd(&fd) : other_mount(c, e);
}

/*
 * A directory: a mount of its own with our flags, whatever those of the file
 * system it is on, and none of what is mounted below it.
 */
static int mount_dir(const struct conf *c, int dir_fd, int closed_fd,
		     struct err *e)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			    MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOATIME,
		.attr_clr = MOUNT_ATTR__ATIME,
	};
	AUTO_CLOSE int tree_fd = -1, fd = -1;
	struct stat a, b;
	int r = is_mount_root(closed_fd, "mnt", e);

	if (r < 0)
		return r;
	if (r == 0) {
		tree_fd = open_tree(dir_fd, "",
				    AT_EMPTY_PATH | OPEN_TREE_CLONE |
					    OPEN_TREE_CLOEXEC);
		if (tree_fd < 0 ||
		    mount_setattr(tree_fd, "", AT_EMPTY_PATH, &attr,
				  sizeof(attr)) < 0 ||
		    move_mount(tree_fd, "", closed_fd, "mnt",
			       MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return err_sys(e, "mount the pool at %s/%s/mnt",
				       c->state_dir, closed);
	}
	fd = open_mounted(c, closed_fd, e);
	if (fd < 0)
		return fd;
	if (fstat(fd, &a) < 0 || fstat(dir_fd, &b) < 0 ||
	    a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		return other_mount(c, e);
	return take_fd(&fd);
}

static int no_btrfs(struct err *e)
{
	return err_set(e, ENODEV,
		       "this kernel has no btrfs: load the module, or set "
		       "pool_driver = dir");
}

/* A second file would hide the first one, whose contents are still in use. */
static int no_file(const struct conf *c, struct err *e)
{
	return err_set(e, ENOENT,
		       "%s/%s is gone, but a pool is mounted at %s/%s/mnt: put "
		       "the file back, or unmount it",
		       c->state_dir, img, c->state_dir, closed);
}

/*
 * No file: is it the directory? 1 or 0, or -errno: not known, and a pool that
 * cannot be seen must not get a successor.
 */
static int wants_dir(int closed_fd, struct err *e)
{
	int r;

	if (faccessat(closed_fd, "dir", F_OK, 0) == 0)
		return 1;
	if (errno != ENOENT)
		return err_sys(e, "look for pool.d/dir");
	r = kernel_has_btrfs(e);
	return r < 0 ? r : !r;
}

/* pool = auto: what is there already decides, then what the host can do. */
static int open_ours(const struct conf *c, int state_fd, int closed_fd,
		     const struct store_ops **ops, struct err *e)
{
	AUTO_CLOSE int file_fd = open_file(c, state_fd, e);
	AUTO_CLOSE int dir_fd = -1;
	int r, dir = driver_is(c, "dir");

	if (file_fd < 0 && file_fd != -ENOENT)
		return file_fd;
	if (driver_is(c, "auto") && file_fd < 0)
		dir = wants_dir(closed_fd, e);
	if (dir < 0)
		return dir;
	*ops = dir ? &store_dir : &store_btrfs;
	if (dir) {
		dir_fd = open_closed(closed_fd, "dir", e);
		return dir_fd < 0 ? dir_fd : mount_dir(c, dir_fd, closed_fd, e);
	}
	r = kernel_has_btrfs(e);
	if (r <= 0)
		return r < 0 ? r : no_btrfs(e);
	if (file_fd < 0) {
		r = is_mount_root(closed_fd, "mnt", e);
		if (r != 0)
			return r < 0 ? r : no_file(c, e);
		r = make_file(c, state_fd, closed_fd, e);
		if (r < 0)
			return r;
		file_fd = open_file(c, state_fd, e);
		if (file_fd < 0)
			return err_set(e, -file_fd, "%s has gone again", img);
	}
	return mount_file(c, file_fd, closed_fd, e);
}

static int open_theirs(const struct conf *c, int closed_fd,
		       const struct store_ops **ops, struct err *e)
{
	AUTO_CLOSE int fd = -1;

	if (c->pool[0] != '/')
		return err_set(e, EINVAL,
			       "pool: %s is neither auto nor an absolute path",
			       c->pool);
	fd = open_closed(AT_FDCWD, c->pool, e);
	if (fd < 0)
		return err_wrap(e, "pool");
	*ops = driver_is(c, "dir") || !is_btrfs(fd) ? &store_dir : &store_btrfs;
	if (driver_is(c, "btrfs") && *ops != &store_btrfs)
		return err_set(e, EINVAL,
			       "pool %s is not on btrfs: set pool = auto, or "
			       "pool_driver = dir",
			       c->pool);
	return mount_dir(c, fd, closed_fd, e);
}

int pool_open(const struct conf *c, const struct store_ops **ops, struct err *e)
{
	AUTO_CLOSE int state_fd = -1, closed_fd = -1;

	if (!driver_is(c, "auto") && !driver_is(c, "btrfs") &&
	    !driver_is(c, "dir"))
		return err_set(e, EINVAL,
			       "pool_driver: %s is none of auto, btrfs, dir",
			       c->pool_driver);
	state_fd = open_state(c, e);
	if (state_fd < 0)
		return state_fd;
	closed_fd = open_closed(state_fd, closed, e);
	if (closed_fd < 0)
		return err_wrap(e, "%s", c->state_dir);
	if (mkdirat(closed_fd, "mnt", 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make %s/%s/mnt", c->state_dir, closed);
	return pool_is_ours(c) ? open_ours(c, state_fd, closed_fd, ops, e)
			       : open_theirs(c, closed_fd, ops, e);
}

int pool_close(const struct conf *c, struct err *e)
{
	char path[CONF_PATH + 16];
	int r;

	snprintf(path, sizeof(path), "%s/%s/mnt", c->state_dir, closed);
	r = is_mount_root(AT_FDCWD, path, e);
	if (r == -ENOENT)
		err_clear(e);
	if (r <= 0)
		return r == -ENOENT ? 0 : r;
	if (umount2(path, UMOUNT_NOFOLLOW) < 0)
		return err_sys(e, "unmount %s (is the daemon still running?)",
			       path);
	return 0;
}

/* The last mount of a sandbox may take a moment to let go of the device. */
static bool in_use(int file_fd)
{
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };
	char dev[LOOPDEV_PATH];
	int tries;

	for (tries = 0; tries < 50; tries++) {
		if (loopdev_find(file_fd, dev) == -ENOENT)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

int pool_remove(const struct conf *c, struct err *e)
{
	AUTO_CLOSE int state_fd = open_state(c, e);
	AUTO_CLOSE int closed_fd = -1, file_fd = -1;

	if (state_fd < 0)
		return state_fd;
	file_fd = pool_is_ours(c) ? open_file(c, state_fd, e) : -ENOENT;
	if (file_fd < 0 && file_fd != -ENOENT)
		return file_fd;
	if (file_fd >= 0 && in_use(file_fd))
		return err_set(e, EBUSY,
			       "%s/%s is in use: remove all sandboxes first",
			       c->state_dir, img);
	closed_fd = open_closed(state_fd, closed, e);
	if (closed_fd < 0)
		return closed_fd;
	unlinkat(closed_fd, "new.img", 0);
	unlinkat(closed_fd, "mnt", AT_REMOVEDIR);
	unlinkat(closed_fd, "dir", AT_REMOVEDIR);
	if ((file_fd >= 0 && unlinkat(state_fd, img, 0) < 0) ||
	    unlinkat(state_fd, closed, AT_REMOVEDIR) < 0)
		return err_sys(e, "remove the pool in %s", c->state_dir);
	return 0;
}
