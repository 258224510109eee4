/*
 * A file grows without a name and gets one when it is complete: who reads the
 * old one goes on reading it, and one that was given up (we are killed when
 * the client leaves) leaves nothing behind. Where the file system knows no
 * files without a name it has one that starts with ".~".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"

enum { TRIES = 16 };

static int make_name(struct fresh *f)
{
	unsigned long long v;

	if (getrandom(&v, sizeof(v), 0) != sizeof(v))
		return -EIO;
	snprintf(f->temp, sizeof(f->temp), ".~%016llx", v);
	return 0;
}

bool fresh_is_temp(const char *name)
{
	return strncmp(name, ".~", 2) == 0 && strlen(name) == 18 &&
	       strspn(name + 2, "0123456789abcdef") == 16;
}

static int open_named(struct fresh *f)
{
	int i, fd;

	for (i = 0; i < TRIES; i++) {
		int r = make_name(f);

		if (r < 0)
			return r;
		fd = openat(f->dir_fd, f->temp,
			    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
		if (fd >= 0 || errno != EEXIST)
			return fd < 0 ? -errno : fd;
	}
	return -EEXIST;
}

int fresh_open(struct fresh *f, int dir_fd, const char *shown, struct err *e)
{
	*f = (struct fresh){ .dir_fd = dir_fd };
	f->fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (f->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
		f->fd = open_named(f);
		if (f->fd < 0) {
			errno = -f->fd;
			f->temp[0] = '\0';
		}
	}
	return f->fd < 0 ? err_sys(e, "%.160s: make a file beside it", shown)
			 : 0;
}

/* A name for a file that has none; linkat() replaces nothing. */
static int give_name(struct fresh *f, const char *name)
{
	char self[32];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	if (linkat(AT_FDCWD, self, f->dir_fd, name, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return 0;
}

static int give_temp(struct fresh *f)
{
	int i, r = -EEXIST;

	for (i = 0; i < TRIES && r == -EEXIST; i++) {
		r = make_name(f);
		if (r == 0)
			r = give_name(f, f->temp);
	}
	if (r < 0)
		f->temp[0] = '\0';
	return r;
}

static int place(struct fresh *f, const char *name, bool overwrite)
{
	int r = -EEXIST;

	if (!f->temp[0]) {
		r = give_name(f, name);
		if (r != -EEXIST || !overwrite)
			return r;
		r = give_temp(f);
		if (r < 0)
			return r;
	}
	r = rename_at(f->dir_fd, f->temp, f->dir_fd, name, overwrite);
	if (r == 0)
		f->temp[0] = '\0';
	return r;
}

int fresh_place(struct fresh *f, const char *name, bool overwrite,
		const char *shown, struct err *e)
{
	int r = place(f, name, overwrite);

	if (r == 0)
		return 0;
	errno = -r;
	return err_sys(e, "%.160s", shown);
}

void fresh_done(struct fresh *f)
{
	if (f->fd >= 0 && f->temp[0])
		unlinkat(f->dir_fd, f->temp, 0);
	f->temp[0] = '\0';
	auto_close(&f->fd);
}
