/*
 * The two trees are walked together, and what differs is made anew in the
 * first. Names of a directory are read before anything in it is changed, and
 * nothing is ever written through what is already there: a file that differs
 * is replaced. Content that the pool can share is shared.
 */
#include "worker/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/list.h"
#include "base/str.h"
#include "worker/compare.h"
#include "worker/limits.h"
#include "worker/links.h"
#include "worker/tree.h"
#include "worker/walk.h"

enum { IMAGE, STATE }; /* sides: what is filled, and what it becomes */
enum { CHUNK = 128 * 1024 };

struct apply {
	struct look l;
	struct walk w;
	struct links links;
	struct report *report;
	uint64_t bytes;
};

static int failed(const struct visit *v, const char *doing, struct err *e)
{
	if (errno == ENOSPC || errno == EDQUOT)
		return err_set(e, errno,
			       "%.100s: no space left in the pool: remove "
			       "images or grow it",
			       v->path);
	return err_sys(e, "%.150s: %s", v->path, doing);
}

static int alive(struct say *s, struct err *e)
{
	struct apply *a = container_of(s, struct apply, l.say);

	return report_progress(a->report, s->entries, a->bytes, e);
}

/* --- one entry --- */

static int copy_attrs(const struct visit *v, int from, int to, struct err *e)
{
	static char list[XATTR_LIST_MAX], value[ENTRY_XATTR_VALUE_MAX];
	ssize_t n = flistxattr(from, list, sizeof(list)), size;
	int left = ENTRY_XATTRS_MAX;
	const char *name;

	if (n < 0 && errno == ENOTSUP)
		return 0;
	if (n < 0)
		return failed(v, "list its attributes", e);
	for (name = list; name < list + n; name += strlen(name) + 1) {
		if (!str_starts(name, "user.") ||
		    str_starts(name, "user.overlay."))
			continue;
		size = fgetxattr(from, name, value, sizeof(value));
		if (left-- == 0 || size < 0)
			return err_set(e, E2BIG,
				       "%.150s: too many attributes, or too "
				       "large ones",
				       v->path);
		if (fsetxattr(to, name, value, (size_t)size, 0) < 0)
			return failed(v, "set an attribute", e);
	}
	return 0;
}

struct copy {
	struct apply *a;
	const struct visit *v;
	int from, to;
};

static int put_bytes(const struct copy *c, const char *p, size_t n, off_t at,
		     struct err *e)
{
	while (n > 0) {
		ssize_t put = pwrite(c->to, p, n, at);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return failed(c->v, "write", e);
		p += put;
		n -= (size_t)put;
		at += put;
		c->a->bytes += (size_t)put;
	}
	return say_alive(&c->a->l.say, e);
}

/* Holes stay holes. */
static int copy_bytes(const struct copy *c, struct err *e)
{
	static char chunk[CHUNK];
	off_t at = 0;
	int r = 0;

	while (r == 0) {
		off_t data = lseek(c->from, at, SEEK_DATA);
		ssize_t n;

		if (data < 0 && errno == ENXIO)
			break;
		at = data < 0 ? at : data;
		n = pread(c->from, chunk, sizeof(chunk), at);
		if (n < 0)
			return failed(c->v, "read", e);
		if (n == 0)
			break;
		r = put_bytes(c, chunk, (size_t)n, at, e);
		at += n;
	}
	if (r == 0 && ftruncate(c->to, (off_t)c->v->at[STATE].sx.stx_size) < 0)
		return failed(c->v, "set its size", e);
	return r;
}

/* Only files of the same file system share: not those that a view shows. */
static bool share(const struct visit *v, int from, int to)
{
	return v->is_upper[STATE] && ioctl(to, FICLONE, from) == 0;
}

static int finish(const struct visit *v, int fd, mode_t dropped, struct err *e)
{
	const struct statx *sx = &v->at[STATE].sx;
	const struct timespec t = { sx->stx_mtime.tv_sec,
				    sx->stx_mtime.tv_nsec };
	const struct timespec times[2] = { t, t };

	if (fchown(fd, sx->stx_uid, sx->stx_gid) < 0 ||
	    fchmod(fd, sx->stx_mode & 07777 & ~dropped) < 0 ||
	    futimens(fd, times) < 0)
		return failed(v, "set owner, mode and time", e);
	return 0;
}

static int make_file(struct apply *a, const struct visit *v, struct err *e)
{
	AUTO_CLOSE int from = walk_open(v, STATE), fd = -1;
	int r = 0;

	if (from < 0) {
		errno = -from;
		return failed(v, "open", e);
	}
	fd = tree_open(v->dir_fd[IMAGE], v->name, O_RDWR | O_CREAT | O_EXCL,
		       0600);
	if (fd < 0) {
		errno = -fd;
		return failed(v, "create the file", e);
	}
	if (!share(v, from, fd))
		r = copy_bytes(&(struct copy){ a, v, from, fd }, e);
	if (r == 0)
		r = copy_attrs(v, from, fd, e);
	return r < 0 ? r : finish(v, fd, S_ISUID | S_ISGID, e);
}

/* Another name of a file that is there already. */
static int make_link(struct apply *a, const struct visit *v, const char *first,
		     struct err *e)
{
	AUTO_CLOSE int dir_fd = -1;
	char dir[FILE_PATH_MAX + 1];
	const char *name = strrchr(first, '/');
	size_t n = (size_t)(name - first);

	memcpy(dir, first, n);
	dir[n] = '\0';
	dir_fd = tree_open(a->l.side[IMAGE].fd, dir + (n > 0),
			   O_PATH | O_DIRECTORY, 0);
	if (dir_fd < 0) {
		errno = -dir_fd;
		return failed(v, "open the directory of its first name", e);
	}
	if (linkat(dir_fd, name + 1, v->dir_fd[IMAGE], v->name, 0) < 0)
		return failed(v, "link", e);
	return 0;
}

static int make_regular(struct apply *a, const struct visit *v, struct err *e)
{
	const struct statx *sx = &v->at[STATE].sx;
	const char *first = NULL;

	if (sx->stx_nlink > 1)
		first = links_first(&a->links, sx, v->path);
	return first ? make_link(a, v, first, e) : make_file(a, v, e);
}

static int by_name(const struct visit *v, struct err *e)
{
	const struct statx *sx = &v->at[STATE].sx;
	const struct timespec t = { sx->stx_mtime.tv_sec,
				    sx->stx_mtime.tv_nsec };
	const struct timespec times[2] = { t, t };

	if (fchownat(v->dir_fd[IMAGE], v->name, sx->stx_uid, sx->stx_gid,
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    utimensat(v->dir_fd[IMAGE], v->name, times, AT_SYMLINK_NOFOLLOW) <
		    0)
		return failed(v, "set owner and time", e);
	return 0;
}

static int make_symlink(const struct visit *v, struct err *e)
{
	static char target[PATH_MAX];
	ssize_t n = readlinkat(walk_dir(v, STATE), v->name, target,
			       sizeof(target) - 1);

	if (n < 0)
		return failed(v, "read the link", e);
	target[n] = '\0';
	if (symlinkat(target, v->dir_fd[IMAGE], v->name) < 0)
		return failed(v, "create the link", e);
	return by_name(v, e);
}

static int make_fifo(const struct visit *v, struct err *e)
{
	if (mknodat(v->dir_fd[IMAGE], v->name,
		    S_IFIFO | (v->at[STATE].sx.stx_mode & 0777), 0) < 0)
		return failed(v, "create the fifo", e);
	return by_name(v, e);
}

/* Owner, mode and attributes; its time when all is in it. */
static int set_dir(struct visit *v, struct err *e)
{
	AUTO_CLOSE int from = walk_open(v, STATE), fd = -1;
	int r;

	v->at[IMAGE].type = FILE_DIRECTORY;
	fd = walk_open(v, IMAGE);
	if (from < 0 || fd < 0) {
		errno = from < 0 ? -from : -fd;
		return failed(v, "open", e);
	}
	r = copy_attrs(v, from, fd, e);
	return r < 0 ? r : finish(v, fd, S_ISUID, e);
}

static int make_dir(struct visit *v, struct err *e)
{
	if (mkdirat(v->dir_fd[IMAGE], v->name, 0700) < 0)
		return failed(v, "create the directory", e);
	return set_dir(v, e);
}

static int make(struct apply *a, struct visit *v, struct err *e)
{
	switch (v->at[STATE].type) {
	case FILE_REGULAR:
		return make_regular(a, v, e);
	case FILE_DIRECTORY:
		return make_dir(v, e);
	case FILE_SYMLINK:
		return make_symlink(v, e);
	case FILE_FIFO:
		return make_fifo(v, e);
	case FILE_NONE:
	case FILE_SOCKET:
	case FILE_CHAR:
	case FILE_BLOCK:
	case FILE_TYPES:
		break;
	}
	return 0;
}

/* --- the walk --- */

/* It stays; names that come later may be names of it. */
static void keep(struct apply *a, const struct visit *v)
{
	if (v->at[STATE].type == FILE_REGULAR &&
	    v->at[STATE].sx.stx_nlink > 1 && v->at[IMAGE].sx.stx_nlink == 1)
		(void)links_first(&a->links, &v->at[STATE].sx, v->path);
}

static int replace(struct apply *a, struct visit *v, struct err *e)
{
	int r = 0;

	if (v->at[IMAGE].type != FILE_NONE)
		r = tree_remove(v->dir_fd[IMAGE], v->name);
	if (r < 0) {
		errno = -r;
		return failed(v, "replace", e);
	}
	return make(a, v, e);
}

static int enter(struct walk *w, struct visit *v, struct err *e)
{
	struct apply *a = w->arg;
	bool dir = v->at[STATE].type == FILE_DIRECTORY;
	unsigned what;
	int r;

	if (compare_is_one(w, v, IMAGE, STATE))
		return 0;
	r = compare(w, v, IMAGE, STATE, &what, e);
	if (r < 0)
		return r;
	if (!what)
		keep(a, v);
	else if (dir && v->at[IMAGE].type == FILE_DIRECTORY)
		r = set_dir(v, e);
	else
		r = replace(a, v, e);
	return r < 0 ? r : dir;
}

static int leave(struct walk *w, struct visit *v, struct err *e)
{
	const struct statx *sx = &v->at[STATE].sx;
	const struct timespec t = { sx->stx_mtime.tv_sec,
				    sx->stx_mtime.tv_nsec };
	const struct timespec times[2] = { t, t };

	(void)w;
	if (utimensat(v->dir_fd[IMAGE], v->name, times, AT_SYMLINK_NOFOLLOW) <
	    0)
		return failed(v, "set its time", e);
	return 0;
}

int apply(int root_fd, int view_fd, int upper_fd, struct report *report,
	  struct err *e)
{
	static const struct walk_ops ops = { .enter = enter, .leave = leave };
	static struct apply a; /* too large for a stack */
	int r;

	a.report = report;
	a.l.n = 2;
	a.l.say.alive = alive;
	a.l.side[IMAGE] = (struct look_side){ .fd = root_fd };
	a.l.side[STATE] = (struct look_side){ .fd = view_fd,
					      .upper_fd = upper_fd,
					      .snap = true };
	a.w.l = &a.l;
	a.w.n = 2;
	a.w.ops = &ops;
	a.w.arg = &a;
	r = walk_asked(&a.w, e);
	links_done(&a.links);
	return r;
}
