/* A file of a state: its content. Links on the way lead where they would in
 * the sandbox; the file itself must be one. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "worker/look.h"
#include "worker/tree.h"

static int open_file(const struct look *l, const char *path, struct err *e)
{
	struct statx sx;
	/* First only its name: a fifo must not be opened. */
	AUTO_CLOSE int fd = tree_open_inside(l->side[0].fd, path + 1,
					     O_PATH | O_NOFOLLOW, 0);

	if (fd < 0) {
		errno = -fd;
		return err_sys(e, "%.180s", path);
	}
	if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &sx) < 0)
		return err_sys(e, "%.180s: look at it", path);
	if (S_ISDIR(sx.stx_mode))
		return err_set(e, EISDIR, "%.180s is a directory", path);
	if (!S_ISREG(sx.stx_mode))
		return err_set(e, EINVAL, "%.180s is not a regular file", path);
	close(take_fd(&fd));
	fd = tree_open_inside(l->side[0].fd, path + 1,
			      O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0) {
		errno = -fd;
		return err_sys(e, "%.180s: open", path);
	}
	return take_fd(&fd);
}

int look_read(struct look *l, struct err *e)
{
	static char chunk[VIEW_DATA_MAX];
	AUTO_CLOSE int fd = -1;
	ssize_t n;
	int r;

	if (l->ask.n != 1 || l->ask.flags)
		return err_set(e, EINVAL, "one path is read at a time");
	fd = open_file(l, l->ask.paths[0], e);
	if (fd < 0)
		return fd;
	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "%.180s: read", l->ask.paths[0]);
		l->say.bytes += (size_t)n;
		r = say_data(&l->say, chunk, (size_t)n, e);
		if (r < 0)
			return r;
	}
	return 0;
}
