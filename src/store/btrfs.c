/*
 * The btrfs driver: a tree is a subvolume, its limit sits on its family's
 * quota group (qgroup.h), an image is a subvolume set read-only.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "store/ops.h"
#include "store/qgroup.h"

enum { SETTLE_MS = 10000, SETTLE_STEP_US = 5000 };

/*
 * Live figures are only in sysfs, the tree has those of the last commit. The
 * directory is opened while it can be named; a host without it (a container
 * with no /sys) gets the older figures.
 */
static int open_usage(int fd)
{
	struct btrfs_ioctl_fs_info_args fs = { 0 };
	char path[96];
	size_t i, n;

	if (ioctl(fd, BTRFS_IOC_FS_INFO, &fs) < 0)
		return -1;
	n = (size_t)snprintf(path, sizeof(path), "/sys/fs/btrfs/");
	for (i = 0; i < sizeof(fs.fsid); i++)
		n += (size_t)snprintf(
			path + n, sizeof(path) - n, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			fs.fsid[i]);
	snprintf(path + n, sizeof(path) - n, "/qgroups");
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int btrfs_start(struct store *s, struct err *e)
{
	int r = qgroup_enable(s->root_fd, &s->simple_quota);

	if (r == 0)
		r = qgroup_next_family(s->root_fd, &s->next_family);
	if (r < 0)
		return err_set(e, -r, "turn on quotas of the pool: %s",
			       strerror(-r));
	s->disk_limit = true;
	s->usage_fd = open_usage(s->root_fd);
	return 0;
}

static int family_make(struct store *s, uint64_t *family, struct err *e)
{
	int r = -EEXIST;

	while (r == -EEXIST && s->next_family < FAMILY_END) {
		*family = s->next_family++;
		r = qgroup_family_make(s->root_fd, *family);
	}
	if (r < 0)
		return err_set(e, -r, "make a quota group: %s", strerror(-r));
	return 0;
}

static int family_limit(struct store *s, uint64_t family, uint64_t bytes,
			struct err *e)
{
	int r = bytes ? qgroup_family_limit(s->root_fd, family, bytes) : 0;

	return r < 0 ? err_set(e, -r, "limit a quota group: %s", strerror(-r))
		     : 0;
}

/* A group that it does not know, the kernel leaves out in silence. */
static int check_member(int dir_fd, const char *name, uint64_t family,
			struct err *e)
{
	AUTO_CLOSE int fd = openat(
		dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t got = 0;

	if (fd < 0)
		return err_sys(e, "open a new subvolume");
	if (qgroup_family_of(fd, &got) < 0 || got != family)
		return err_set(e, EIO, "a new subvolume is not in its group");
	return 0;
}

static int btrfs_make(struct store *s, int dir_fd, const char *name,
		      uint64_t bytes, struct err *e)
{
	uint64_t family = 0;
	int r = family_make(s, &family, e);

	if (r == 0)
		r = family_limit(s, family, bytes, e);
	if (r < 0)
		return r;
	r = qgroup_subvol_make(dir_fd, name, family);
	if (r < 0)
		return err_set(e, -r, "make a subvolume: %s", strerror(-r));
	return check_member(dir_fd, name, family, e);
}

static int btrfs_family(struct store *s, uint64_t family, struct err *e)
{
	int r = qgroup_family_make(s->root_fd, family);

	return r < 0 ? err_set(e, -r, "make a quota group: %s", strerror(-r))
		     : 0;
}

/* The family that a copy joins, made if it is to be a new one. */
static int clone_family(struct store *s, const struct clone_how *how,
			uint64_t *family, struct err *e)
{
	int r;

	if (how->like_fd >= 0) {
		r = qgroup_family_of(how->like_fd, family);
		if (r < 0)
			return err_set(e, -r, "find a quota group: %s",
				       strerror(-r));
		return family_limit(s, *family, how->bytes, e);
	}
	*family = how->family;
	if (!how->made && btrfs_family(s, *family, e) < 0)
		return -e->code;
	return family_limit(s, *family, how->bytes, e);
}

/* The ioctl waits for a commit: then the copy is on disk. */
static int btrfs_clone(struct store *s, int from_fd, int dir_fd,
		       const char *name, const struct clone_how *how,
		       struct err *e)
{
	uint64_t family = 0;
	int r = clone_family(s, how, &family, e);

	if (r < 0)
		return r;
	r = qgroup_snapshot_make(dir_fd, name, from_fd, family, how->read_only);
	if (r < 0)
		return err_set(e, -r, "snapshot a subvolume: %s", strerror(-r));
	return check_member(dir_fd, name, family, e);
}

static int btrfs_limit(struct store *s, int tree_fd, uint64_t bytes,
		       struct err *e)
{
	uint64_t family;
	int r = qgroup_family_of(tree_fd, &family);

	if (r == 0)
		r = qgroup_family_limit(s->root_fd, family, bytes);
	if (r < 0)
		return err_set(e, -r, "limit: %s", strerror(-r));
	return 0;
}

static int live_usage(struct store *s, uint64_t family, uint64_t *bytes)
{
	char path[64], text[32];
	int r;

	if (s->usage_fd < 0)
		return -ENOENT;
	snprintf(path, sizeof(path), "1_%llu/referenced",
		 (unsigned long long)family);
	r = (int)read_file_at(s->usage_fd, path, text, sizeof(text));
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = '\0';
	return parse_u64(text, UINT64_MAX, bytes);
}

static int btrfs_usage(struct store *s, int tree_fd, uint64_t *bytes,
		       struct err *e)
{
	uint64_t family;
	int r = qgroup_family_of(tree_fd, &family);

	if (r == 0 && live_usage(s, family, bytes) < 0)
		r = qgroup_family_usage(s->root_fd, family, bytes);
	if (r < 0)
		return err_set(e, -r, "usage: %s", strerror(-r));
	return 0;
}

/* The kernel frees what is destroyed after a commit. */
static void btrfs_settle(struct store *s, int tree_fd)
{
	uint64_t until = clock_boot_ms() + SETTLE_MS, family;

	if (qgroup_family_of(tree_fd, &family) < 0)
		return;
	while (qgroup_family_dying(s->root_fd, family) > 0 &&
	       ioctl(s->root_fd, BTRFS_IOC_SYNC) == 0 &&
	       clock_boot_ms() < until)
		usleep(SETTLE_STEP_US);
}

static int btrfs_seal(int tree_fd, struct err *e)
{
	uint64_t flags = 0;

	if (ioctl(tree_fd, BTRFS_IOC_SUBVOL_GETFLAGS, &flags) == 0) {
		flags |= BTRFS_SUBVOL_RDONLY;
		if (ioctl(tree_fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) == 0)
			return 0;
	}
	return err_sys(e, "set a subvolume read-only");
}

static void btrfs_unseal(int tree_fd)
{
	uint64_t flags = 0;

	if (ioctl(tree_fd, BTRFS_IOC_SUBVOL_GETFLAGS, &flags) < 0 ||
	    !(flags & BTRFS_SUBVOL_RDONLY))
		return;
	flags &= ~(uint64_t)BTRFS_SUBVOL_RDONLY;
	ioctl(tree_fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags);
}

static int btrfs_destroy(int dir_fd, const char *name)
{
	struct btrfs_ioctl_vol_args args = { 0 };
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_ino != BTRFS_FIRST_FREE_OBJECTID)
		return 0;
	snprintf(args.name, sizeof(args.name), "%s", name);
	return ioctl(dir_fd, BTRFS_IOC_SNAP_DESTROY, &args) < 0 ? -errno : 1;
}

static bool short_of_space(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_bavail < fs.f_blocks / 5;
}

/*
 * The kernel frees destroyed subvolumes after its next commit, 30 s at most. A
 * commit now slows everybody down for a moment, so only when space is needed.
 */
static int btrfs_sweep(struct store *s, struct err *e)
{
	int r = qgroup_sweep(s->root_fd, s->n_reserved ? s->first_reserved
						       : s->next_family);

	if (r < 0)
		return err_set(e, -r, "sweep quota groups: %s", strerror(-r));
	if (r > 0 && short_of_space(s->root_fd) &&
	    ioctl(s->root_fd, BTRFS_IOC_SYNC) < 0)
		return err_sys(e, "sync the pool");
	return r;
}

const struct store_ops store_btrfs = {
	.name = "btrfs",
	.instant = true,
	.start = btrfs_start,
	.make = btrfs_make,
	.family = btrfs_family,
	.clone = btrfs_clone,
	.limit = btrfs_limit,
	.usage = btrfs_usage,
	.settle = btrfs_settle,
	.seal = btrfs_seal,
	.unseal = btrfs_unseal,
	.destroy = btrfs_destroy,
	.sweep = btrfs_sweep,
};
