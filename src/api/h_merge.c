/* Merging into a sandbox: the request and its answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/file_job.h"
#include "api/merge.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

struct asked {
	struct http_conn *conn; /* NULL: it left */
	struct merge merge;
	enum merge_prefer prefer;
	struct deferred gone;
};

static void asked_free(struct deferred *d)
{
	struct asked *q = container_of(d, struct asked, gone);

	path_list_done(&q->merge.paths);
	merge_plan_done(&q->merge.plan);
	json_decref(q->merge.notes);
	free(q);
}

/* What was begun is brought to an end also for one who left. */
static void asked_gone(struct http_conn *c, void *owner)
{
	struct asked *q = owner;

	(void)c;
	q->conn = NULL;
	if (q->merge.api)
		merge_give_up(&q->merge);
	else
		asked_free(&q->gone);
}

static json_t *result_json(const struct merge *m)
{
	json_t *j = merge_plan_counts(&m->plan);
	uint64_t all =
		m->plan.put + m->plan.removed + m->plan.same + m->plan.kept;

	json_object_set(j, "changes", m->plan.changes);
	json_object_set_new(
		j, "truncated",
		json_boolean(all > json_array_size(m->plan.changes)));
	json_object_set_new(j, "dry_run", json_boolean(m->dry_run));
	json_object_set_new(j, "pause_ms",
			    json_integer((json_int_t)(m->pause_us / 1000)));
	if (json_array_size(m->notes) > 0)
		json_object_set(j, "notes", m->notes);
	return j;
}

static json_t *refusal_json(const struct asked *q)
{
	const struct merge_plan *p = &q->merge.plan;
	AUTO(buf_done) struct buf b = { 0 };
	json_t *j;

	buf_printf(&b,
		   "%llu paths were changed on both sides, and nothing was "
		   "merged: leave them out, or prefer \"ours\" or \"theirs\"",
		   (unsigned long long)p->conflicts);
	j = json_pack("{s:i, s:s, s:s, s:s, s:O, s:o}", "code", 409, "error",
		      "merge_conflict", "message", buf_str(&b), "request_id",
		      http_request_id(q->conn), "conflicts", p->clashes,
		      "counts", merge_plan_counts(p));
	return j;
}

static void note(const struct merge *m, const struct err *e)
{
	json_t *data = merge_plan_counts(&m->plan);

	json_object_set_new(data, "from", json_string(m->from));
	json_object_set_new(data, "pause_ms",
			    json_integer((json_int_t)(m->pause_us / 1000)));
	if (e->code)
		json_object_set_new(data, "error", json_string(e->msg));
	else if (merge_refused(m))
		json_object_set_new(data, "error", json_string("conflicts"));
	audit_add(m->api, &(struct audit){
				  .type = "sandbox.merge",
				  .box = box_by_id(m->api, m->box_id),
				  .who = &m->who,
				  .request_id = m->request_id,
				  .data = data,
			  });
}

static void reply(struct asked *q, const struct err *e)
{
	struct api *a = q->merge.api;

	if (e->code == EXDEV && !*q->merge.base.side.image)
		reply_error(a, q->conn, 409, "no_ancestor", e->msg);
	else if (e->code)
		reply_file_err(a, q->conn, e);
	else if (merge_refused(&q->merge) && !q->merge.dry_run)
		reply_json(a, q->conn, 409, refusal_json(q));
	else
		reply_json(a, q->conn, 200, result_json(&q->merge));
}

static void on_done(struct merge *m, const struct err *e)
{
	struct asked *q = container_of(m, struct asked, merge);

	if (!m->dry_run)
		note(m, e);
	if (q->conn)
		reply(q, e);
	loop_defer(&m->api->loop, &q->gone, asked_free);
}

static int take_prefer(const json_t *v, enum merge_prefer *out, struct err *e)
{
	static const char *const words[] = { "", "ours", "theirs" };
	const char *s = json_string_value(v);
	unsigned i;

	if (!v || json_is_null(v))
		return 0;
	for (i = PREFER_OURS; s && i < ARRAY_LEN(words); i++)
		if (strcmp(s, words[i]) == 0) {
			*out = i;
			return 0;
		}
	return err_set(e, EINVAL, "prefer is not \"ours\" or \"theirs\"");
}

static int take_body(struct asked *q, json_t *body, struct err *e)
{
	static const char *const keys[] = { "from", "paths", "paths_base64",
					    "prefer", "dry_run" };
	const char *key, *from;
	json_t *v;
	size_t i;

	json_object_foreach (body, key, v) {
		for (i = 0; i < ARRAY_LEN(keys); i++)
			if (strcmp(keys[i], key) == 0)
				break;
		if (i == ARRAY_LEN(keys))
			return err_set(e, EINVAL, "unknown key '%.64s'", key);
	}
	from = json_string_value(json_object_get(body, "from"));
	if (!from || !*from ||
	    str_copy(q->merge.from, sizeof(q->merge.from), from) < 0)
		return err_set(e, EINVAL,
			       "from is missing: a sandbox or snapshot");
	v = json_object_get(body, "dry_run");
	if (v && !json_is_boolean(v))
		return err_set(e, EINVAL, "dry_run is not true or false");
	q->merge.dry_run = json_is_true(v);
	if (take_prefer(json_object_get(body, "prefer"), &q->prefer, e) < 0)
		return -e->code;
	return path_list_json(&q->merge.paths, body, e);
}

static void start(struct http_conn *c, char *text, size_t n, void *owner)
{
	struct asked *q = owner;
	struct api *a = http_conn_server(c)->ctx;
	struct err e = { 0 };
	json_t *body = parse_body(text, n, &e);

	if (body)
		(void)!take_body(q, body, &e);
	json_decref(body);
	if (e.code == 0) {
		merge_plan_init(&q->merge.plan, q->prefer);
		q->merge.api = a;
		if (merge_start(&q->merge, &e) == 0)
			return;
	}
	asked_free(&q->gone);
	reply_err(a, c, &e);
}

static void h_merge(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	struct sandbox *s = box_find(a, &call->who, call->arg[0], &e);
	struct asked *q;

	if (!s) {
		reply_err(a, c, &e);
		return;
	}
	q = xcalloc(1, sizeof(*q));
	q->conn = c;
	memcpy(q->merge.box_id, s->id, sizeof(q->merge.box_id));
	q->merge.who = call->who;
	memcpy(q->merge.request_id, http_request_id(c),
	       sizeof(q->merge.request_id));
	q->merge.done = on_done;
	http_own(c, q, asked_gone);
	http_read_body(c, BODY_MAX, start);
}

const struct route merge_routes[] = {
	{ "POST", "/v1/sandboxes/{id}/merge", h_merge, SCOPE_USE, ROUTE_WAKE,
	  "Take over what was changed elsewhere since the common ancestor",
	  NULL, "Merge", "MergeResult", 200 },
	{ 0 },
};
