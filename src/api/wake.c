#include "api/wake.h"

#include <errno.h>
#include <stdlib.h>

#include "api/api.h"
#include "api/auto_snapshot.h"
#include "api/reply.h"
#include "api/routes.h"

struct held {
	struct pause_waiter waiter;
	struct api *api;
	struct http_conn *conn;
	struct call call;
	struct share *place;
};

static void held_free(struct held *h)
{
	share_give(h->place, 1);
	free(h);
}

/* It goes on waking up: the next one will be glad. */
static void held_gone(struct http_conn *c, void *owner)
{
	struct held *h = owner;

	(void)c;
	list_del(&h->waiter.node);
	held_free(h);
}

/* A sandbox that could not be woken is a matter of this host's, now. */
static void refuse(struct held *h, const struct sandbox *s, const struct err *e)
{
	struct err why = { 0 };

	if (e->code == ERR_ENDED || e->code == EBUSY ||
	    e->code == WARDEN_AWAY) {
		reply_err(h->api, h->conn, e);
		return;
	}
	err_set(&why, EAGAIN, "sandbox %s could not be woken: %s", s->id,
		e->msg);
	reply_err(h->api, h->conn, &why);
}

static void on_awake(struct pause_waiter *w, struct sandbox *s,
		     const struct err *e)
{
	struct held *h = container_of(w, struct held, waiter);
	struct api *a = h->api;
	struct http_conn *c = h->conn;
	struct call call = h->call;

	if (e->code)
		refuse(h, s, e);
	held_free(h);
	if (e->code)
		return;
	http_own(c, NULL, NULL);
	if (!auto_snapshot_hold(a, c, &call, s))
		call.route->fn(a, c, &call);
}

static unsigned n_wakers(const struct sandbox *s)
{
	const struct list *l;
	unsigned n = 0;

	for (l = s->pause.wakers.next; l != &s->pause.wakers; l = l->next)
		n++;
	return n;
}

bool wake_hold(struct api *a, struct http_conn *c, const struct call *call,
	       struct sandbox *s)
{
	struct err e = { 0 };
	struct share *place;
	struct held *h;

	if (!box_sleeps(s))
		return false;
	if (call->who.scope < SCOPE_USE) {
		err_set(&e, EBUSY,
			"sandbox %s is paused, and a key that only reads does "
			"not wake it: resume it first",
			s->id);
		reply_err(a, c, &e);
		return true;
	}
	if (n_wakers(s) >= HELD_BOX_MAX) {
		reply_error(a, c, 503, "try_again",
			    "too many requests wait for the sandbox to wake "
			    "up");
		return true;
	}
	place = share_take(&a->pools.held, call->who.project, 1, &e);
	if (!place) {
		reply_err(a, c, &e);
		return true;
	}
	h = xcalloc(1, sizeof(*h));
	h->place = place;
	h->api = a;
	h->conn = c;
	h->call = *call;
	h->waiter.fn = on_awake;
	pause_because(&h->waiter.cause, "request", &call->who, c);
	http_own(c, h, held_gone);
	box_wake(s, &h->waiter);
	return true;
}
