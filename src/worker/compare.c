#include "worker/compare.h"

#include <errno.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "worker/extent.h"

enum { CHUNK = 128 * 1024, SMALL = 4096 };

/* Changes so shortly before a snapshot may have the time of those after. */
static const uint64_t too_near_ns = 1000000000;

static uint64_t stamp_ns(const struct statx_timestamp *t)
{
	return (uint64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static bool same_time(const struct statx_timestamp *a,
		      const struct statx_timestamp *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same_inode(const struct statx *a, const struct statx *b)
{
	return a->stx_ino == b->stx_ino && a->stx_mode == b->stx_mode &&
	       a->stx_size == b->stx_size && a->stx_uid == b->stx_uid &&
	       a->stx_gid == b->stx_gid &&
	       same_time(&a->stx_ctime, &b->stx_ctime) &&
	       same_time(&a->stx_mtime, &b->stx_mtime) &&
	       (a->stx_mask & b->stx_mask & STATX_BTIME
			? same_time(&a->stx_btime, &b->stx_btime)
			: true);
}

bool compare_is_one(const struct walk *w, const struct visit *v, unsigned a,
		    unsigned b)
{
	const struct look_side *l = w->l->side;

	return l[a].image == l[b].image && v->at[a].type != FILE_NONE &&
	       v->at[a].type == v->at[b].type &&
	       same_inode(&v->at[a].sx, &v->at[b].sx) && !v->in_upper[a] &&
	       !v->in_upper[b];
}

/* Both are the same inode of one tree, untouched between two snapshots. */
static bool is_untouched(const struct walk *w, const struct visit *v,
			 unsigned a, unsigned b)
{
	const struct look_side *l = w->l->side;
	uint64_t first =
		l[a].made_ns < l[b].made_ns ? l[a].made_ns : l[b].made_ns;

	return l[a].snap && l[b].snap && l[a].tree == l[b].tree &&
	       first > too_near_ns && same_inode(&v->at[a].sx, &v->at[b].sx) &&
	       v->at[a].sx.stx_ctime.tv_sec > 0 &&
	       stamp_ns(&v->at[a].sx.stx_ctime) < first - too_near_ns;
}

/* --- content --- */

static int failed(const struct visit *v, const char *doing, struct err *e)
{
	return err_sys(e, "%.150s: %s", v->path, doing);
}

static int read_at(const struct visit *v, int fd, char *p, size_t n,
		   uint64_t at, struct err *e)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = pread(fd, p + done, n - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return failed(v, "read", e);
		if (got == 0)
			return err_set(e, EIO, "%.150s: shorter than its size",
				       v->path);
		done += (size_t)got;
	}
	return 0;
}

/* Where the next data is; holes of both are skipped together. */
static uint64_t next_data(int fd, uint64_t at, uint64_t size)
{
	off_t pos = lseek(fd, (off_t)at, SEEK_DATA);

	if (pos >= 0)
		return (uint64_t)pos;
	return errno == ENXIO ? size : at;
}

/* The two, open. */
struct pair {
	struct walk *w;
	const struct visit *v;
	int a, b;
};

static int same_bytes(const struct pair *p, uint64_t size, bool *same,
		      struct err *e)
{
	static char one[CHUNK], two[CHUNK];
	uint64_t at = 0;
	int r;

	for (*same = true; *same && at < size;) {
		size_t n;

		if (size > SMALL) {
			uint64_t first = next_data(p->a, at, size);
			uint64_t other = next_data(p->b, at, size);

			at = first < other ? first : other;
		}
		n = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
		if (n == 0)
			break;
		if ((r = read_at(p->v, p->a, one, n, at, e)) < 0 ||
		    (r = read_at(p->v, p->b, two, n, at, e)) < 0)
			return r;
		*same = memcmp(one, two, n) == 0;
		at += n;
		p->w->l->say.bytes += n;
		r = say_alive(&p->w->l->say, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int same_content(const struct pair *p, uint64_t size, bool *same,
			struct err *e)
{
	/* A small one is read as fast as it is asked for. */
	*same = size == 0 ||
		(size > SMALL && extents_are_one(p->a, p->b, size));
	return *same ? 0 : same_bytes(p, size, same, e);
}

static int same_target(const struct visit *v, unsigned a, unsigned b,
		       bool *same, struct err *e)
{
	static char one[FILE_PATH_MAX + 1], two[FILE_PATH_MAX + 1];
	ssize_t n = readlinkat(walk_dir(v, a), v->name, one, sizeof(one));
	ssize_t m = readlinkat(walk_dir(v, b), v->name, two, sizeof(two));

	if (n < 0 || m < 0)
		return failed(v, "read the link", e);
	*same = n == m && memcmp(one, two, (size_t)n) == 0;
	return 0;
}

/* --- attributes --- */

/* Those that a sandbox can have; `trusted.*` are the overlay's own marks. */
static int list_of(const struct visit *v, int fd, char *list, struct err *e)
{
	ssize_t n = flistxattr(fd, list, XATTR_LIST_MAX);
	const char *name, *end = list + n;
	char *to = list;

	if (n < 0 && (errno == ENOTSUP || errno == ENODATA))
		return 0;
	if (n < 0)
		return failed(v, "list its attributes", e);
	for (name = list; name < end;) {
		size_t len = strlen(name) + 1;

		if (!str_starts(name, "trusted.")) {
			memmove(to, name, len);
			to += len;
		}
		name += len;
	}
	return (int)(to - list);
}

/* Each attribute of `list` has the same value in both. */
static int same_values(const struct pair *p, const char *list, int n,
		       bool *same, struct err *e)
{
	static char one[XATTR_LIST_MAX], two[XATTR_LIST_MAX];
	int at;

	for (at = 0; at < n; at += (int)strlen(list + at) + 1) {
		ssize_t x = fgetxattr(p->a, list + at, one, sizeof(one));
		ssize_t y = fgetxattr(p->b, list + at, two, sizeof(two));

		if (x < 0)
			return failed(p->v, "read an attribute", e);
		*same = x == y && memcmp(one, two, (size_t)x) == 0;
		if (!*same)
			return 0;
	}
	return 0;
}

/* Lists of the same length, and all of the one is in the other. */
static int same_attrs(const struct pair *p, bool *same, struct err *e)
{
	static char one[XATTR_LIST_MAX], two[XATTR_LIST_MAX];
	int n = list_of(p->v, p->a, one, e), m;

	if (n < 0)
		return n;
	m = list_of(p->v, p->b, two, e);
	if (m < 0)
		return m;
	*same = n == m;
	return *same ? same_values(p, one, n, same, e) : 0;
}

/* --- entries --- */

static int compare_open(struct walk *w, const struct visit *v, unsigned a,
			unsigned b, unsigned *what, struct err *e)
{
	AUTO_CLOSE int fa = walk_open(v, a), fb = walk_open(v, b);
	const struct statx *sa = &v->at[a].sx, *sb = &v->at[b].sx;
	const struct pair p = { w, v, fa, fb };
	bool same = true;
	int r = 0;

	if (fa < 0 || fb < 0) {
		errno = fa < 0 ? -fa : -fb;
		return failed(v, "open", e);
	}
	if (v->at[a].type == FILE_REGULAR) {
		same = sa->stx_size == sb->stx_size;
		if (same)
			r = same_content(&p, sa->stx_size, &same, e);
	}
	if (!same)
		*what |= WHAT_CONTENT;
	if (r == 0)
		r = same_attrs(&p, &same, e);
	if (r == 0 && !same)
		*what |= WHAT_ATTRS;
	return r;
}

int compare(struct walk *w, const struct visit *v, unsigned a, unsigned b,
	    unsigned *what, struct err *e)
{
	const struct statx *sa = &v->at[a].sx, *sb = &v->at[b].sx;
	enum file_type type = v->at[a].type;
	bool same = true;
	int r = 0;

	*what = type != v->at[b].type ? WHAT_TYPE : 0;
	if (*what || type == FILE_NONE || is_untouched(w, v, a, b) ||
	    compare_is_one(w, v, a, b))
		return 0;
	if ((sa->stx_mode ^ sb->stx_mode) & FILE_MODE_MAX &&
	    type != FILE_SYMLINK)
		*what |= WHAT_MODE;
	if (sa->stx_uid != sb->stx_uid || sa->stx_gid != sb->stx_gid)
		*what |= WHAT_OWNER;
	if (type == FILE_REGULAR || type == FILE_DIRECTORY)
		return compare_open(w, v, a, b, what, e);
	if (type == FILE_SYMLINK)
		r = same_target(v, a, b, &same, e);
	if (!same)
		*what |= WHAT_CONTENT;
	return r;
}
