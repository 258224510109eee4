#include "sandbox/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

/* The kernel's own words about a failed mount, when it has any. */
static int mount_err(struct err *e, int fs_fd, const char *what,
		     const char *type)
{
	int saved = errno;
	char log[160];
	ssize_t n = read(fs_fd, log, sizeof(log) - 1);

	if (n > 2) {
		log[n] = '\0';
		return err_set(e, saved, "%s %s: %s (%s)", what, type,
			       strerror(saved), log + 2);
	}
	errno = saved;
	return err_sys(e, "%s %s", what, type);
}

int mount_new(const char *type, const struct mount_opt *opts,
	      unsigned attr_flags, struct err *e)
{
	AUTO_CLOSE int fs_fd = fsopen(type, FSOPEN_CLOEXEC);
	int fd;

	if (fs_fd < 0)
		return err_sys(e, "file system %s", type);
	for (; opts && opts->key; opts++) {
		unsigned cmd =
			opts->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;

		if (fsconfig(fs_fd, cmd, opts->key, opts->value, 0) < 0)
			return mount_err(e, fs_fd, opts->key, type);
	}
	if (fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return mount_err(e, fs_fd, "mount", type);
	fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, attr_flags);
	return fd < 0 ? mount_err(e, fs_fd, "mount", type) : fd;
}

int mount_at(int mnt_fd, int at_fd, struct err *e)
{
	if (move_mount(mnt_fd, "", at_fd, "",
		       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_sys(e, "attach mount");
	return 0;
}

int mount_clone(int dir_fd, const char *path, uint64_t attr_flags,
		int userns_fd, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	/* Not a peer of the one it comes from: on hosts whose mounts are
	 * shared, what is attached over the copy would appear there too. */
	struct mount_attr attr = { .attr_set = attr_flags,
				   .propagation = MS_PRIVATE };

	fd = open_tree(dir_fd, path,
		       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
			       AT_SYMLINK_NOFOLLOW);
	if (fd < 0)
		return err_sys(e, "open tree %s", path);
	if (userns_fd >= 0) {
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (uint64_t)userns_fd;
	}
	if (mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_sys(e, "set attributes of mount %s", path);
	return take_fd(&fd);
}

int open_beneath(int dir_fd, const char *name, int flags)
{
	struct open_how how = { .flags = (uint64_t)flags | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH |
					   RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_XDEV };
	long fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}
