#include "worker/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "worker/limits.h"
#include "worker/tree.h"

/* Names of one directory of one side. */
struct names {
	char *text;    /* each with its NUL */
	uint32_t *pos; /* of each in the text, sorted */
	size_t n, at;  /* how many, how many were visited */
	size_t len, cap, n_cap;
};

struct walk_level {
	struct walk_level *up;
	struct visit self;
	int fd[VIEW_SIDES], upper[VIEW_SIDES];
	struct names names[VIEW_SIDES];
	size_t path_len; /* of the directory; 0 is the root */
};

static const enum file_type types[] = {
	[S_IFREG >> 12] = FILE_REGULAR, [S_IFDIR >> 12] = FILE_DIRECTORY,
	[S_IFLNK >> 12] = FILE_SYMLINK, [S_IFIFO >> 12] = FILE_FIFO,
	[S_IFSOCK >> 12] = FILE_SOCKET, [S_IFCHR >> 12] = FILE_CHAR,
	[S_IFBLK >> 12] = FILE_BLOCK,
};

static enum file_type type_of(unsigned mode)
{
	unsigned t = (mode & S_IFMT) >> 12;

	return t < ARRAY_LEN(types) ? types[t] : FILE_NONE;
}

/* --- names --- */

static int names_add(struct walk *w, struct names *s, const char *name,
		     struct err *e)
{
	size_t n = strlen(name) + 1;

	w->held += n + sizeof(*s->pos);
	if (w->held > WALK_NAMES_MAX)
		return err_set(e, E2BIG,
			       "%.150s: over %u MiB of names on the way "
			       "down to it",
			       w->path, (unsigned)(WALK_NAMES_MAX >> 20));
	if (s->len + n > s->cap) {
		s->cap = s->cap ? 2 * s->cap : 4096;
		s->text = xrealloc(s->text, s->cap);
	}
	if (s->n == s->n_cap) {
		s->n_cap = s->n_cap ? 2 * s->n_cap : 128;
		s->pos = xrealloc(s->pos, s->n_cap * sizeof(*s->pos));
	}
	memcpy(s->text + s->len, name, n);
	s->pos[s->n++] = (uint32_t)s->len;
	s->len += n;
	return 0;
}

static int by_name(const void *a, const void *b, void *text)
{
	const char *t = text;

	return strcmp(t + *(const uint32_t *)a, t + *(const uint32_t *)b);
}

static void names_done(struct walk *w, struct names *s)
{
	w->held -= s->len + s->n * sizeof(*s->pos);
	free(s->text);
	free(s->pos);
}

static const char *names_next(const struct names *s)
{
	return s->at < s->n ? s->text + s->pos[s->at] : NULL;
}

static int names_read(struct walk *w, struct names *s, int fd, struct err *e)
{
	static _Alignas(struct dirent64) char block[64 * 1024];
	long got, at;
	int r;

	while ((got = syscall(SYS_getdents64, fd, block, sizeof(block))) > 0)
		for (at = 0; at < got;) {
			const struct dirent64 *d =
				(const struct dirent64 *)(block + at);

			at += d->d_reclen;
			if (strcmp(d->d_name, ".") == 0 ||
			    strcmp(d->d_name, "..") == 0)
				continue;
			r = names_add(w, s, d->d_name, e);
			if (r < 0)
				return r;
		}
	if (got < 0)
		return err_sys(e, "%.180s: read the directory", w->path);
	if (s->n > 1)
		qsort_r(s->pos, s->n, sizeof(*s->pos), by_name, s->text);
	return 0;
}

/* --- levels --- */

static void level_close(struct walk_level *v)
{
	unsigned i;

	for (i = 0; i < VIEW_SIDES; i++) {
		auto_close(&v->fd[i]);
		auto_close(&v->upper[i]);
	}
}

static struct walk_level *level_new(struct walk *w)
{
	struct walk_level *v = xcalloc(1, sizeof(*v));
	unsigned i;

	for (i = 0; i < VIEW_SIDES; i++)
		v->fd[i] = v->upper[i] = -1;
	v->up = w->top;
	return v;
}

static int level_sys(const struct walk *w, int code, struct err *e)
{
	errno = code;
	if (code == ELOOP)
		return err_set(e, ELOOP,
			       "%.160s: a symbolic link is on the way: name "
			       "the path that it leads to",
			       w->path);
	return err_sys(e, "%.180s: open", w->path);
}

/* Where to look for a directory: of a side, and of its sandbox's layer. */
struct spot {
	int fd, upper_fd;
	const char *rel;
};

static int open_dir(struct walk *w, int from_fd, const char *rel, int *out,
		    struct err *e)
{
	int fd = tree_open(from_fd, rel, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR)
		return level_sys(w, -fd, e);
	*out = fd < 0 ? -1 : fd;
	return 0;
}

/*
 * Opens the directory of the level, by its path from the root or, when it was
 * just visited, by its name. A side that has no directory there stays closed.
 */
static int open_side(struct walk *w, struct walk_level *v, unsigned side,
		     const struct spot *at, struct err *e)
{
	int r = open_dir(w, at->fd, at->rel, &v->fd[side], e);

	if (r < 0 || v->fd[side] < 0 || at->upper_fd < 0)
		return r;
	return open_dir(w, at->upper_fd, at->rel, &v->upper[side], e);
}

static int level_open(struct walk *w, struct walk_level *v, struct err *e)
{
	static char rel[FILE_PATH_MAX + sizeof("/.")];
	unsigned i;
	int r = 0;

	/* With something behind it a link at the end is one on the way. */
	snprintf(rel, sizeof(rel), "%s%s", w->path + !!v->path_len,
		 v->path_len ? "/." : ".");
	for (i = 0; i < w->n && r == 0; i++) {
		const struct look_side *s = &w->l->side[i];
		const struct spot at = { s->fd, s->snap ? s->upper_fd : -1,
					 rel };

		r = open_side(w, v, i, &at, e);
	}
	return r;
}

static int level_open_below(struct walk *w, struct walk_level *v,
			    const struct visit *from, struct err *e)
{
	unsigned i;
	int r = 0;

	for (i = 0; i < w->n && r == 0; i++) {
		const struct spot at = { from->dir_fd[i], from->upper_fd[i],
					 from->name };

		if (from->at[i].type == FILE_DIRECTORY)
			r = open_side(w, v, i, &at, e);
	}
	return r;
}

static void level_free(struct walk *w, struct walk_level *v)
{
	unsigned i;

	level_close(v);
	for (i = 0; i < VIEW_SIDES; i++)
		names_done(w, &v->names[i]);
	free(v);
}

/* Takes over the level; it is filled with names, or with the one given. */
static int push(struct walk *w, struct walk_level *v, const char *only,
		struct err *e)
{
	unsigned i;
	int r = 0;

	/* Those far down are opened again on the way back. */
	if (w->depth >= WALK_OPEN_LEVELS)
		level_close(w->top);
	w->top = v;
	w->depth++;
	for (i = 0; i < w->n && r == 0; i++)
		if (v->fd[i] >= 0)
			r = only ? names_add(w, &v->names[i], only, e)
				 : names_read(w, &v->names[i], v->fd[i], e);
	return r;
}

static int pop(struct walk *w, struct err *e)
{
	struct walk_level *v = w->top;
	struct visit self = v->self;
	int r = 0;

	w->path[v->path_len] = '\0';
	w->top = v->up;
	w->depth--;
	level_free(w, v);
	if (!w->top)
		return 0;
	w->path[w->top->path_len] = '\0';
	if (w->depth >= WALK_OPEN_LEVELS)
		r = level_open(w, w->top, e);
	w->path[w->top->path_len] = '/';
	if (r < 0 || !self.path || !w->ops->leave)
		return r;
	memcpy(self.dir_fd, w->top->fd, sizeof(self.dir_fd));
	memcpy(self.upper_fd, w->top->upper, sizeof(self.upper_fd));
	return w->ops->leave(w, &self, e);
}

unsigned *walk_above(struct walk *w)
{
	return &w->top->self.below;
}

/* --- visits --- */

/* 1 when it is there, 0 when not. */
static int stat_in(const struct walk *w, int dir_fd, const char *name,
		   struct walk_entry *n, struct err *e)
{
	if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW,
		  STATX_BASIC_STATS | STATX_BTIME, &n->sx) == 0) {
		n->type = type_of(n->sx.stx_mode);
		return 1;
	}
	n->type = FILE_NONE;
	return errno == ENOENT ? 0 : err_sys(e, "%.180s: look at it", w->path);
}

/*
 * What the sandbox wrote is what the view shows, but for directories, which
 * are merged, and for the marks of what was removed.
 */
static int stat_side(const struct walk *w, struct visit *v, unsigned side,
		     struct err *e)
{
	struct walk_entry *n = &v->at[side];
	int r;

	if (v->upper_fd[side] >= 0) {
		r = stat_in(w, v->upper_fd[side], v->name, n, e);
		if (r < 0)
			return r;
		v->in_upper[side] = r;
		v->is_upper[side] =
			r && n->type != FILE_DIRECTORY && n->type != FILE_CHAR;
	}
	if (v->is_upper[side])
		return 0;
	r = stat_in(w, v->dir_fd[side], v->name, n, e);
	return r < 0 ? r : 0;
}

/* The smallest name that was not visited, and the sides that have it. */
static const char *next_name(struct walk *w, bool has[VIEW_SIDES])
{
	const struct walk_level *v = w->top;
	const char *best = NULL;
	unsigned i;

	for (i = 0; i < w->n; i++) {
		const char *name = names_next(&v->names[i]);

		if (name && (!best || strcmp(name, best) < 0))
			best = name;
	}
	for (i = 0; best && i < w->n; i++) {
		const char *name = names_next(&v->names[i]);

		has[i] = name && strcmp(name, best) == 0;
	}
	return best;
}

static int set_path(struct walk *w, const char *name, struct err *e)
{
	size_t at = w->top->path_len, n = strlen(name);

	if (at + 1 + n > FILE_PATH_MAX)
		return err_set(e, ENAMETOOLONG,
			       "%.100s...: a path of over %d bytes", w->path,
			       FILE_PATH_MAX);
	w->path[at] = '/';
	memcpy(w->path + at + 1, name, n + 1);
	return 0;
}

static int visit_one(struct walk *w, const char *name,
		     const bool has[VIEW_SIDES], struct visit *v, struct err *e)
{
	unsigned i;
	int r = set_path(w, name, e);

	*v = (struct visit){ .path = w->path,
			     .name = w->path + w->top->path_len + 1,
			     .above = w->top->self.below };
	memcpy(v->dir_fd, w->top->fd, sizeof(v->dir_fd));
	memcpy(v->upper_fd, w->top->upper, sizeof(v->upper_fd));
	for (i = 0; i < w->n && r == 0; i++)
		if (has[i]) {
			w->top->names[i].at++;
			r = stat_side(w, v, i, e);
		}
	w->l->say.entries++;
	if (r == 0)
		r = say_alive(&w->l->say, e);
	return r < 0 ? r : w->ops->enter(w, v, e);
}

static int descend(struct walk *w, const struct visit *from, struct err *e)
{
	struct walk_level *v = level_new(w);
	int r;

	v->self = *from;
	v->path_len = strlen(w->path);
	r = level_open_below(w, v, from, e);
	if (r < 0) {
		level_free(w, v);
		return r;
	}
	return push(w, v, NULL, e);
}

static int walk_on(struct walk *w, struct err *e)
{
	bool has[VIEW_SIDES] = { false };
	int r = 0;

	while (w->top && r >= 0) {
		const char *name = next_name(w, has);
		struct visit v;

		if (!name) {
			r = pop(w, e);
			continue;
		}
		r = visit_one(w, name, has, &v, e);
		if (r > 0)
			r = descend(w, &v, e);
	}
	return r;
}

static void walk_stop(struct walk *w)
{
	while (w->top) {
		struct walk_level *v = w->top;

		w->top = v->up;
		level_free(w, v);
	}
	w->depth = 0;
}

/* One path with all below it; "/" is everything. */
static int walk_from(struct walk *w, const char *path, struct err *e)
{
	struct walk_level *v = level_new(w);
	const char *name = strrchr(path, '/') + 1;
	int r;

	v->path_len = (size_t)(name - path) - 1;
	memcpy(w->path, path, v->path_len);
	w->path[v->path_len] = '\0';
	r = level_open(w, v, e);
	if (r < 0) {
		level_free(w, v);
		return r;
	}
	r = push(w, v, *name ? name : NULL, e);
	if (r == 0)
		r = walk_on(w, e);
	walk_stop(w);
	return r;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* `path` is `dir` or below it. */
static bool within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strcmp(dir, "/") == 0 || (strncmp(path, dir, n) == 0 &&
					 (path[n] == '\0' || path[n] == '/'));
}

int walk_asked(struct walk *w, struct err *e)
{
	struct view_ask *a = &w->l->ask;
	size_t i, k;
	int r = 0;

	if (a->n == 0)
		return walk_from(w, "/", e);
	qsort(a->paths, a->n, sizeof(*a->paths), by_path);
	for (i = 0; i < a->n && r == 0; i++) {
		for (k = 0; k < i; k++)
			if (within(a->paths[i], a->paths[k]))
				break;
		if (k == i)
			r = walk_from(w, a->paths[i], e);
	}
	return r;
}

/* --- what a visitor asks --- */

int walk_dir(const struct visit *v, unsigned side)
{
	return v->is_upper[side] ? v->upper_fd[side] : v->dir_fd[side];
}

int walk_open(const struct visit *v, unsigned side)
{
	bool dir = v->at[side].type == FILE_DIRECTORY;

	if (!dir && v->at[side].type != FILE_REGULAR)
		return -EINVAL;
	return tree_open(walk_dir(v, side), v->name,
			 O_RDONLY | O_NONBLOCK | (dir ? O_DIRECTORY : 0), 0);
}

int walk_describe(const struct visit *v, unsigned side, char *target,
		  struct file_entry *out, struct err *e)
{
	const struct walk_entry *n = &v->at[side];
	const struct statx *sx = &n->sx;
	ssize_t len;

	target[0] = '\0';
	*out = (struct file_entry){ .type = n->type,
				    .path = v->path,
				    .target = target };
	if (n->type == FILE_NONE)
		return 0;
	out->mode = sx->stx_mode & FILE_MODE_MAX;
	out->uid = sx->stx_uid;
	out->gid = sx->stx_gid;
	out->size = sx->stx_size & INT64_MAX;
	out->mtime_ms = (int64_t)(sx->stx_mtime.tv_sec * 1000 +
				  sx->stx_mtime.tv_nsec / 1000000);
	if (n->type != FILE_SYMLINK)
		return 0;
	len = readlinkat(walk_dir(v, side), v->name, target, FILE_PATH_MAX);
	if (len < 0)
		return err_sys(e, "%.180s: read the link", v->path);
	target[len] = '\0';
	return 0;
}
