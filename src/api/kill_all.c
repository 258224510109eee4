/*
 * The kill switch: DELETE /v1/sandboxes?all=true. One request to the warden
 * ends everything there is, known or not; meanwhile nothing new is started.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "api/routes.h"
#include "http/target.h"

struct kill_all {
	struct api *api;
	struct http_conn *conn; /* NULL: the client left, we go on */
	struct warden_call call;
	unsigned n;
};

static void kill_all_gone(struct http_conn *c, void *owner)
{
	(void)c;
	((struct kill_all *)owner)->conn = NULL;
}

/* Its launch has not been answered: its kill follows the answer. */
static bool launch_pending(const struct sandbox *s)
{
	return s->call.busy && s->call.req.op == WARDEN_LAUNCH;
}

static void forget_all(struct api *a)
{
	struct list *n, *next;
	struct err e = { 0 };
	int r = registry_begin(&a->registry, &e);

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (!launch_pending(s))
			box_gone(s, NULL);
	}
	if (r == 0)
		r = registry_end(&a->registry, 0, &e);
	if (r < 0)
		log_err("%s, ignoring", e.msg);
	api_registry_touched(a);
}

static void on_killed(struct warden_call *c, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct kill_all *k = container_of(c, struct kill_all, call);
	struct api *a = k->api;

	(void)fds;
	a->boxes.closing = false;
	if (rep->err.code == 0)
		forget_all(a);
	log_info("all sandboxes removed: %u, %s", k->n,
		 rep->err.code ? rep->err.msg : "done");
	if (k->conn && rep->err.code)
		reply_err(a, k->conn, &rep->err);
	else if (k->conn)
		reply_json(a, k->conn, 200,
			   json_pack("{s:I}", "removed", (json_int_t)k->n));
	spares_poke(a);
	free(k);
}

static unsigned abort_starting(struct api *a)
{
	struct list *n, *next;
	unsigned count = 0;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		count += box_visible(s);
		if (s->state == BOX_LAUNCHING)
			box_abort(s, EAGAIN, "all sandboxes were removed");
	}
	return count;
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

	(void)call;
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
	k = xcalloc(1, sizeof(*k));
	k->api = a;
	k->conn = c;
	http_own(c, k, kill_all_gone);
	/* Whoever pulls it wants to see nothing run. */
	a->boxes.closing = a->boxes.no_spares = true;
	k->n = abort_starting(a);
	warden_req_id(&k->call, WARDEN_KILL_ALL, "");
	warden_ask(&a->warden, &k->call, on_killed);
}
