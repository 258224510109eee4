#include "worker/whiteout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "image/whiteout.h"
#include "worker/tree.h"

/* --- what the layer has brought --------------------------------------------
 */

enum { SLOTS_MIN = 1024 };

/* FNV-1a. Zero means an empty slot. */
static uint64_t hash(const char *p, size_t n)
{
	uint64_t h = UINT64_C(14695981039346656037);

	while (n--)
		h = (h ^ (unsigned char)*p++) * UINT64_C(1099511628211);
	return h ? h : 1;
}

static size_t place(const struct seen *s, uint64_t h)
{
	/* The low bits of FNV alone are not spread well. */
	size_t i = (size_t)(h ^ h >> 32) & (s->cap - 1);

	while (s->slot[i] && s->slot[i] != h)
		i = (i + 1) & (s->cap - 1);
	return i;
}

static void grow(struct seen *s)
{
	struct seen old = *s;
	size_t i;

	s->cap = old.cap ? 2 * old.cap : SLOTS_MIN;
	s->slot = xcalloc(s->cap, sizeof(*s->slot));
	for (i = 0; i < old.cap; i++)
		if (old.slot[i])
			s->slot[place(s, old.slot[i])] = old.slot[i];
	free(old.slot);
}

/* False: it was there. */
static bool mark(struct seen *s, const char *p, size_t n)
{
	uint64_t h = hash(p, n);
	size_t i;

	if (2 * s->n >= s->cap)
		grow(s);
	i = place(s, h);
	if (s->slot[i])
		return false;
	s->slot[i] = h;
	s->n++;
	return true;
}

void seen_add(struct seen *s, const char *path)
{
	size_t n = strlen(path);

	while (n > 0 && mark(s, path, n)) {
		while (n > 0 && path[n - 1] != '/')
			n--;
		n -= n > 0;
	}
}

bool seen_has(const struct seen *s, const char *path)
{
	return s->cap && s->slot[place(s, hash(path, strlen(path)))];
}

void seen_clear(struct seen *s)
{
	if (s->cap)
		memset(s->slot, 0, s->cap * sizeof(*s->slot));
	s->n = 0;
}

void seen_done(struct seen *s)
{
	free(s->slot);
	*s = (struct seen){ 0 };
}

/* --- what it takes away ----------------------------------------------------
 */

static int gone_sys(const char *path, int r, struct err *e)
{
	errno = -r;
	return err_sys(e, "take away %.100s", path);
}

/* Directories that are still to be looked through, as strings in a row. */
struct sweep {
	struct seen *seen;
	int top_fd;
	size_t top_len; /* of the path of top_fd */
	struct buf todo;
};

/* Everything in one directory that this layer has not brought. */
static int sweep_dir(struct sweep *w, const char *path, int fd, struct err *e)
{
	char sub[ENTRY_PATH_MAX + 1];
	AUTO_DIR DIR *d = fdopendir(fd);
	const struct dirent *de;
	int n, r;

	if (!d) {
		close(fd);
		return gone_sys(path, -ENOMEM, e);
	}
	while ((errno = 0, de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 ||
		    strcmp(de->d_name, "..") == 0)
			continue;
		n = snprintf(sub, sizeof(sub), "%s%s%s", path, *path ? "/" : "",
			     de->d_name);
		/* Of a name that is too long there was no entry. */
		if (n >= (int)sizeof(sub) || !seen_has(w->seen, sub)) {
			r = tree_remove(fd, de->d_name);
			if (r < 0)
				return gone_sys(sub, r, e);
		} else if (de->d_type == DT_DIR || de->d_type == DT_UNKNOWN) {
			buf_add(&w->todo, sub, strlen(sub) + 1);
		}
	}
	return errno ? gone_sys(path, -errno, e) : 0;
}

static int sweep_all(struct sweep *w, struct err *e)
{
	char path[ENTRY_PATH_MAX + 1];
	int fd, r;

	while (buf_len(&w->todo) > 0) {
		size_t n = strlen(buf_data(&w->todo)) + 1;
		const char *below;

		memcpy(path, buf_data(&w->todo), n);
		buf_eat(&w->todo, n);
		below = path + w->top_len;
		below += *below == '/';
		fd = tree_open(w->top_fd, below, O_RDONLY | O_DIRECTORY, 0);
		if (fd == -ENOTDIR || fd == -ELOOP)
			continue;
		r = fd < 0 ? gone_sys(path, fd, e) : sweep_dir(w, path, fd, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * `path`, open as `fd`, keeps only what this layer brings. Done once per
 * directory and layer: what comes later in the layer stays anyway.
 */
static int empty_lower(struct seen *s, const char *path, int fd, struct err *e)
{
	struct sweep w = { .seen = s, .top_fd = fd, .top_len = strlen(path) };
	char opaque[ENTRY_PATH_MAX + sizeof(WHITEOUT_OPAQUE) + 2];
	int r;

	snprintf(opaque, sizeof(opaque), "%s/" WHITEOUT_OPAQUE, path);
	if (!mark(s, opaque, strlen(opaque)))
		return 0;
	buf_add(&w.todo, path, strlen(path) + 1);
	r = sweep_all(&w, e);
	buf_done(&w.todo);
	return r;
}

static int hide_one(struct seen *s, const struct path *p, const char *gone,
		    int dir_fd, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	char path[ENTRY_PATH_MAX + 1];
	int r;

	if (!*gone || strcmp(gone, ".") == 0 || strcmp(gone, "..") == 0)
		return err_set(e, EBADMSG, "entry %.100s: takes away nothing",
			       p->s);
	snprintf(path, sizeof(path), "%.*s%s", (int)p->name_at, p->s, gone);
	if (!seen_has(s, path)) {
		r = tree_remove(dir_fd, gone);
		return r < 0 ? gone_sys(path, r, e) : 0;
	}
	fd = tree_open(dir_fd, gone, O_RDONLY | O_DIRECTORY, 0);
	return fd < 0 ? 0 : empty_lower(s, path, fd, e);
}

/* The directory that holds `p`, for itself: dir_fd may be an O_PATH one. */
static int hide_all(struct seen *s, const struct path *p, int dir_fd,
		    struct err *e)
{
	char path[ENTRY_PATH_MAX + 1];
	AUTO_CLOSE int fd = tree_open(dir_fd, "", O_RDONLY | O_DIRECTORY, 0);

	snprintf(path, sizeof(path), "%.*s",
		 p->name_at ? (int)p->name_at - 1 : 0, p->s);
	return fd < 0 ? gone_sys(path, fd, e) : empty_lower(s, path, fd, e);
}

int whiteout_apply(struct seen *s, const struct path *p, int dir_fd,
		   struct err *e)
{
	const char *gone;
	int r = 0;

	switch (whiteout_kind(path_name(p), &gone)) {
	case WHITEOUT_NONE:
		return 0;
	case WHITEOUT_ONE:
		r = hide_one(s, p, gone, dir_fd, e);
		break;
	case WHITEOUT_ALL:
		r = hide_all(s, p, dir_fd, e);
		break;
	case WHITEOUT_IGNORED:
		break;
	}
	return r < 0 ? r : 1;
}
