/*
 * A tar of a state, of what changed between two, or of what a merge puts: pax,
 * owners by number, `user.*` attributes, hard links. What a tar cannot hold
 * (sockets, devices) is left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "wire/tar.h"
#include "worker/compare.h"
#include "worker/limits.h"
#include "worker/links.h"
#include "worker/look.h"
#include "worker/merge.h"
#include "worker/pack.h"
#include "worker/walk.h"

enum { CHUNK = 64 * 1024 };
#define WHITEOUT ".wh."

static struct links links; /* of the one tar that this process makes */

static int failed(const struct visit *v, const char *doing, struct err *e)
{
	return err_sys(e, "%.150s: %s", v->path, doing);
}

static int put_head(struct walk *w, const struct tar_entry *t,
		    const struct buf *pax, struct err *e)
{
	struct buf head = { 0 }, more = { 0 };
	char time[40];
	int r;

	if (t->mtime.tv_nsec > 0 && t->mtime.tv_sec >= 0) {
		snprintf(time, sizeof(time), "%lld.%09ld",
			 (long long)t->mtime.tv_sec, t->mtime.tv_nsec);
		tar_pax_put(&more, "mtime", time, strlen(time));
	}
	buf_add(&more, buf_data(pax), buf_len(pax));
	tar_head_put_more(&head, t, &more);
	r = say_data(&w->l->say, buf_data(&head), buf_len(&head), e);
	buf_done(&head);
	buf_done(&more);
	return r;
}

static int get_attrs(const struct visit *v, int fd, struct buf *pax,
		     struct err *e)
{
	static char list[XATTR_LIST_MAX], value[ENTRY_XATTR_VALUE_MAX];
	ssize_t n = flistxattr(fd, list, sizeof(list)), size;
	char key[sizeof("SCHILY.xattr.") + ENTRY_XATTR_NAME_MAX];
	const char *name;

	if (n < 0 && errno == ENOTSUP)
		return 0;
	if (n < 0)
		return failed(v, "list its attributes", e);
	for (name = list; name < list + n; name += strlen(name) + 1) {
		if (!str_starts(name, "user.") ||
		    strlen(name) > ENTRY_XATTR_NAME_MAX || strchr(name, '='))
			continue;
		size = fgetxattr(fd, name, value, sizeof(value));
		if (size < 0)
			return failed(v, "read an attribute", e);
		snprintf(key, sizeof(key), "SCHILY.xattr.%.*s",
			 ENTRY_XATTR_NAME_MAX, name);
		tar_pax_put(pax, key, value, (size_t)size);
		if (buf_len(pax) > TAR_PAX_MAX / 2)
			return err_set(e, E2BIG,
				       "%.150s: too many attributes for a tar",
				       v->path);
	}
	return 0;
}

static int put_content(struct walk *w, const struct visit *v, int fd,
		       uint64_t size, struct err *e)
{
	static char chunk[CHUNK];
	static const char zeros[TAR_BLOCK];
	uint64_t left = size;
	int r = 0;

	while (left > 0 && r == 0) {
		size_t want = left < CHUNK ? (size_t)left : CHUNK;
		ssize_t n = read(fd, chunk, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(v, "read", e);
		if (n == 0)
			return err_set(e, EIO, "%.150s: shorter than its size",
				       v->path);
		left -= (size_t)n;
		w->l->say.bytes += (size_t)n;
		r = say_data(&w->l->say, chunk, (size_t)n, e);
		if (r == 0)
			r = say_alive(&w->l->say, e);
	}
	return r < 0 ? r : say_data(&w->l->say, zeros, tar_padding(size), e);
}

static int put_open(struct walk *w, const struct visit *v, unsigned side,
		    struct tar_entry *t, struct err *e)
{
	AUTO_CLOSE int fd = walk_open(v, side);
	struct buf pax = { 0 };
	int r;

	if (fd < 0) {
		errno = -fd;
		return failed(v, "open", e);
	}
	r = get_attrs(v, fd, &pax, e);
	if (r == 0)
		r = put_head(w, t, &pax, e);
	buf_done(&pax);
	if (r == 0 && t->type == TAR_FILE)
		r = put_content(w, v, fd, t->size, e);
	return r;
}

static int put_regular(struct walk *w, const struct visit *v, unsigned side,
		       struct tar_entry *t, struct err *e)
{
	const struct statx *sx = &v->at[side].sx;
	const struct buf none = { 0 };
	const char *first = NULL;

	if (sx->stx_nlink > 1)
		first = links_first(&links, sx, t->path);
	if (!first) {
		t->type = TAR_FILE;
		t->size = sx->stx_size;
		return put_open(w, v, side, t, e);
	}
	t->type = TAR_HARDLINK;
	memcpy(t->link, first, strlen(first) + 1);
	return put_head(w, t, &none, e);
}

static int put_link(struct walk *w, const struct visit *v, unsigned side,
		    struct tar_entry *t, struct err *e)
{
	const struct buf none = { 0 };
	ssize_t n =
		readlinkat(walk_dir(v, side), v->name, t->link, FILE_PATH_MAX);

	if (n < 0)
		return failed(v, "read the link", e);
	t->link[n] = '\0';
	t->type = TAR_SYMLINK;
	return put_head(w, t, &none, e);
}

static int put_entry(struct walk *w, const struct visit *v, unsigned side,
		     struct err *e)
{
	static struct tar_entry t;
	const struct statx *sx = &v->at[side].sx;
	const struct buf none = { 0 };
	size_t n = strlen(v->path + 1);

	t = (struct tar_entry){ .mode = sx->stx_mode & FILE_MODE_MAX,
				.uid = sx->stx_uid,
				.gid = sx->stx_gid,
				.mtime.tv_sec = sx->stx_mtime.tv_sec };
	/* Not for images, whose times are in whole seconds. */
	if (w->l->ask.flags & VIEW_EXACT || w->l->n == 3)
		t.mtime.tv_nsec = sx->stx_mtime.tv_nsec;
	memcpy(t.path, v->path + 1, n + 1);
	switch (v->at[side].type) {
	case FILE_REGULAR:
		return put_regular(w, v, side, &t, e);
	case FILE_DIRECTORY:
		t.type = TAR_DIR;
		memcpy(t.path + n, "/", 2); /* paths have a slash in front */
		return put_open(w, v, side, &t, e);
	case FILE_SYMLINK:
		return put_link(w, v, side, &t, e);
	case FILE_FIFO:
		t.type = TAR_FIFO;
		return put_head(w, &t, &none, e);
	case FILE_NONE:
	case FILE_SOCKET:
	case FILE_CHAR:
	case FILE_BLOCK:
	case FILE_TYPES:
		break;
	}
	return 0;
}

/* --- one side --- */

static int enter_whole(struct walk *w, struct visit *v, struct err *e)
{
	int r;

	if (v->at[0].type == FILE_NONE)
		return err_set(e, ENOENT, "no %.180s in this state", v->path);
	r = put_entry(w, v, 0, e);
	return r < 0 ? r : v->at[0].type == FILE_DIRECTORY;
}

/* --- a layer --- */

static int put_whiteout(struct walk *w, const struct visit *v, struct err *e)
{
	static struct tar_entry t;
	const struct buf none = { 0 };
	int dir = (int)(v->name - v->path - 1); /* with its slash */
	int n;

	t = (struct tar_entry){ .type = TAR_FILE };
	n = snprintf(t.path, sizeof(t.path), "%.*s" WHITEOUT "%s", dir,
		     v->path + 1, v->name);
	if (n >= (int)sizeof(t.path))
		return err_set(e, ENAMETOOLONG,
			       "%.150s: too long to be told as removed",
			       v->path);
	return put_head(w, &t, &none, e);
}

static bool can_be_packed(enum file_type t)
{
	return t == FILE_REGULAR || t == FILE_DIRECTORY || t == FILE_SYMLINK ||
	       t == FILE_FIFO;
}

/* A disk that moves takes all along that was written, also what says the same
 * as before. */
static int is_changed(struct walk *w, const struct visit *v, unsigned *what,
		      struct err *e)
{
	*what = WHAT_ALL;
	return w->l->ask.flags & VIEW_EXACT && v->in_upper[1]
		       ? 0
		       : compare(w, v, 0, 1, what, e);
}

static int enter_layer(struct walk *w, struct visit *v, struct err *e)
{
	unsigned what;
	int r;

	if (compare_is_one(w, v, 0, 1))
		return 0;
	if (!can_be_packed(v->at[1].type))
		return can_be_packed(v->at[0].type) ? put_whiteout(w, v, e) : 0;
	if (str_starts(v->name, WHITEOUT))
		return err_set(e, EINVAL,
			       "%.150s: a name that starts with " WHITEOUT
			       " means something else in a layer: rename it",
			       v->path);
	r = is_changed(w, v, &what, e);
	if (r == 0 && what)
		r = put_entry(w, v, 1, e);
	return r < 0 ? r : v->at[1].type == FILE_DIRECTORY;
}

/* --- a merge --- */

static int put_step(struct walk *w, const struct visit *v, enum merge_step step,
		    struct err *e)
{
	if (step == MERGE_PUT ||
	    (step == MERGE_CONFLICT && w->l->ask.flags & VIEW_THEIRS))
		return put_entry(w, v, 1, e);
	return 0;
}

/* What a disk is told as has its root, too, whose name is ".". */
static int put_root(struct walk *w, struct err *e)
{
	static const char path[] = "/.";
	struct visit v = { .path = path, .name = path + 1 };

	v.dir_fd[1] = w->l->side[1].fd;
	v.at[1].type = FILE_DIRECTORY;
	if (statx(v.dir_fd[1], v.name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
		  &v.at[1].sx) < 0)
		return failed(&v, "look at it", e);
	return put_entry(w, &v, 1, e);
}

static int pack_walk(struct look *l, struct err *e)
{
	static const struct walk_ops whole = { .enter = enter_whole },
				     layer = { .enter = enter_layer };
	static struct walk w;

	if (l->n == 3)
		return merge_plan(l, put_step, e);
	w.l = l;
	w.n = l->n;
	w.ops = l->n == 1 ? &whole : &layer;
	if (l->ask.flags & VIEW_EXACT && put_root(&w, e) < 0)
		return -e->code;
	return walk_asked(&w, e);
}

int pack(struct look *l, struct err *e)
{
	static const char end[2 * TAR_BLOCK];
	int r;

	if ((l->n == 2) != !!(l->ask.flags & VIEW_LAYER) ||
	    (l->n != 2 && l->ask.flags & VIEW_EXACT) ||
	    (l->n != 3 && l->ask.flags & VIEW_THEIRS))
		return err_set(e, EINVAL, "not flags for %u states", l->n);
	r = pack_walk(l, e);
	links_done(&links);
	return r < 0 ? r : say_data(&l->say, end, sizeof(end), e);
}
