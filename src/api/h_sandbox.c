/*
 * Requests about sandboxes. Each that has to wait is a small object owned by
 * its HTTP request; when the client leaves, on_gone() ends what it had asked
 * for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/box_json.h"
#include "api/box_log.h"
#include "api/proc_json.h"
#include "api/relay.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "http/target.h"

/* --- creating, and running in one that was created for it --- */

struct create {
	struct api *api;
	struct http_conn *conn;
	struct sandbox *box;
	struct identity who;
	struct replay replay;
	bool run;
};

static void create_free(struct create *cr)
{
	replay_done(&cr->replay);
	free(cr);
}

static void create_gone(struct http_conn *c, void *owner)
{
	struct create *cr = owner;

	(void)c;
	if (cr->box)
		box_kill(cr->box, NULL);
	create_free(cr);
}

static void create_failed(struct create *cr, const struct err *e)
{
	reply_err(cr->api, cr->conn, e);
	create_free(cr);
}

/* The row and, if it may be asked for again, the answer: one commit. */
static int tell(struct create *cr, const char *spec, const char *answer,
		struct err *e)
{
	struct registry *r = &cr->api->registry;
	int rc;

	if (!cr->replay.given)
		return box_tell(cr->box, spec, e);
	rc = registry_begin(r, e);
	if (rc < 0)
		return rc;
	rc = box_tell(cr->box, spec, e);
	if (rc == 0)
		rc = replay_keep(cr->api, &cr->replay, answer, e);
	rc = registry_end(r, rc, e);
	if (rc < 0)
		cr->box->told = false;
	return rc;
}

static void created(struct create *cr)
{
	AUTO(buf_done) struct buf answer = { 0 };
	AUTO_FREE char *spec = NULL;
	struct err e = { 0 };
	struct sandbox *s = cr->box;

	box_log_ready(s, &cr->who, cr->conn);
	if (cr->run) {
		if (relay_start(cr->api, cr->conn, s, &cr->who, true, &e) < 0) {
			log_warn("sandbox=%s %s", s->id, e.msg);
			box_kill(s, NULL);
		}
		create_free(cr);
		return;
	}
	spec = box_spec_text(s);
	box_text(s, spec, &answer);
	if (tell(cr, spec, buf_str(&answer), &e) < 0) {
		box_kill(s, NULL);
		create_failed(cr, &e);
		return;
	}
	reply_text(cr->api, cr->conn, 201, NULL, buf_str(&answer));
	create_free(cr);
}

static void on_created(void *arg, struct sandbox *s, const struct err *e)
{
	struct create *cr = arg;

	if (s)
		created(cr);
	else
		create_failed(cr, e);
}

/* The snapshot that the body names, if it does, is not part of the spec. */
static int take_snapshot(struct create *cr, json_t *j, struct snapshot **out,
			 struct err *e)
{
	json_t *v = json_object_get(j, "snapshot");
	char ref[CALL_ARG_CAP];

	*out = NULL;
	if (!v || cr->run)
		return 0;
	if (!json_is_string(v) ||
	    strlen(json_string_value(v)) != json_string_length(v) ||
	    str_copy(ref, sizeof(ref), json_string_value(v)) < 0)
		return err_set(e, EINVAL, "snapshot: not a string");
	if (json_object_get(j, "image"))
		return err_set(e, EINVAL,
			       "image: it is the snapshot's, leave it out");
	json_object_del(j, "snapshot");
	*out = snapshot_find(cr->api, &cr->who, ref, e);
	return *out ? 0 : -e->code;
}

static int create(struct create *cr, json_t *j, struct err *e)
{
	AUTO(spec_done) struct spec spec = { 0 };
	struct snapshot *from;
	json_t *had;
	int r = take_snapshot(cr, j, &from, e);

	if (r == 0 && from)
		r = snapshot_spec(from, &spec, e);
	else
		spec_defaults(&spec, &cr->api->conf);
	had = json_incref(spec.canaries);
	if (r == 0)
		r = spec_from_json(&spec, j, e);
	if (r == 0 && had)
		r = spec_inherit_canaries(&spec, had, e);
	json_decref(had);
	if (r == 0)
		r = rules_may_say(&cr->who, j, e);
	if (r < 0)
		return r;
	if (from)
		return box_create_from(from, &spec, from->sandbox, &cr->box, e);
	return box_create(cr->api, who_project(&cr->who), &spec, cr->run,
			  &cr->box, e);
}

static void create_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct create *cr = owner;
	struct err e = { 0 };
	json_t *j;
	int r;

	if (!cr->run &&
	    replay_answer(cr->api, c, &cr->who, body, n, &cr->replay)) {
		create_free(cr);
		return;
	}
	j = parse_body(body, n, &e);
	r = j ? create(cr, j, &e) : -EINVAL;
	json_decref(j);
	if (r >= 0)
		box_log_create(cr->box, &cr->who, c, cr->run);
	if (r < 0)
		create_failed(cr, &e);
	else if (r == 1)
		created(cr);
	else
		box_on_ready(cr->box, on_created, cr);
}

static void create_start(struct api *a, struct http_conn *c,
			 const struct call *call, bool run)
{
	struct create *cr = xcalloc(1, sizeof(*cr));

	cr->api = a;
	cr->conn = c;
	cr->who = call->who;
	cr->run = run;
	http_own(c, cr, create_gone);
	http_read_body(c, BODY_MAX, create_body);
}

static void h_sandbox_create(struct api *a, struct http_conn *c,
			     const struct call *call)
{
	create_start(a, c, call, false);
}

/* An upgrade to frames, and room for one more? Else answered here. */
static bool may_relay(struct api *a, struct http_conn *c,
		      const struct identity *who)
{
	struct err e = { 0 };
	struct share *place;

	if (!http_wants_upgrade(http_request(c), WIRE_UPGRADE)) {
		reply_error(a, c, 426, "upgrade_required",
			    "ask with 'Connection: Upgrade' and "
			    "'Upgrade: " WIRE_UPGRADE "'");
		return false;
	}
	/* relay_start() takes it, when there is something to relay. */
	place = share_take(&a->pools.relays, who->project, 1, &e);
	if (!place)
		reply_err(a, c, &e);
	share_give(place, 1);
	return e.code == 0;
}

static void h_run(struct api *a, struct http_conn *c, const struct call *call)
{
	if (!http_header(http_request(c), "Upgrade"))
		h_run_once(a, c, call);
	else if (may_relay(a, c, &call->who))
		create_start(a, c, call, true);
}

/* --- exec --- */

struct exec {
	struct api *api;
	struct call call;
};

static void exec_gone(struct http_conn *c, void *owner)
{
	(void)c;
	free(owner);
}

static void exec_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	AUTO_FREE struct exec *x = owner;
	struct err e = { 0 };
	struct sandbox *s = box_find(x->api, &x->call.who, x->call.arg[0], &e);

	(void)body;
	(void)n;
	if (!s || box_usable(s, &x->call.who, http_request_id(c), &e) < 0 ||
	    agent_connect(s, &e) < 0)
		reply_err(x->api, c, &e);
	else if (relay_start(x->api, c, s, &x->call.who, false, &e) < 0)
		log_warn("sandbox=%s %s", s->id, e.msg);
}

static void h_exec(struct api *a, struct http_conn *c, const struct call *call)
{
	struct exec *x;

	if (!may_relay(a, c, &call->who))
		return;
	x = xcalloc(1, sizeof(*x));
	x->api = a;
	x->call = *call;
	http_own(c, x, exec_gone);
	http_read_body(c, BODY_MAX, exec_body);
}

/* --- removing --- */

struct removal {
	struct box_waiter waiter;
	struct api *api;
	struct http_conn *conn;
};

static void removal_gone(struct http_conn *c, void *owner)
{
	struct removal *r = owner;

	(void)c;
	list_del(&r->waiter.node);
	free(r);
}

static void on_removed(struct box_waiter *w, const struct err *e)
{
	struct removal *r = container_of(w, struct removal, waiter);

	if (e->code)
		reply_err(r->api, r->conn, e);
	else
		reply_empty(r->api, r->conn, 204);
	free(r);
}

static void h_sandbox_delete(struct api *a, struct http_conn *c,
			     const struct call *call)
{
	struct err e = { 0 };
	struct sandbox *s = box_find(a, &call->who, call->arg[0], &e);
	bool snapshots = false;
	struct removal *r;

	if (!s ||
	    query_bool(http_request(c), "snapshots", &snapshots, &e) < 0) {
		reply_err(a, c, &e);
		return;
	}
	s->drop_own = true;
	s->drop_snapshots |= snapshots;
	box_reason(s, "removed by %s", call->who.name);
	r = xcalloc(1, sizeof(*r));
	r->api = a;
	r->conn = c;
	r->waiter.fn = on_removed;
	http_own(c, r, removal_gone);
	box_kill(s, &r->waiter);
}

static const struct route_query delete_query[] = {
	{ "snapshots", "boolean",
	  "also remove snapshots that users took; automatic snapshots are "
	  "always removed" },
	{ 0 },
};

const struct route sandbox_routes[] = {
	{ "POST", "/v1/sandboxes", h_sandbox_create, SCOPE_USE, 0,
	  "Make a sandbox", NULL, "SandboxAsk", "Sandbox", 201 },
	{ "DELETE", "/v1/sandboxes", h_sandbox_delete_all, SCOPE_ADMIN,
	  ROUTE_ANYWAY | ROUTE_UNLOGGED, "The kill switch: end all sandboxes",
	  kill_all_query, NULL, "Removed", 200 },
	{ "PATCH", "/v1/sandboxes/{id}", h_sandbox_update, SCOPE_USE, 0,
	  "Change what may be changed while it lives", NULL, "SpecChange",
	  "Sandbox", 200 },
	{ "DELETE", "/v1/sandboxes/{id}", h_sandbox_delete, SCOPE_USE,
	  ROUTE_ANYWAY, "End a sandbox and remove all that was its own",
	  delete_query, NULL, NULL, 204 },
	{ "POST", "/v1/sandboxes/{id}/exec", h_exec, SCOPE_USE, ROUTE_WAKE,
	  "Processes over frames: upgrade to carrel-wire/1", NULL, NULL, NULL,
	  101 },
	{ "POST", "/v1/run", h_run, SCOPE_USE, 0,
	  "A new sandbox for one process; over frames with an upgrade to "
	  "carrel-wire/1 and a Spec",
	  NULL, "OnceRequest", "RunResult", 200 },
	{ 0 },
};
