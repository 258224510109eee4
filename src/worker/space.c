/*
 * What a snapshot takes: the extents of what the sandbox wrote, and how much
 * of that something else has too (its disk, other snapshots, forks).
 */
#include <errno.h>

#include "base/auto.h"
#include "worker/extent.h"
#include "worker/links.h"
#include "worker/look.h"
#include "worker/walk.h"

struct space {
	uint64_t bytes, shared;
	struct links links;
};

static int enter(struct walk *w, struct visit *v, struct err *e)
{
	struct space *s = w->arg;
	const struct statx *sx = &v->at[0].sx;
	AUTO_CLOSE int fd = -1;

	if (v->at[0].type != FILE_REGULAR)
		return v->at[0].type == FILE_DIRECTORY;
	if (sx->stx_blocks == 0 ||
	    (sx->stx_nlink > 1 && links_first(&s->links, sx, "")))
		return 0;
	fd = walk_open(v, 0);
	if (fd < 0) {
		errno = -fd;
		return err_sys(e, "%.180s: open", v->path);
	}
	return extents_sum(fd, sx->stx_size, &s->bytes, &s->shared, e);
}

int look_space(struct look *l, struct err *e)
{
	static const struct walk_ops ops = { .enter = enter };
	static struct walk w;
	static struct space s;
	struct view_record r = { .kind = VIEW_SPACED };
	int n;

	l->side[0].fd = l->side[0].upper_fd;
	l->side[0].snap = false;
	w.l = l;
	w.n = 1;
	w.ops = &ops;
	w.arg = &s;
	n = walk_asked(&w, e);
	links_done(&s.links);
	if (n < 0)
		return n;
	r.space.bytes = s.bytes;
	r.space.shared = s.shared;
	r.space.entries = l->say.entries;
	return say_record(&l->say, &r, e);
}
