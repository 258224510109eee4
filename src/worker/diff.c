/* How side 1 differs from side 0: one record for each path. */
#include "worker/compare.h"
#include "worker/look.h"
#include "worker/walk.h"

static int say_change(struct walk *w, const struct visit *v, unsigned what,
		      struct err *e)
{
	static char was[FILE_PATH_MAX + 1], is[FILE_PATH_MAX + 1];
	struct view_record r = { .kind = VIEW_CHANGE };

	r.change.what = what;
	if (walk_describe(v, 0, was, &r.change.before, e) < 0 ||
	    walk_describe(v, 1, is, &r.change.after, e) < 0)
		return -e->code;
	return say_record(&w->l->say, &r, e);
}

static int enter(struct walk *w, struct visit *v, struct err *e)
{
	unsigned what;
	int r;

	if (compare_is_one(w, v, 0, 1))
		return 0;
	r = compare(w, v, 0, 1, &what, e);
	if (r == 0 && what)
		r = say_change(w, v, what, e);
	return r < 0 ? r
		     : v->at[0].type == FILE_DIRECTORY ||
			       v->at[1].type == FILE_DIRECTORY;
}

int look_diff(struct look *l, struct err *e)
{
	static const struct walk_ops ops = { .enter = enter };
	static struct walk w;

	w.l = l;
	w.n = 2;
	w.ops = &ops;
	return walk_asked(&w, e);
}
