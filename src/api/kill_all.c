/*
 * The kill switch: DELETE /v1/sandboxes?all=true. One request to the warden
 * ends everything there is, known or not; meanwhile nothing new is started.
 * Pulled for one project, it ends that project's sandboxes one by one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/reply.h"
#include "api/routes.h"
#include "http/target.h"

struct kill_all {
	struct api *api;
	struct http_conn *conn; /* NULL: the client left, we go on */
	struct identity who;
	struct warden_call call;
	unsigned n;
	unsigned left;    /* of a project's */
	struct err first; /* that went wrong */
};

/* One of a project's. */
struct victim {
	struct box_waiter waiter;
	struct kill_all *all;
};

static void kill_all_gone(struct http_conn *c, void *owner)
{
	(void)c;
	((struct kill_all *)owner)->conn = NULL;
}

static void finish(struct kill_all *k, const struct err *e)
{
	log_info("all sandboxes of project=%s removed by %s: %u, %s",
		 *k->who.project ? k->who.project : "*", k->who.name, k->n,
		 e->code ? e->msg : "done");
	if (k->conn && e->code)
		reply_err(k->api, k->conn, e);
	else if (k->conn)
		reply_json(k->api, k->conn, 200,
			   json_pack("{s:I}", "removed", (json_int_t)k->n));
	spares_poke(k->api);
	free(k);
}

/* --- all there are --- */

/* Its launch has not been answered: its kill follows the answer. */
static bool launch_pending(const struct sandbox *s)
{
	return s->call.busy && s->call.req.op == WARDEN_LAUNCH;
}

/* Not in one transaction: each end is in the registry, then in the log. */
static void forget_all(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (!launch_pending(s))
			box_gone(s, NULL, NULL);
	}
}

static void on_killed(struct warden_call *c, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct kill_all *k = container_of(c, struct kill_all, call);

	(void)fds;
	k->api->boxes.closing = false;
	if (rep->err.code == 0)
		forget_all(k->api);
	finish(k, &rep->err);
}

static unsigned abort_starting(struct api *a, const struct identity *who)
{
	struct list *n, *next;
	unsigned count = 0;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		count += box_visible(s);
		s->drop_own = true;
		box_reason(s, "all sandboxes were removed by %s", who->name);
		if (s->state == BOX_LAUNCHING)
			box_abort(s, EAGAIN, "all sandboxes were removed");
		else if (s->state == BOX_RESTARTING)
			box_kill(s, NULL);
	}
	return count;
}

static void kill_everything(struct kill_all *k)
{
	struct api *a = k->api;

	/* Whoever pulls it wants to see nothing run. */
	a->boxes.closing = a->boxes.no_spares = true;
	k->n = abort_starting(a, &k->who);
	warden_req_id(&k->call, WARDEN_KILL_ALL, "");
	warden_ask(&a->warden, &k->call, on_killed);
}

/* --- those of a project --- */

static void on_victim_gone(struct box_waiter *w, const struct err *e)
{
	struct victim *v = container_of(w, struct victim, waiter);
	struct kill_all *k = v->all;

	free(v);
	if (e->code && k->first.code == 0)
		k->first = *e;
	if (--k->left == 0)
		finish(k, &k->first);
}

static void kill_one(struct kill_all *k, struct sandbox *s)
{
	struct victim *v = xcalloc(1, sizeof(*v));

	k->n++;
	k->left++;
	v->all = k;
	v->waiter.fn = on_victim_gone;
	s->drop_own = true;
	box_reason(s, "all sandboxes were removed by %s", k->who.name);
	box_kill(s, &v->waiter);
}

static void kill_project(struct kill_all *k)
{
	struct api *a = k->api;
	struct list *n, *next;

	k->left = 1; /* ours: none of them is the last before all were asked */
	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (!box_is_for(s, &k->who) || s->spare)
			continue;
		if (s->state == BOX_LAUNCHING)
			box_abort(s, EAGAIN, "all sandboxes were removed");
		else if (box_visible(s))
			kill_one(k, s);
	}
	if (--k->left == 0)
		finish(k, &k->first);
}

const struct route_query kill_all_query[] = {
	{ "all", "boolean", "must be true" },
	{ 0 },
};

void h_sandbox_delete_all(struct api *a, struct http_conn *c,
			  const struct call *call)
{
	struct kill_all *k;
	char all[8];

	if (http_query(http_request(c), "all", all, sizeof(all)) != 1 ||
	    strcmp(all, "true") != 0) {
		reply_error(a, c, 400, "bad_request",
			    "name a sandbox, or say ?all=true");
		return;
	}
	if (a->boxes.closing) {
		reply_error(a, c, 409, "busy", "already being done");
		return;
	}
	audit_add(a, &(struct audit){ .type = "sandbox.end_all",
				      .who = &call->who,
				      .request_id = http_request_id(c) });
	k = xcalloc(1, sizeof(*k));
	k->api = a;
	k->conn = c;
	k->who = call->who;
	http_own(c, k, kill_all_gone);
	if (*k->who.project)
		kill_project(k);
	else
		kill_everything(k);
}
