#include "base/owned.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
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

int owned_top(const char *path, struct err *e)
{
	int fd;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "create %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}
