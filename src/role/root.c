#include "role/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"

enum { QUIET = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC };

static int apart_at(int dir_fd, const char *path)
{
	return open_tree(dir_fd, path,
			 AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE |
				 OPEN_TREE_CLOEXEC);
}

int root_apart(int dir_fd, struct err *e)
{
	int fd = apart_at(dir_fd, "");

	return fd < 0 ? err_sys(e, "set a directory apart") : fd;
}

static int new_root(void)
{
	AUTO_CLOSE int fs_fd = fsopen("tmpfs", FSOPEN_CLOEXEC);

	if (fs_fd < 0 ||
	    fsconfig(fs_fd, FSCONFIG_SET_STRING, "mode", "0555", 0) < 0 ||
	    fsconfig(fs_fd, FSCONFIG_SET_STRING, "size", "256k", 0) < 0 ||
	    fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return fsmount(fs_fd, FSMOUNT_CLOEXEC, QUIET);
}

/* A place for it, with the directories above. */
static int make_place(int root_fd, const char *path, bool is_dir)
{
	char at[PATH_MAX], *slash;
	AUTO_CLOSE int fd = -1;

	if (*path != '/' || str_copy(at, sizeof(at), path + 1) < 0) {
		errno = EINVAL;
		return -1;
	}
	for (slash = at; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		if (mkdirat(root_fd, at, 0755) < 0 && errno != EEXIST)
			return -1;
	}
	if (faccessat(root_fd, at, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (is_dir)
		return mkdirat(root_fd, at, 0755);
	fd = openat(root_fd, at, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		    0444);
	return fd < 0 ? -1 : 0;
}

static int put(int root_fd, const struct root_part *p, int fd, struct err *e)
{
	struct mount_attr attr = {
		.attr_set =
			(uint64_t)QUIET | (p->writable ? 0 : MOUNT_ATTR_RDONLY),
		.propagation = MS_PRIVATE,
	};
	struct stat st;

	if (mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
			  sizeof(attr)) < 0 ||
	    fstat(fd, &st) < 0 ||
	    make_place(root_fd, p->path, S_ISDIR(st.st_mode)) < 0 ||
	    move_mount(fd, "", root_fd, p->path + 1, MOVE_MOUNT_F_EMPTY_PATH) <
		    0)
		return err_sys(e, "take %s along", p->path);
	return 0;
}

static int put_part(int root_fd, const struct root_part *p, struct err *e)
{
	AUTO_CLOSE int fd = -1;

	if (p->fd >= 0)
		return put(root_fd, p, p->fd, e);
	fd = apart_at(AT_FDCWD, p->path);
	if (fd < 0 && p->optional && errno == ENOENT)
		return 0;
	return fd < 0 ? err_sys(e, "open %s", p->path) : put(root_fd, p, fd, e);
}

#ifdef SANITIZED /* the leak checker reads its own maps */
static int put_proc(int root_fd, struct err *e)
{
	AUTO_CLOSE int fs_fd = fsopen("proc", FSOPEN_CLOEXEC), fd = -1;

	if (fs_fd >= 0 &&
	    fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, QUIET);
	if (fd < 0 || make_place(root_fd, "/proc", true) < 0 ||
	    move_mount(fd, "", root_fd, "proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(e, "mount /proc");
	return 0;
}
#endif

/* pivot_root(2): with "." twice the old root ends up over the new one. */
static int change_to(int root_fd, struct err *e)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };

	if (mount_setattr(root_fd, "", AT_EMPTY_PATH, &read_only,
			  sizeof(read_only)) < 0)
		return err_sys(e, "make the root read-only");
	if (fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, "change to the root");
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(e, "unmount the host's files");
	return 0;
}

int root_enter(const struct root_part *parts, size_t n, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	mode_t mask;
	size_t i;
	int r = 0;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make the mounts private");
	fd = new_root();
	if (fd < 0)
		return err_sys(e, "make an empty root");
	/* Attached before it is filled: nothing can be mounted on what is not.
	 * Paths are still the host's: "/" is what it covers. */
	if (move_mount(fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(e, "mount an empty root");
	mask = umask(022); /* places are for everybody to pass */
#ifdef SANITIZED
	r = put_proc(fd, e);
#endif
	for (i = 0; i < n && r == 0; i++)
		r = put_part(fd, &parts[i], e);
	umask(mask);
	return r < 0 ? r : change_to(fd, e);
}
