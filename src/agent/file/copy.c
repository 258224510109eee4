/*
 * Copies: modes and times are kept, owners where we may, links stay links.
 * Blocks are shared where the file system can.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"
#include "base/fd.h"

static int fail(struct copy *c, struct err *e)
{
	return err_sys(e, "copy %.160s", buf_str(&c->path));
}

/* By way of our memory, from where both files are. */
static int copy_plain(int from, int to)
{
	AUTO_FREE char *p = xcalloc(1, IO_BYTES);

	for (;;) {
		ssize_t n = read(from, p, IO_BYTES);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = write_full(to, p, (size_t)n);
		if (r < 0)
			return r;
	}
}

/*
 * Until the end, and then once more the plain way: files of /proc have an end
 * for read() only, and some file systems cannot do the other.
 */
static int copy_bytes(int from, int to)
{
	ssize_t n;

	do
		n = copy_file_range(from, NULL, to, NULL, 1 << 30, 0);
	while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO ||
		      errno == EFBIG))
		return -errno;
	return copy_plain(from, to);
}

/* Mode last: a change of the owner takes set-id bits away. */
static int dress(int fd, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };

	/* Not ours to give: then it is ours. */
	if (geteuid() == 0 && fchown(fd, st->st_uid, st->st_gid) < 0 &&
	    errno != EPERM && errno != EINVAL)
		return -errno;
	if (fchmod(fd, st->st_mode & FILE_MODE_MAX) < 0 ||
	    futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int copy_file(struct copy *c, int from, const char *name, int to,
		     const char *as, struct err *e)
{
	/* Not to wait, should it have become a fifo. */
	AUTO_CLOSE int fd = openat(from, name,
				   O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
					   O_NOCTTY | O_CLOEXEC);
	AUTO(fresh_done) struct fresh f = { .fd = -1 };
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(c, e);
	if (!S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "%.160s is no regular file any more",
			       buf_str(&c->path));
	r = fresh_open(&f, to, as, e);
	if (r < 0)
		return r;
	r = copy_bytes(fd, f.fd);
	if (r == 0)
		r = dress(f.fd, &st);
	if (r < 0) {
		errno = -r;
		return fail(c, e);
	}
	return fresh_place(&f, as, c->overwrite, as, e);
}

/* Links and fifos replace what is there, but never a directory. */
static int clear_way(struct copy *c, int to, const char *as)
{
	if (errno != EEXIST || !c->overwrite)
		return -errno;
	return unlinkat(to, as, 0) < 0 ? -errno : 0;
}

static int copy_link(struct copy *c, int from, const char *name, int to,
		     const char *as, struct err *e)
{
	char target[FILE_PATH_MAX + 1];
	ssize_t n = readlinkat(from, name, target, sizeof(target));
	int r;

	if (n < 0)
		return fail(c, e);
	if ((size_t)n == sizeof(target))
		return err_set(e, ENAMETOOLONG,
			       "copy %.160s: its target is "
			       "too long",
			       buf_str(&c->path));
	target[n] = '\0';
	r = symlinkat(target, to, as);
	if (r < 0)
		r = clear_way(c, to, as) < 0 ? -1 : symlinkat(target, to, as);
	return r < 0 ? fail(c, e) : 0;
}

static int copy_fifo(struct copy *c, const struct stat *st, int to,
		     const char *as, struct err *e)
{
	mode_t mode = st->st_mode & FILE_MODE_MAX;
	int r = mkfifoat(to, as, mode);

	if (r < 0)
		r = clear_way(c, to, as) < 0 ? -1 : mkfifoat(to, as, mode);
	return r < 0 ? fail(c, e) : 0;
}

static int copy_entries(struct copy *c, int from, int to, struct err *e)
{
	AUTO_DIR DIR *d = dir_stream(from);
	const char *name;
	int r = 0;

	if (!d)
		return err_set(e, ENOMEM, "no memory");
	while (r == 0 && (name = dir_next(d))) {
		size_t was = path_push(&c->path, name);

		r = copy_any(c, from, name, to, name, e);
		path_pop(&c->path, was);
	}
	if (r == 0 && errno)
		return fail(c, e);
	return r;
}

static int copy_dir(struct copy *c, int from, const char *name, int to,
		    const char *as, struct err *e)
{
	AUTO_CLOSE int sub = dir_open(from, name, c->exact);
	AUTO_CLOSE int new = -1;
	struct stat st;
	int r;

	if (sub < 0) {
		errno = -sub;
		return fail(c, e);
	}
	if (fstat(sub, &st) < 0)
		return fail(c, e);
	if (c->depth == TREE_DEPTH_MAX)
		return err_set(e, ELOOP,
			       "copy %.160s...: more than %d directories deep",
			       buf_str(&c->path), TREE_DEPTH_MAX);
	if (mkdirat(to, as, 0700) < 0 && (errno != EEXIST || !c->overwrite))
		return fail(c, e);
	new = dir_open(to, as, false);
	if (new < 0) {
		errno = -new;
		return fail(c, e);
	}
	c->depth++;
	r = copy_entries(c, take_fd(&sub), new, e);
	c->depth--;
	if (r == 0) {
		r = dress(new, &st);
		errno = -r;
		r = r < 0 ? fail(c, e) : 0;
	}
	return r;
}

int copy_any(struct copy *c, int from, const char *name, int to, const char *as,
	     struct err *e)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(c, e);
	switch (type_of(st.st_mode)) {
	case FILE_REGULAR:
		return copy_file(c, from, name, to, as, e);
	case FILE_DIRECTORY:
		return copy_dir(c, from, name, to, as, e);
	case FILE_SYMLINK:
		return copy_link(c, from, name, to, as, e);
	case FILE_FIFO:
		return copy_fifo(c, &st, to, as, e);
	case FILE_NONE:
	case FILE_SOCKET:
	case FILE_CHAR:
	case FILE_BLOCK:
	case FILE_TYPES:
		break;
	}
	if (c->exact || c->depth == 0)
		return err_set(e, EINVAL, "%.160s cannot be copied: it is a %s",
			       buf_str(&c->path),
			       file_type_name(type_of(st.st_mode)));
	return out_note(e, "%.400s: left out, it is a %s", buf_str(&c->path),
			file_type_name(type_of(st.st_mode)));
}

/* Is the directory `fd`, or one above it, the one of `st`? */
static bool is_below(int fd, const struct stat *st)
{
	AUTO_CLOSE int at = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct stat here, last = { 0 };

	while (at >= 0 && fstat(at, &here) == 0) {
		int up;

		if (here.st_dev == st->st_dev && here.st_ino == st->st_ino)
			return true;
		if (here.st_dev == last.st_dev && here.st_ino == last.st_ino)
			return false; /* the root is its own parent */
		last = here;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = up;
	}
	return false;
}

static int check(const struct file_job *j, const struct stat *st,
		 const struct place *to, struct err *e)
{
	struct stat there;

	if (S_ISDIR(st->st_mode) && is_below(to->dir_fd, st))
		return err_set(e, EINVAL, "%.120s cannot be copied into itself",
			       j->path);
	if (fstatat(to->dir_fd, to->name, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "%.160s", j->to);
	if (!j->overwrite)
		return err_set(e, EEXIST, "%.160s: File exists", j->to);
	if (there.st_dev == st->st_dev && there.st_ino == st->st_ino)
		return err_set(e, EINVAL, "%.100s and %.100s are the same",
			       j->path, j->to);
	return 0;
}

int job_copy(const struct file_job *j, struct err *e)
{
	AUTO(place_done) struct place from = { .dir_fd = -1 };
	AUTO(place_done) struct place to = { .dir_fd = -1 };
	AUTO(buf_done) struct buf shown = { 0 };
	struct copy c = { .overwrite = j->overwrite };
	struct stat st;
	int r = path_show(j->to, &shown, e);

	if (r == 0)
		r = place_find(&from, j->path, &st, e);
	if (r == 0 && S_ISDIR(st.st_mode) && !j->recursive)
		r = err_set(e, EISDIR,
			    "%.160s is a directory, and recursive was not "
			    "asked for",
			    j->path);
	if (r == 0)
		r = place_open(&to, j->to, j->parents, e);
	if (r == 0)
		r = check(j, &st, &to, e);
	if (r < 0)
		return r;
	buf_puts(&c.path, j->path);
	r = copy_any(&c, from.dir_fd, from.name, to.dir_fd, to.name, e);
	buf_done(&c.path);
	if (r < 0)
		return r;
	return out_entry(to.dir_fd, to.name, buf_data(&shown), false, e);
}
