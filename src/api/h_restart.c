/* Rollback, and the routes of what is made of snapshots. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/box_json.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

struct rollback {
	struct box_waiter waiter;
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	char ref[CALL_ARG_CAP], id[ID_CAP];
};

static void rollback_gone(struct http_conn *c, void *owner)
{
	struct rollback *b = owner;

	(void)c;
	list_del(&b->waiter.node);
	free(b);
}

static void on_done(struct box_waiter *w, const struct err *e)
{
	AUTO_FREE struct rollback *b = container_of(w, struct rollback, waiter);
	struct sandbox *s = box_by_id(b->api, b->id);

	if (e->code || !s)
		reply_err(b->api, b->conn, e);
	else
		reply_box(b->api, b->conn, s);
}

static struct snapshot *at_event(const struct rollback *b,
				 const struct sandbox *s, const json_t *event,
				 struct err *e)
{
	json_int_t n = json_integer_value(event);
	struct snapshot *snap =
		n > 0 ? snapshot_at(b->api, s->id, (uint64_t)n) : NULL;

	if (!json_is_integer(event) || n <= 0)
		err_set(e, EINVAL, "event: not the number of an entry");
	else if (!snap)
		err_set(e, ENOENT,
			"sandbox %s has no snapshot of entry %lld or before: "
			"see 'snapshot ls'",
			s->id, (long long)n);
	return snap;
}

static struct snapshot *named(const struct rollback *b, const json_t *name,
			      struct err *e)
{
	const char *ref = json_string_value(name);

	if (!ref || strlen(ref) != json_string_length(name)) {
		err_set(e, EINVAL, "snapshot: not a string");
		return NULL;
	}
	return snapshot_find(b->api, &b->who, ref, e);
}

/* One of the two, and nothing else. */
static struct snapshot *target(const struct rollback *b,
			       const struct sandbox *s, const json_t *j,
			       struct err *e)
{
	const json_t *name = json_object_get(j, "snapshot");
	const json_t *event = json_object_get(j, "event");

	if (json_object_size(j) != 1 || (!name && !event)) {
		err_set(e, EINVAL,
			"say {\"snapshot\": ...} or {\"event\": ...}");
		return NULL;
	}
	return name ? named(b, name, e) : at_event(b, s, event, e);
}

static void note(const struct rollback *b, const struct sandbox *s,
		 const struct snapshot *to)
{
	audit_add(b->api,
		  &(struct audit){
			  .type = "sandbox.rollback",
			  .box = s,
			  .who = &b->who,
			  .request_id = http_request_id(b->conn),
			  .data = json_pack("{s:s, s:s?}", "snapshot", to->id,
					    "name",
					    *to->name ? to->name : NULL) });
}

static int begin(struct rollback *b, const json_t *j, struct err *e)
{
	struct sandbox *s = box_find(b->api, &b->who, b->ref, e);
	struct snapshot *to = s ? target(b, s, j, e) : NULL;

	if (!to)
		return -e->code;
	memcpy(b->id, s->id, sizeof(b->id));
	if (may_rollback(s, to, e) < 0)
		return -e->code;
	note(b, s, to);
	return box_rollback(s, to, &b->waiter, e);
}

static void rollback_body(struct http_conn *c, char *body, size_t n,
			  void *owner)
{
	struct rollback *b = owner;
	struct err e = { 0 };
	json_t *j = parse_body(body, n, &e);
	int r = j ? begin(b, j, &e) : -EINVAL;

	json_decref(j);
	if (r == 0)
		return;
	reply_err(b->api, c, &e);
	free(b);
}

static void h_rollback(struct api *a, struct http_conn *c,
		       const struct call *call)
{
	struct rollback *b = xcalloc(1, sizeof(*b));

	b->api = a;
	b->conn = c;
	b->who = call->who;
	b->waiter.fn = on_done;
	list_init(&b->waiter.node);
	memcpy(b->ref, call->arg[0], sizeof(b->ref));
	http_own(c, b, rollback_gone);
	http_read_body(c, BODY_MAX, rollback_body);
}

const struct route restart_routes[] = {
	{ "POST", "/v1/sandboxes/{id}/rollback", h_rollback, SCOPE_USE, 0,
	  "Back to a snapshot: its processes end, and it starts from there",
	  NULL, "RollbackAsk", "Sandbox", 200 },
	{ "POST", "/v1/sandboxes/{id}/fork", h_fork, SCOPE_USE, 0,
	  "Sandboxes that start where this one (or a snapshot) is", NULL,
	  "ForkAsk", "Forks", 201 },
	{ "GET", "/v1/sandboxes/{id}/tree", h_tree, SCOPE_READ, 0,
	  "Where it comes from, and what comes from it", NULL, NULL, "Tree",
	  200 },
	{ 0 },
};
