/*
 * A tar from a sandbox becomes files here. Whoever is inside chose each byte:
 *
 *	Each name is walked one part after the other, from the directory we
 *	were given, and no part may be ".." or a link.
 *	What is in the way of a file is removed, never written through.
 *	Permissions are at most rwx; owners are ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "cli/archive.h"
#include "cli/cli.h"
#include "wire/tar.h"

enum {
	PIECE = 64 * 1024,
	DIRS_MAX = 100 * 1000, /* whose permissions are set at the end */
};

/* A directory may be read-only, so that is done when all is in it. */
struct dir_mode {
	char *path;
	mode_t mode;
	struct timespec mtime;
};

struct unpacker {
	int in_fd, root_fd;
	struct tar_entry t;
	struct tar_extra x;
	struct dir_mode *dirs;
	size_t n_dirs;
	uint64_t left_out;
};

static int read_bytes(struct unpacker *u, void *p, size_t n, struct err *e)
{
	ssize_t r = read_full(u->in_fd, p, n);

	if (r < 0)
		return err_set(e, (int)-r, "read the archive: %s",
			       strerror((int)-r));
	if ((size_t)r < n)
		return err_set(e, EBADMSG, "the archive was cut short");
	return 0;
}

static int skip(struct unpacker *u, uint64_t n, struct err *e)
{
	char piece[4096];

	while (n > 0) {
		size_t some = n < sizeof(piece) ? (size_t)n : sizeof(piece);

		if (read_bytes(u, piece, some, e) < 0)
			return -e->code;
		n -= some;
	}
	return 0;
}

/* Opens a directory below `at`, and makes it when it is missing. */
static int step(int at, const char *name, struct err *e)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(at, name, flags);

	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "create %s", name);
		fd = openat(at, name, flags);
	}
	return fd < 0 ? err_sys(e, "open %s", name) : fd;
}

/*
 * The directory that `path` is in, and its last part in `name`; "" when the
 * path is the root itself. `path` is cut into pieces.
 */
static int walk(struct unpacker *u, char *path, const char **name,
		struct err *e)
{
	int fd = fcntl(u->root_fd, F_DUPFD_CLOEXEC, 0);
	char *next, *part = path + strspn(path, "/");

	*name = "";
	if (fd < 0)
		return err_sys(e, "open the directory");
	for (;; part = next) {
		size_t n = strcspn(part, "/");
		int into;

		next = part + n + strspn(part + n, "/");
		part[n] = '\0';
		if (strcmp(part, "..") == 0) {
			close(fd);
			return err_set(e, EBADMSG,
				       "a name in the archive has '..'");
		}
		if (strcmp(part, ".") == 0)
			part[0] = '\0';
		if (*next == '\0') {
			*name = part;
			return fd;
		}
		if (*part == '\0')
			continue;
		into = step(fd, part, e);
		close(fd);
		if (into < 0)
			return into;
		fd = into;
	}
}

static int clear_way(int at, const char *name, struct err *e)
{
	if (unlinkat(at, name, 0) < 0 && errno != ENOENT)
		return err_sys(e, "replace %s", name);
	return 0;
}

static int copy_content(struct unpacker *u, int fd, struct err *e)
{
	static char piece[PIECE];
	uint64_t left = u->t.size;
	int r;

	while (left > 0) {
		size_t n = left < PIECE ? (size_t)left : PIECE;

		if (read_bytes(u, piece, n, e) < 0)
			return -e->code;
		r = write_full(fd, piece, n);
		if (r < 0)
			return err_set(e, -r, "write: %s", strerror(-r));
		left -= n;
	}
	return skip(u, tar_padding(u->t.size), e);
}

static int make_file(struct unpacker *u, int at, const char *name,
		     struct err *e)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
					   u->t.mtime };
	AUTO_CLOSE int fd = -1;

	if (clear_way(at, name, e) < 0)
		return -e->code;
	fd = openat(at, name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "create");
	if (copy_content(u, fd, e) < 0)
		return -e->code;
	if (fchmod(fd, u->t.mode & 0777) < 0)
		return err_sys(e, "set permissions");
	/* Not every file system can; the content is what counts. */
	if (futimens(fd, times) < 0)
		return errno == EPERM || errno == EINVAL
			       ? 0
			       : err_sys(e, "set the time");
	return 0;
}

static int make_dir(struct unpacker *u, const char *path, int at,
		    const char *name, struct err *e)
{
	int fd = *name ? step(at, name, e) : 0;

	if (fd < 0)
		return fd;
	if (*name)
		close(fd);
	if (u->n_dirs == DIRS_MAX || !*name)
		return 0;
	if (u->n_dirs % 1024 == 0)
		u->dirs = xrealloc(u->dirs,
				   (u->n_dirs + 1024) * sizeof(*u->dirs));
	u->dirs[u->n_dirs++] = (struct dir_mode){ .path = xstrdup(path),
						  .mode = u->t.mode & 0777,
						  .mtime = u->t.mtime };
	return 0;
}

/* A second name for a file of the archive, found as names are. */
static int make_hard_link(struct unpacker *u, int at, const char *name,
			  struct err *e)
{
	AUTO_CLOSE int from = -1;
	const char *old;

	from = walk(u, u->t.link, &old, e);
	if (from < 0)
		return from;
	if (clear_way(at, name, e) < 0)
		return -e->code;
	if (linkat(from, old, at, name, 0) < 0)
		return err_sys(e, "link to %s", old);
	return 0;
}

static int make_symlink(struct unpacker *u, int at, const char *name,
			struct err *e)
{
	if (clear_way(at, name, e) < 0)
		return -e->code;
	return symlinkat(u->t.link, at, name) < 0 ? err_sys(e, "link") : 0;
}

static int make_entry(struct unpacker *u, struct err *e)
{
	AUTO_FREE char *path = xstrdup(u->t.path);
	AUTO_CLOSE int at = -1;
	const char *name;

	at = walk(u, u->t.path, &name, e);
	if (at < 0)
		return err_wrap(e, "%s", path);
	if (*name == '\0' && u->t.type != TAR_DIR)
		return err_set(e, EBADMSG, "a file without a name");
	switch (u->t.type) {
	case TAR_FILE:
		if (make_file(u, at, name, e) < 0)
			return err_wrap(e, "%s", path);
		return 0;
	case TAR_DIR:
		return make_dir(u, path, at, name, e);
	case TAR_SYMLINK:
		if (make_symlink(u, at, name, e) < 0)
			return err_wrap(e, "%s", path);
		return 0;
	case TAR_HARDLINK:
		if (make_hard_link(u, at, name, e) < 0)
			return err_wrap(e, "%s", path);
		return 0;
	default:
		u->left_out++;
		return skip(u, u->t.size + tar_padding(u->t.size), e);
	}
}

/* What belongs to the entry behind it. */
static int read_extra(struct unpacker *u, struct err *e)
{
	AUTO_FREE char *p = NULL;
	size_t n = (size_t)u->t.size;
	int r;

	if (u->t.size > TAR_PAX_MAX)
		return err_set(e, EBADMSG,
			       "a header in the archive is too "
			       "large");
	p = xcalloc(1, n + 1);
	if (read_bytes(u, p, n, e) < 0 || skip(u, tar_padding(n), e) < 0)
		return -e->code;
	if (u->t.type == TAR_PAX_GLOBAL)
		return 0;
	r = u->t.type == TAR_PAX ? tar_pax_get(p, n, &u->x, e)
				 : tar_long_get(u->t.type, p, n, &u->x, e);
	return r;
}

static bool is_extra(char type)
{
	return type == TAR_PAX || type == TAR_PAX_GLOBAL ||
	       type == TAR_LONG_NAME || type == TAR_LONG_LINK;
}

static int unpack_all(struct unpacker *u, struct err *e)
{
	uint8_t block[TAR_BLOCK];
	int r;

	for (;;) {
		if (read_bytes(u, block, sizeof(block), e) < 0)
			return -e->code;
		r = tar_head_get(block, &u->t, e);
		if (r <= 0)
			return r;
		if (is_extra(u->t.type)) {
			r = read_extra(u, e);
		} else {
			if (u->x.sparse)
				return err_set(e, ENOTSUP,
					       "the archive has a file with "
					       "holes, which is not supported");
			tar_finish(&u->t, &u->x);
			u->x = (struct tar_extra){ 0 };
			r = make_entry(u, e);
		}
		if (r < 0)
			return r;
	}
}

/* The deepest first: they come behind those they are in. */
static int set_dirs(struct unpacker *u, struct err *e)
{
	while (u->n_dirs > 0) {
		struct dir_mode *d = &u->dirs[--u->n_dirs];
		const struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
						   d->mtime };
		const char *name;
		int at = walk(u, d->path, &name, e), fd;

		fd = at < 0 ? at : step(at, name, e);
		free(d->path);
		auto_close(&at);
		if (fd < 0)
			return fd;
		if (fchmod(fd, d->mode) < 0 ||
		    (futimens(fd, times) < 0 && errno != EPERM)) {
			close(fd);
			return err_sys(e, "set permissions");
		}
		close(fd);
	}
	return 0;
}

/* The zeros at the end: who sends them is not to be cut off. */
static void drain(int fd)
{
	char piece[4096];

	while (read_full(fd, piece, sizeof(piece)) > 0)
		;
}

int archive_unpack(int in_fd, int dir_fd, struct err *e)
{
	static struct unpacker u;
	int r;

	u = (struct unpacker){ .in_fd = in_fd, .root_fd = dir_fd };
	r = unpack_all(&u, e);
	if (r == 0) {
		drain(in_fd);
		r = set_dirs(&u, e);
	}
	if (r == 0 && u.left_out > 0)
		complain("left out: %llu that are no files, directories or "
			 "links",
			 (unsigned long long)u.left_out);
	while (u.n_dirs > 0)
		free(u.dirs[--u.n_dirs].path);
	free(u.dirs);
	return r;
}
