/*
 * What is done to a sandbox that runs and takes a while (snapshots, pauses,
 * resumes) takes turns: each finds it as the one before has left it. The first
 * one waits for the end of the helper that made the sandbox's namespaces: it is
 * in its groups, and would be frozen with them.
 */
#include <errno.h>

#include "warden/warden.h"

void turns_go_on(struct box *b)
{
	/* Many that are done at once are no reason for a deep stack. */
	if (b->turning)
		return;
	b->turning = true;
	while (!b->turn && b->helper_io.fd < 0 && !list_empty(&b->turns)) {
		struct turn *t = container_of(b->turns.next, struct turn, node);
		struct err e = { 0 };

		list_del(&t->node);
		b->turn = t;
		if (t->start(t, &e) < 0)
			turn_end(t, &e);
	}
	b->turning = false;
}

void turn_take(struct box *b, struct turn *t, struct waiter *wt)
{
	struct err e = { 0 };

	list_init(&t->node);
	t->box = b;
	t->w = b->w;
	t->wt = wt;
	if (b->state != BOX_RUNNING) {
		t->box = NULL;
		err_set(&e, ESRCH, "sandbox %s does not run", b->spec.id);
		t->over(t, &e);
		return;
	}
	list_add(&b->turns, &t->node);
	turns_go_on(b);
}

void turn_end(struct turn *t, const struct err *e)
{
	struct box *b = t->box;

	if (b)
		b->turn = NULL;
	t->over(t, e);
	if (b)
		turns_go_on(b);
}

void turns_drop(struct box *b)
{
	struct turn *now = b->turn;
	struct list *pos, *tmp;
	struct err e = { 0 };

	err_set(&e, ESRCH, "sandbox %s has ended", b->spec.id);
	list_each (pos, tmp, &b->turns) {
		struct turn *t = container_of(pos, struct turn, node);

		list_del(&t->node);
		t->box = NULL;
		t->over(t, &e);
	}
	b->turn = NULL;
	if (now) {
		now->box = NULL;
		if (now->cancel)
			now->cancel(now, &e);
	}
}
