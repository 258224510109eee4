/*
 * E2B's requests about snapshots. Theirs are templates; a sandbox is made of
 * one by its id (template_spec.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/job.h"
#include "api/e2b/snapshot.h"
#include "api/e2b/template.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/snapshots.h"
#include "base/auto.h"
#include "http/target.h"

enum { PAGE_MAX = 100 };

static json_t *shown(const char *id, const char *name)
{
	json_t *names = json_array();

	if (name && *name)
		json_array_append_new(names, json_string(name));
	return json_pack("{s:s, s:o}", "snapshotID", id, "names", names);
}

/* --- take --- */

static void on_taken(struct e2b_job *j, int status, json_t *answer)
{
	const char *id = json_string_value(json_object_get(answer, "id"));

	if (status == 201 && id)
		e2b_job_json(j, 201,
			     shown(id, json_string_value(json_object_get(
					       answer, "name"))));
	else
		e2b_job_pass(j, status, answer);
}

static void take_body(struct e2b_job *j)
{
	json_t *name = json_object_get(j->body, "name"), *body = json_object();

	if (name && !json_is_null(name))
		json_object_set(body, "name", name);
	e2b_job_ask(j, "POST", body, on_taken, "/v1/sandboxes/%s/snapshots",
		    j->id);
}

static void h_take(struct api *a, struct http_conn *c, const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_body(j, take_body);
}

/* --- list --- */

struct page {
	char sandbox[CALL_ARG_CAP], name[NAME_CAP], after[ID_CAP];
	uint64_t limit;
};

static int take_page(const struct http_head *h, struct page *p, struct err *e)
{
	char text[16];
	int r;

	p->limit = PAGE_MAX;
	r = http_query(h, "limit", text, sizeof(text));
	if (r < 0 || (r == 1 && (parse_u64(text, PAGE_MAX, &p->limit) < 0 ||
				 p->limit == 0)))
		return err_set(e, EINVAL, "limit: not 1 to %d", PAGE_MAX);
	if (http_query(h, "sandboxID", p->sandbox, sizeof(p->sandbox)) < 0 ||
	    http_query(h, "name", p->name, sizeof(p->name)) < 0 ||
	    http_query(h, "nextToken", p->after, sizeof(p->after)) < 0 ||
	    (*p->after && !id_valid(p->after)))
		return err_set(e, EINVAL,
			       "sandboxID, name, nextToken: not valid");
	p->sandbox[strcspn(p->sandbox, "-")] = '\0';
	return 0;
}

/* Users' own: what templates are made of is theirs. */
static bool fits(const struct snapshot *s, const struct identity *who,
		 const struct page *p)
{
	return s->kind == SNAPSHOT_USER && snapshot_visible(s) &&
	       who_sees(who, s->project) &&
	       !str_starts(s->name, TEMPLATE_SNAPSHOT) &&
	       (!*p->sandbox || strcmp(p->sandbox, s->sandbox) == 0) &&
	       (!*p->name || strcmp(p->name, s->name) == 0);
}

/* The newest first; where the next page begins is behind `next`. */
static json_t *list_page(struct api *a, const struct identity *who,
			 const struct page *p, char next[ID_CAP])
{
	const struct snapshot *from = NULL;
	json_t *list = json_array();
	struct list *n;

	if (*p->after)
		from = snapshot_by_id(a, p->after);
	for (n = a->snapshots.all.prev; n != &a->snapshots.all; n = n->prev) {
		const struct snapshot *s =
			container_of(n, struct snapshot, node);

		if ((from && s->created_ms >= from->created_ms) ||
		    !fits(s, who, p))
			continue;
		if (json_array_size(list) == p->limit)
			return list;
		memcpy(next, s->id, ID_CAP);
		json_array_append_new(list, shown(s->id, s->name));
	}
	*next = '\0';
	return list;
}

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	char next[ID_CAP] = "";
	struct http_field fields[] = { { "X-Next-Token", next },
				       { NULL, NULL } };
	struct page p = { 0 };
	struct err e = { 0 };
	json_t *list;
	char *text;

	if (take_page(http_request(c), &p, &e) < 0) {
		e2b_fail_err(a, c, &e);
		return;
	}
	list = list_page(a, &call->who, &p, next);
	text = json_dumps(list, JSON_COMPACT);
	reply_text(a, c, 200, *next ? fields : NULL, text);
	free(text);
	json_decref(list);
}

/* --- remove --- */

static void on_removed(struct e2b_job *j, int status, json_t *answer)
{
	if (status == 204)
		e2b_job_empty(j, 204);
	else
		e2b_job_pass(j, status, answer);
}

bool e2b_snapshot_delete(struct api *a, struct http_conn *c,
			 const struct call *call, const char *ref)
{
	struct err none = { 0 };
	const struct snapshot *s = snapshot_find(a, &call->who, ref, &none);
	struct e2b_job *j;

	/* Not by a part of its id: who removes knows what. */
	if (!s || s->kind != SNAPSHOT_USER ||
	    str_starts(s->name, TEMPLATE_SNAPSHOT) ||
	    (strcmp(ref, s->id) != 0 && strcmp(ref, s->name) != 0))
		return false;
	j = e2b_job(a, c, call);
	if (j)
		e2b_job_ask(j, "DELETE", NULL, on_removed, "/v1/snapshots/%s",
			    s->id);
	return true;
}

const struct route e2b_snapshot_routes[] = {
	E2B_ROW("POST", "/sandboxes/{id}/snapshots", h_take, "E2B: snapshot"),
	E2B_ROW("GET", "/snapshots", h_list, "E2B: list snapshots"),
	{ 0 },
};
