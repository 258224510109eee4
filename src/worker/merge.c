/*
 * A path counts as changed by theirs when it differs from the ancestor's. If
 * ours is still the ancestor's, theirs is taken; if ours is theirs already,
 * nothing is to do; else it is a conflict.
 *
 * Directories make it a little longer. One that theirs removed (or replaced by
 * something else) can only go when ours has changed nothing below it, so its
 * step comes after what is in it. And what theirs has put or changed in a
 * directory that ours removed (or replaced) has nowhere to go: a conflict.
 */
#include "worker/merge.h"

#include "worker/compare.h"

enum { ANCESTOR, THEIRS, OURS };

/* In `below` of a directory: */
enum {
	GOES = 1,    /* theirs has no directory here (any more) */
	NO_ROOM = 2, /* ours has none, theirs has */
	TOUCHED = 4, /* ours has something of its own in it; while it GOES */
};

static bool is_dir(const struct visit *v, unsigned side)
{
	return v->at[side].type == FILE_DIRECTORY;
}

/* Sockets and devices are no content: as if they were not there. */
static void forget_nodes(struct visit *v)
{
	unsigned i;

	for (i = 0; i < VIEW_SIDES; i++)
		if (v->at[i].type == FILE_SOCKET ||
		    v->at[i].type == FILE_CHAR || v->at[i].type == FILE_BLOCK)
			v->at[i].type = FILE_NONE;
}

static int differ(struct walk *w, const struct visit *v, unsigned a, unsigned b,
		  bool *out, struct err *e)
{
	unsigned what;
	int r = compare(w, v, a, b, &what, e);

	*out = what != 0;
	return r;
}

static int say_step(struct walk *w, const struct visit *v, enum merge_step step,
		    struct err *e)
{
	const merge_fn *fn = w->arg;

	return (*fn)(w, v, step, e);
}

/* They have changed it; `touched`: ours is not the ancestor's. */
static int decide(struct walk *w, const struct visit *v, bool touched,
		  struct err *e)
{
	bool gone = v->at[THEIRS].type == FILE_NONE;
	bool other = true;
	int r;

	if (!touched && !(gone && v->at[OURS].type == FILE_NONE))
		return say_step(w, v, gone ? MERGE_REMOVE : MERGE_PUT, e);
	r = differ(w, v, THEIRS, OURS, &other, e);
	return r < 0 ? r
		     : say_step(w, v, other ? MERGE_CONFLICT : MERGE_SAME, e);
}

static int enter_going(struct visit *v, bool touched)
{
	bool own = touched && v->at[OURS].type != FILE_NONE;

	v->below = GOES | (own ? TOUCHED : 0);
	return 1;
}

/* Below a directory that goes: what ours has there and did not, or no more. */
static int below_going(struct walk *w, struct visit *v, struct err *e)
{
	bool touched = false;
	int r = differ(w, v, ANCESTOR, OURS, &touched, e);

	if (r < 0)
		return r;
	if (touched && v->at[OURS].type != FILE_NONE)
		*walk_above(w) |= TOUCHED;
	if (is_dir(v, ANCESTOR) || is_dir(v, OURS))
		return enter_going(v, touched);
	return v->at[ANCESTOR].type == FILE_NONE &&
			       v->at[OURS].type == FILE_NONE
		       ? 0
		       : decide(w, v, touched, e);
}

/* Theirs is a directory: below it paths meet one by one. */
static int enter_dir(struct walk *w, struct visit *v, bool changed,
		     bool touched, struct err *e)
{
	int r = 0;

	if (changed)
		r = v->above & NO_ROOM ? say_step(w, v, MERGE_CONFLICT, e)
				       : decide(w, v, touched, e);
	/* A file of ours that is still the ancestor's makes room. */
	if (!is_dir(v, OURS) && (v->above & NO_ROOM || !changed || touched))
		v->below = NO_ROOM;
	return r < 0 ? r : 1;
}

/*
 * Of a path that was asked for, nobody has visited what is above it: ours has
 * not the directory any more that both others have.
 */
static void look_above(struct visit *v)
{
	if (walk_dir(v, OURS) < 0 && walk_dir(v, THEIRS) >= 0 &&
	    walk_dir(v, ANCESTOR) >= 0)
		v->above |= NO_ROOM;
}

static int enter(struct walk *w, struct visit *v, struct err *e)
{
	bool changed = false, touched = false;
	int r;

	forget_nodes(v);
	look_above(v);
	if (v->above & GOES)
		return below_going(w, v, e);
	if (compare_is_one(w, v, ANCESTOR, THEIRS))
		return 0;
	r = differ(w, v, ANCESTOR, THEIRS, &changed, e);
	if (r == 0)
		r = differ(w, v, ANCESTOR, OURS, &touched, e);
	if (r < 0)
		return r;
	if (is_dir(v, THEIRS))
		return enter_dir(w, v, changed, touched, e);
	if (!changed)
		return 0;
	if (v->above & NO_ROOM && v->at[THEIRS].type != FILE_NONE)
		return say_step(w, v, MERGE_CONFLICT, e);
	if (is_dir(v, ANCESTOR) || is_dir(v, OURS))
		return enter_going(v, touched);
	return decide(w, v, touched, e);
}

/* A directory of ours or the ancestor's that theirs has not. */
static int leave(struct walk *w, struct visit *v, struct err *e)
{
	if (!(v->below & GOES))
		return 0;
	if (v->above & GOES && v->below & TOUCHED)
		*walk_above(w) |= TOUCHED;
	return decide(w, v, v->below & TOUCHED, e);
}

int merge_plan(struct look *l, merge_fn fn, struct err *e)
{
	static const struct walk_ops ops = { .enter = enter, .leave = leave };
	static struct walk w;

	w.l = l;
	w.n = 3;
	w.ops = &ops;
	w.arg = &fn;
	return walk_asked(&w, e);
}

static int say_plan(struct walk *w, const struct visit *v, enum merge_step step,
		    struct err *e)
{
	static char theirs[FILE_PATH_MAX + 1], ours[FILE_PATH_MAX + 1];
	struct view_record r = { .kind = VIEW_STEP };

	r.step.step = step;
	if (walk_describe(v, THEIRS, theirs, &r.step.theirs, e) < 0 ||
	    walk_describe(v, OURS, ours, &r.step.ours, e) < 0)
		return -e->code;
	return say_record(&w->l->say, &r, e);
}

int look_merge(struct look *l, struct err *e)
{
	return merge_plan(l, say_plan, e);
}
