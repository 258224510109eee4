#include "worker/count.h"

#include "base/list.h"
#include "worker/links.h"
#include "worker/walk.h"

enum { UNIT = 512 }; /* of stx_blocks */

struct count {
	struct look l;
	struct walk w;
	struct links links;
	struct report *report;
	uint64_t bytes;
};

static int enter(struct walk *w, struct visit *v, struct err *e)
{
	struct count *c = w->arg;
	const struct statx *sx = &v->at[0].sx;
	uint64_t there = sx->stx_blocks * UNIT;

	(void)e;
	if (v->at[0].type != FILE_REGULAR)
		return v->at[0].type == FILE_DIRECTORY;
	if (sx->stx_nlink > 1 && links_first(&c->links, sx, ""))
		return 0;
	/* What lies in the inode has no block. */
	c->bytes += there && there < sx->stx_size ? there : sx->stx_size;
	return 0;
}

static int alive(struct say *s, struct err *e)
{
	struct count *c = container_of(s, struct count, l.say);

	return report_progress(c->report, s->entries, c->bytes, e);
}

int count_tree(int root_fd, struct report *report, uint64_t *entries,
	       uint64_t *bytes, struct err *e)
{
	static const struct walk_ops ops = { .enter = enter };
	static struct count c; /* too large for a stack */
	int r;

	c.report = report;
	c.l.n = c.w.n = 1;
	c.l.say.alive = alive;
	c.l.side[0].fd = root_fd;
	c.w.l = &c.l;
	c.w.ops = &ops;
	c.w.arg = &c;
	r = walk_asked(&c.w, e);
	links_done(&c.links);
	*entries = c.l.say.entries;
	*bytes = c.bytes;
	return r;
}
