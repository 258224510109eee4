#include "api/auto_snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/wake.h"
#include "http/target.h"

/* The sandbox of a run is gone with its command, and all its snapshots' use. */
bool auto_snapshot_wanted(const struct sandbox *s)
{
	return (s->state == BOX_RUNNING || s->state == BOX_PAUSED) &&
	       !s->transient && strcmp(s->spec.auto_snapshot, "exec") == 0;
}

/* --- how many stay --- */

static bool is_old(const struct snapshot *snap, const struct snapshot *newest)
{
	return snap->kind == SNAPSHOT_AUTO && snapshot_visible(snap) &&
	       strcmp(snap->sandbox, newest->sandbox) == 0;
}

/* The table is in the order they were made: the oldest come first. */
static void prune(struct api *a, const struct snapshot *newest)
{
	const struct sandbox *s = box_by_id(a, newest->sandbox);
	struct list *n, *next;
	struct err e = { 0 };
	uint64_t have = 0;

	list_each (n, next, &a->snapshots.all)
		have += is_old(container_of(n, struct snapshot, node), newest);
	list_each (n, next, &a->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);

		if (!s || have <= s->spec.snapshot_keep)
			return;
		if (!is_old(snap, newest))
			continue;
		have--;
		if (snapshot_drop(snap, &e) < 0) {
			log_err("snapshot=%s %s, ignoring", snap->id, e.msg);
			err_clear(&e);
		}
	}
}

/* --- taking one --- */

static void on_taken(struct snapshot_take *t, struct snapshot *snap,
		     const struct err *e)
{
	struct auto_snapshot *w = container_of(t, struct auto_snapshot, take);
	struct api *a = w->api;
	struct err why = { 0 };

	w->api = NULL;
	if (!snap) {
		err_set(&why, e->code, "no snapshot before the command: %s",
			e->msg);
		w->done(w, &why);
		return;
	}
	audit_add(a, &(struct audit){ .type = "snapshot.create",
				      .box = box_by_id(a, snap->sandbox),
				      .who = &w->who,
				      .request_id = w->request_id,
				      .data = snapshot_json(snap) });
	prune(a, snap);
	snapshot_release(snap);
	w->done(w, &why);
}

int auto_snapshot_take(struct auto_snapshot *w, struct sandbox *s,
		       const struct identity *who, const char *request_id,
		       void (*done)(struct auto_snapshot *w,
				    const struct err *e),
		       struct err *e)
{
	const struct snapshot_ask ask = { .kind = SNAPSHOT_AUTO };
	int r = snapshot_take(&w->take, s, &ask, on_taken, e);

	if (r < 0)
		return err_wrap(e, "no snapshot before the command");
	w->api = s->api;
	w->who = *who;
	w->done = done;
	snprintf(w->request_id, sizeof(w->request_id), "%s", request_id);
	return 0;
}

void auto_snapshot_leave(struct auto_snapshot *w)
{
	if (w->api)
		snapshot_leave(&w->take);
	w->api = NULL;
}

/* --- requests --- */

struct held {
	struct auto_snapshot auto_snapshot;
	struct api *api;
	struct http_conn *conn;
	struct call call;
	char id[ID_CAP];
	struct share *place;
};

static void held_gone(struct http_conn *c, void *owner)
{
	struct held *h = owner;

	(void)c;
	auto_snapshot_leave(&h->auto_snapshot);
	share_give(h->place, 1);
	free(h);
}

static void on_ready(struct auto_snapshot *w, const struct err *e)
{
	struct held *h = container_of(w, struct held, auto_snapshot);
	struct sandbox *s = box_by_id(h->api, h->id);
	struct api *a = h->api;
	struct http_conn *c = h->conn;
	struct call call = h->call;

	share_give(h->place, 1);
	free(h);
	http_own(c, NULL, NULL);
	/* Suspended or rolled back meanwhile: the same again in its next life.
	 */
	if (e->code && s && wake_hold(a, c, &call, s))
		return;
	if (e->code)
		reply_err(a, c, e);
	else
		call.route->fn(a, c, &call);
}

/* A terminal of a process that is there starts nothing. */
static bool starts_something(struct http_conn *c, const struct call *call)
{
	char number[32];

	return (call->route->flags & ROUTE_EXEC) &&
	       http_query(http_request(c), "process", number, sizeof(number)) ==
		       0;
}

bool auto_snapshot_hold(struct api *a, struct http_conn *c,
			const struct call *call, struct sandbox *s)
{
	struct err e = { 0 };
	struct share *place;
	struct held *h;

	if (!auto_snapshot_wanted(s) || !starts_something(c, call))
		return false;
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
	memcpy(h->id, s->id, ID_CAP);
	if (auto_snapshot_take(&h->auto_snapshot, s, &call->who,
			       http_request_id(c), on_ready, &e) < 0) {
		reply_err(a, c, &e);
		share_give(h->place, 1);
		free(h);
		return true;
	}
	http_own(c, h, held_gone);
	return true;
}
