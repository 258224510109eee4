#include "base/owned.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

int owned_dir_at(int parent_fd, const char *path, uid_t uid, gid_t gid,
		 unsigned mode, struct err *e)
{
	AUTO_CLOSE int fd = -1;

	if (mkdirat(parent_fd, path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "create %s", path);
	fd = openat(parent_fd, path,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s", path);
	if (fchown(fd, uid, gid) < 0 || fchmod(fd, mode) < 0)
		return err_sys(e, "set the owner of %s", path);
	return take_fd(&fd);
}

int owned_new_dir_at(int parent_fd, const char *name, uid_t uid, gid_t gid,
		     unsigned mode, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	char fresh[64];

	if (faccessat(parent_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return owned_dir_at(parent_fd, name, uid, gid, mode, e);
	snprintf(fresh, sizeof(fresh), "%s.new.%d", name, (int)getpid());
	fd = owned_dir_at(parent_fd, fresh, uid, gid, mode, e);
	if (fd < 0)
		return fd;
	/* musl has no name for it. */
	if (syscall(SYS_renameat2, parent_fd, fresh, parent_fd, name,
		    RENAME_NOREPLACE) == 0)
		return take_fd(&fd);
	if (errno != EEXIST)
		return err_sys(e, "create %s", name);
	/* Somebody else was faster. */
	(void)unlinkat(parent_fd, fresh, AT_REMOVEDIR);
	return owned_dir_at(parent_fd, name, uid, gid, mode, e);
}

int owned_top(const char *path, struct err *e)
{
	int fd;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "create %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}
