/* Requests about snapshots: to take one, to see them, to remove them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/proc_json.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/space.h"
#include "base/auto.h"
#include "http/target.h"

/* --- taking one --- */

struct asked {
	struct snapshot_take take;
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	char ref[CALL_ARG_CAP];
};

static void asked_gone(struct http_conn *c, void *owner)
{
	struct asked *q = owner;

	(void)c;
	snapshot_leave(&q->take);
	free(q);
}

/* Both are the request's end. */
static void answer(struct asked *q, const struct snapshot *snap)
{
	audit_reply(q->api, q->conn,
		    &(struct audit){ .type = "snapshot.create",
				     .box = box_by_id(q->api, snap->sandbox),
				     .who = &q->who,
				     .request_id = http_request_id(q->conn),
				     .data = snapshot_json(snap) },
		    201, snapshot_json(snap));
	free(q);
}

static void refuse(struct asked *q, const struct err *e)
{
	reply_err(q->api, q->conn, e);
	free(q);
}

static void on_taken(struct snapshot_take *t, struct snapshot *snap,
		     const struct err *e)
{
	struct asked *q = container_of(t, struct asked, take);

	if (!snap) {
		refuse(q, e);
		return;
	}
	answer(q, snap);
	snapshot_release(snap);
}

static int take_ask(json_t *body, struct snapshot_ask *ask, struct err *e)
{
	const char *key, **name = &ask->name;
	json_t *v;

	*name = "";
	json_object_foreach (body, key, v) {
		if (strcmp(key, "own") == 0 && json_is_boolean(v)) {
			if (json_is_true(v))
				ask->kind = SNAPSHOT_OWN;
			continue;
		}
		if (strcmp(key, "name") != 0)
			return err_set(e, EINVAL, "unknown key '%.64s'", key);
		if (json_is_null(v))
			continue;
		*name = json_string_value(v);
		if (!*name || strlen(*name) != json_string_length(v))
			return err_set(e, EINVAL, "name: not a string");
	}
	return 0;
}

static void take_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct asked *q = owner;
	struct snapshot_ask ask = { .kind = SNAPSHOT_USER };
	struct err e = { 0 };
	json_t *j = parse_body(body, n, &e);
	struct sandbox *s = j ? box_find(q->api, &q->who, q->ref, &e) : NULL;
	int r = s ? take_ask(j, &ask, &e) : -EINVAL;
	struct snapshot *disk = NULL;

	(void)c;
	if (r == 0 && s->state == BOX_SUSPENDED)
		disk = snapshot_promote(s, ask.name, &e);
	else if (r == 0)
		r = snapshot_take(&q->take, s, &ask, on_taken, &e);
	json_decref(j);
	if (disk)
		answer(q, disk);
	else if (r < 0 || e.code)
		refuse(q, &e);
}

static void h_snapshot_take(struct api *a, struct http_conn *c,
			    const struct call *call)
{
	struct asked *q = xcalloc(1, sizeof(*q));

	q->api = a;
	q->conn = c;
	q->who = call->who;
	memcpy(q->ref, call->arg[0], sizeof(q->ref));
	http_own(c, q, asked_gone);
	http_read_body(c, BODY_MAX, take_body);
}

/* --- seeing them --- */

struct filter {
	const struct identity *who;
	char sandbox[CALL_ARG_CAP], name[NAME_CAP], project[NAME_CAP];
	char box_id[ID_CAP];
};

static int take_filter(struct api *a, const struct http_head *h,
		       struct filter *f, struct err *e)
{
	const struct sandbox *s;

	if (http_query(h, "sandbox", f->sandbox, sizeof(f->sandbox)) < 0 ||
	    http_query(h, "name", f->name, sizeof(f->name)) < 0 ||
	    http_query(h, "project", f->project, sizeof(f->project)) < 0)
		return err_set(e, EINVAL,
			       "sandbox, name, project: given twice, or longer "
			       "than any");
	if (*f->sandbox == '\0')
		return 0;
	/* Also of one that has ended, by its whole id. */
	if (id_valid(f->sandbox))
		return str_copy(f->box_id, sizeof(f->box_id), f->sandbox);
	s = box_find(a, f->who, f->sandbox, e);
	if (!s)
		return -e->code;
	memcpy(f->box_id, s->id, sizeof(f->box_id));
	return 0;
}

static bool fits(const struct snapshot *snap, const struct filter *f)
{
	return snapshot_visible(snap) && who_sees(f->who, snap->project) &&
	       (!*f->box_id || strcmp(f->box_id, snap->sandbox) == 0) &&
	       (!*f->name || strcmp(f->name, snap->name) == 0) &&
	       (!*f->project || strcmp(f->project, snap->project) == 0);
}

static void h_snapshot_list(struct api *a, struct http_conn *c,
			    const struct call *call)
{
	struct filter f = { .who = &call->who };
	struct list *n, *next;
	struct err e = { 0 };
	json_t *list;

	if (take_filter(a, http_request(c), &f, &e) < 0) {
		reply_err(a, c, &e);
		return;
	}
	list = json_array();
	list_each (n, next, &a->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);

		if (fits(snap, &f))
			json_array_append_new(list, snapshot_json(snap));
	}
	reply_json(a, c, 200, json_pack("{s:o}", "snapshots", list));
}

static void h_snapshot_get(struct api *a, struct http_conn *c,
			   const struct call *call)
{
	struct err e = { 0 };
	struct snapshot *snap = snapshot_find(a, &call->who, call->arg[0], &e);
	bool space = false;

	if (!snap || query_bool(http_request(c), "space", &space, &e) < 0)
		reply_err(a, c, &e);
	else if (space)
		space_reply(a, c, snap);
	else
		reply_json(a, c, 200, snapshot_json(snap));
}

/* --- removing them --- */

static void h_snapshot_delete(struct api *a, struct http_conn *c,
			      const struct call *call)
{
	struct err e = { 0 };
	struct snapshot *snap = snapshot_find(a, &call->who, call->arg[0], &e);
	struct audit entry = { .type = "snapshot.remove",
			       .who = &call->who,
			       .request_id = http_request_id(c) };

	if (!snap) {
		reply_err(a, c, &e);
		return;
	}
	entry.box = box_by_id(a, snap->sandbox);
	entry.data = snapshot_json(snap);
	if (snapshot_drop(snap, &e) < 0) {
		json_decref(entry.data);
		reply_err(a, c, &e);
		return;
	}
	audit_reply(a, c, &entry, 204, NULL);
}

static const struct route_query get_query[] = {
	{ "space", "boolean", "have it measured, too" },
	{ 0 },
};
static const struct route_query list_query[] = {
	{ "sandbox", "string", "only those of it" },
	{ "name", "string", NULL },
	{ "project", "string", NULL },
	{ 0 },
};

const struct route snapshot_routes[] = {
	{ "POST", "/v1/sandboxes/{id}/snapshots", h_snapshot_take, SCOPE_USE, 0,
	  "Take a snapshot of a sandbox's disk; it goes on running", NULL,
	  "SnapshotAsk", "Snapshot", 201 },
	{ "GET", "/v1/snapshots", h_snapshot_list, SCOPE_READ, 0,
	  "List the snapshots", list_query, NULL, "SnapshotList", 200 },
	{ "GET", "/v1/snapshots/{id}", h_snapshot_get, SCOPE_READ, 0,
	  "Show a snapshot", get_query, NULL, "Snapshot", 200 },
	{ "DELETE", "/v1/snapshots/{id}", h_snapshot_delete, SCOPE_USE,
	  ROUTE_ANYWAY, "Remove a snapshot; what started from it stays", NULL,
	  NULL, NULL, 204 },
	{ 0 },
};
