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

int box_door(struct box *b, uint32_t flags, struct door_done *done,
	     struct err *e)
{
	bool self = (flags & DOOR_SELF) && b->door[DOOR_FD_SELF] < 0;
	unsigned i;

	if (b->state == BOX_ENDING)
		return err_set(e, ESRCH, "sandbox %s is ending", b->spec.id);
	if ((b->door[DOOR_FD_PROXY] < 0 || self) &&
	    make_missing(b, self, e) < 0)
		return -e->code;
	done->fds = 0;
	for (i = 0; i < GATE_FDS_MAX; i++)
		done->fds |= b->door[i] >= 0 ? 1U << i : 0;
	return 0;
}
