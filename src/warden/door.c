/*
 * The sockets of a sandbox's door, for the gate, which has no other way in.
 * They are kept open here: while no gate runs, connections wait in them. After
 * a crash of the warden the gate has the only copies.
 */
#include <errno.h>

#include "base/log.h"
#include "sandbox/net/door.h"
#include "warden/warden.h"

void door_close(struct box *b)
{
	door_sockets_close(b->door);
	b->door_given = false;
}

static int make_missing(struct box *b, bool self, struct err *e)
{
	int r;

	if (net_enter(b, e) < 0)
		return -e->code;
	r = door_sockets(b->w->net_fd, self, b->door, e);
	net_leave(b);
	if (r < 0)
		return err_wrap(e, "door of sandbox %s", b->spec.id);
	if (r == DOOR_PLAIN)
		log_warn("only clients that know proxies get out of sandboxes: "
			 "%s",
			 e->msg);
	err_clear(e);
	return 0;
}

static int make(struct box *b, bool self, struct err *e)
{
	if (b->state == BOX_ENDING)
		return err_set(e, ESRCH, "sandbox %s is ending", b->spec.id);
	if (box_is_vm(b) && b->state != BOX_RUNNING)
		return err_set(e, EAGAIN, "sandbox %s is starting", b->spec.id);
	if (b->door[DOOR_FD_PROXY] < 0 || (self && b->door[DOOR_FD_SELF] < 0))
		return make_missing(b, self, e);
	return 0;
}

void box_door(struct box *b, uint32_t flags, struct waiter *wt)
{
	struct err e = { 0 };

	if (make(b, flags & DOOR_SELF, &e) == 0 && box_is_vm(b))
		relay_door(b, flags, wt);
	else
		door_done(b, flags, wt, &e);
}

static void give(struct box *b, struct waiter *wt)
{
	struct warden_rep rep = { 0 };
	int fds[GATE_FDS_MAX] = { 0 }, n = 0;
	unsigned i;

	b->door_given = true;
	for (i = 0; i < GATE_FDS_MAX; i++)
		if (b->door[i] >= 0) {
			rep.door.fds |= 1U << i;
			fds[n++] = b->door[i];
		}
	answer_rep(wt, &rep, fds, n);
}

/*
 * Several may ask at once. What one failed with closes nothing that another
 * has got; and who is answered after it was closed gets it made again.
 */
void door_done(struct box *b, uint32_t flags, struct waiter *wt,
	       const struct err *e)
{
	struct warden_rep rep = { .err = *e };

	if (e->code == 0 && (b->door[DOOR_FD_PROXY] >= 0 ||
			     make(b, flags & DOOR_SELF, &rep.err) == 0)) {
		give(b, wt);
		return;
	}
	if (box_is_vm(b) && !b->door_given)
		door_close(b);
	answer_rep(wt, &rep, NULL, 0);
}
