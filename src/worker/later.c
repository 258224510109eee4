#include "worker/later.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "worker/limits.h"
#include "worker/tree.h"

/* A record: the time, then the path with its NUL. */
void later_add(struct later *l, const char *path, const struct timespec *mtime)
{
	size_t n = strlen(path) + 1;

	if (l->len + sizeof(*mtime) + n > LATER_BYTES_MAX)
		return;
	if (l->len + sizeof(*mtime) + n > l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64 * 1024;
		l->p = xrealloc(l->p, l->cap);
	}
	memcpy(l->p + l->len, mtime, sizeof(*mtime));
	memcpy(l->p + l->len + sizeof(*mtime), path, n);
	l->len += sizeof(*mtime) + n;
}

static int set_time(int root_fd, const char *path, const struct timespec *mtime,
		    struct err *e)
{
	const struct timespec times[2] = { *mtime, *mtime };
	AUTO_CLOSE int fd = tree_open(root_fd, path, O_RDONLY | O_DIRECTORY, 0);

	/* A later entry may have put something else there. */
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	if (fd < 0)
		errno = -fd;
	if (fd < 0 || futimens(fd, times) < 0)
		return err_sys(e, "entry %.100s: set its time", path);
	return 0;
}

int later_apply(const struct later *l, int root_fd, struct err *e)
{
	struct timespec mtime;
	size_t at = 0;
	int r;

	while (at < l->len) {
		const char *path = l->p + at + sizeof(mtime);

		memcpy(&mtime, l->p + at, sizeof(mtime));
		r = set_time(root_fd, path, &mtime, e);
		if (r < 0)
			return r;
		at += sizeof(mtime) + strlen(path) + 1;
	}
	return 0;
}

void later_done(struct later *l)
{
	free(l->p);
	l->p = NULL;
	l->len = l->cap = 0;
}
