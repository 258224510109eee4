/* Requests about templates: to see them, to name their builds, to remove. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/asked.h"
#include "api/e2b/e2b.h"
#include "api/e2b/snapshot.h"
#include "api/e2b/template.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "http/target.h"

static void note(struct asked *q, const char *type, const struct template *t,
		 json_t *tags)
{
	audit_add(q->api,
		  &(struct audit){
			  .type = type,
			  .who = &q->call.who,
			  .request_id = http_request_id(q->conn),
			  .data = json_pack("{s:s, s:s, s:s, s:O?}", "template",
					    t->id, "name", t->name, "project",
					    t->project, "tags", tags),
		  });
}

/* --- what they look like --- */

static json_int_t number(const struct build *b, const char *key,
			 json_int_t otherwise)
{
	const json_t *v = b ? json_object_get(b->about, key) : NULL;

	return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

/* The figures of a build, or what sandboxes have when nothing is said. */
static void add_figures(const struct api *a, json_t *j, const struct build *b)
{
	const struct conf *c = &a->conf;
	json_int_t cpus = (json_int_t)(c->cpus_milli + 999) / 1000,
		   disk = (json_int_t)(c->disk_bytes >> 20),
		   least = number(b, "disk_mb", 0);

	json_object_set_new(j, "cpuCount",
			    json_integer(number(b, "cpus", cpus)));
	json_object_set_new(
		j, "memoryMB",
		json_integer(number(b, "memory_mb",
				    (json_int_t)(c->mem_bytes >> 20))));
	json_object_set_new(j, "diskSizeMB",
			    json_integer(disk > least ? disk : least));
	json_object_set_new(j, "envdVersion", json_string(E2B_ENVD_VERSION));
}

/* The one that a create takes, or else the newest. */
static const struct build *main_build(const struct template *t)
{
	const struct build *b = template_tagged(t, TEMPLATE_TAG);

	if (b || list_empty(&t->builds))
		return b;
	return container_of(t->builds.prev, struct build, node);
}

static json_t *template_json(const struct template *t)
{
	char full[NAME_CAP + TEMPLATE_NAME_CAP];

	snprintf(full, sizeof(full), "%s/%s", t->project, t->name);
	return json_pack("{s:s, s:b, s:[s], s:[s], s:o, s:o, s:n, s:n, s:i}",
			 "templateID", t->id, "public", 0, "aliases", t->name,
			 "names", full, "createdAt", json_time(t->created_ms),
			 "updatedAt", json_time(t->updated_ms), "createdBy",
			 "lastSpawnedAt", "spawnCount", 0);
}

static json_t *listed_json(const struct api *a, const struct template *t)
{
	const struct build *b = main_build(t);
	json_t *j = template_json(t);

	json_object_set_new(j, "buildCount", json_integer(t->n_builds));
	json_object_set_new(j, "buildID", json_string(b ? b->id : ""));
	json_object_set_new(
		j, "buildStatus",
		json_string(build_state_name(b ? b->state : BUILD_WAITING)));
	add_figures(a, j, b);
	return j;
}

static json_t *build_json(const struct api *a, const struct build *b)
{
	json_t *j = json_pack(
		"{s:s, s:s, s:o, s:o, s:o}", "buildID", b->id, "status",
		build_state_name(b->state), "createdAt",
		json_time(b->created_ms), "updatedAt",
		json_time(b->finished_ms ? b->finished_ms : b->created_ms),
		"finishedAt", json_time(b->finished_ms));

	add_figures(a, j, b);
	return j;
}

/* --- seeing --- */

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	json_t *list = json_array();
	struct list *n, *next;

	list_each (n, next, &a->templates.all) {
		const struct template *t =
			container_of(n, struct template, node);

		if (who_sees(&call->who, t->project))
			json_array_append_new(list, listed_json(a, t));
	}
	reply_json(a, c, 200, list);
}

static void h_one(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	const struct template *t =
		template_find(a, &call->who, call->arg[0], &e);
	struct list *n, *next;
	json_t *j, *builds;

	if (!t) {
		e2b_fail_err(a, c, &e);
		return;
	}
	builds = json_array();
	list_each (n, next, &t->builds)
		json_array_insert_new(
			builds, 0,
			build_json(a, container_of(n, struct build, node)));
	j = template_json(t);
	json_object_set_new(j, "builds", builds);
	reply_json(a, c, 200, j);
}

static void h_alias(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	const struct template *t =
		template_find(a, &call->who, call->arg[0], &e);

	if (t)
		reply_json(a, c, 200,
			   json_pack("{s:s, s:b}", "templateID", t->id,
				     "public", 0));
	else
		e2b_fail_err(a, c, &e);
}

/* --- tags --- */

static void h_tags(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	const struct template *t =
		template_find(a, &call->who, call->arg[0], &e);
	json_t *list, *row;
	const char *tag;

	if (!t) {
		e2b_fail_err(a, c, &e);
		return;
	}
	list = json_array();
	json_object_foreach (t->tags, tag, row) {
		json_array_append_new(
			list,
			json_pack(
				"{s:s, s:O, s:o}", "tag", tag, "buildID",
				json_object_get(row, "build"), "createdAt",
				json_time((uint64_t)json_integer_value(
					json_object_get(row, "created_ms")))));
	}
	reply_json(a, c, 200, list);
}

static int check_tags(const json_t *tags, struct err *e)
{
	const json_t *v;
	size_t i;

	if (json_array_size(tags) == 0 ||
	    json_array_size(tags) > TEMPLATE_TAGS_MAX)
		return err_set(e, EINVAL, "tags: not a list of 1 to %d",
			       TEMPLATE_TAGS_MAX);
	json_array_foreach (tags, i, v) {
		const char *tag = json_string_value(v);

		if (!tag || !template_tag_valid(tag))
			return err_set(e, EINVAL, "tags: %zu is no tag", i + 1);
	}
	return 0;
}

/* The template that a body with tags is about; NULL with an error. */
static struct template *take_tags(struct asked *q, const json_t *body,
				  const char *key, struct template_name *name,
				  struct err *e)
{
	const char *text = json_string_value(json_object_get(body, key));

	if (!text || template_name_parse(text, name) < 0)
		err_set(e, EINVAL, "%s: no name of a template", key);
	else
		(void)!check_tags(json_object_get(body, "tags"), e);
	return e->code ? NULL : template_find(q->api, &q->call.who, text, e);
}

static const struct build *set_tags(struct asked *q, const json_t *body,
				    struct err *e)
{
	struct template_name name = { 0 };
	struct template *t = take_tags(q, body, "target", &name, e);
	const struct build *b = t ? template_tagged(t, name.tag) : NULL;
	const json_t *v;
	size_t i;

	if (t && !b)
		err_set(e, ENOENT, "template '%s' has no tag '%s'", t->name,
			*name.tag ? name.tag : TEMPLATE_TAG);
	if (!b)
		return NULL;
	json_array_foreach (json_object_get(body, "tags"), i, v)
		if (template_tag(t, json_string_value(v), b, e) < 0)
			return NULL;
	if (template_save(q->api, t, e) < 0)
		return NULL;
	return b;
}

static void tag_body(struct asked *q, json_t *body)
{
	struct err e = { 0 };
	const struct build *b = set_tags(q, body, &e);
	json_t *tags = json_object_get(body, "tags");

	if (!b) {
		e2b_fail_err(q->api, q->conn, &e);
		return;
	}
	note(q, "template.tag", b->of, tags);
	reply_json(q->api, q->conn, 201,
		   json_pack("{s:s, s:O}", "buildID", b->id, "tags", tags));
}

static void h_tag(struct api *a, struct http_conn *c, const struct call *call)
{
	asked_body(a, c, call, tag_body);
}

static void untag_body(struct asked *q, json_t *body)
{
	struct err e = { 0 };
	struct template_name name = { 0 };
	struct template *t = take_tags(q, body, "name", &name, &e);
	const json_t *tags = json_object_get(body, "tags"), *v;
	size_t i;

	if (t)
		json_array_foreach (tags, i, v) {
			json_object_del(t->tags, json_string_value(v));
		}
	if (!t || template_save(q->api, t, &e) < 0) {
		e2b_fail_err(q->api, q->conn, &e);
		return;
	}
	note(q, "template.untag", t, (json_t *)tags);
	reply_empty(q->api, q->conn, 204);
}

static void h_untag(struct api *a, struct http_conn *c, const struct call *call)
{
	asked_body(a, c, call, untag_body);
}

/* --- changing, removing --- */

static void change_body(struct asked *q, json_t *body)
{
	struct err e = { 0 };
	const struct template *t =
		template_find(q->api, &q->call.who, q->call.arg[0], &e);

	if (t && json_is_true(json_object_get(body, "public")))
		err_set(&e, EINVAL,
			"public: templates are for their own project");
	if (e.code)
		e2b_fail_err(q->api, q->conn, &e);
	else
		reply_json(q->api, q->conn, 200,
			   json_pack("{s:[s]}", "names", t->name));
}

static void h_change(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	asked_body(a, c, call, change_body);
}

static bool is_built(const struct template *t)
{
	struct list *n, *next;

	list_each (n, next, &t->builds)
		if (container_of(n, struct build, node)->work)
			return true;
	return false;
}

static void remove_template(struct api *a, struct http_conn *c,
			    const struct call *call, struct template *t)
{
	struct asked q = { .api = a, .conn = c, .call = *call };
	struct err e = { 0 };

	if (is_built(t)) {
		err_set(&e, EBUSY,
			"a build of template '%s' is under way: remove it "
			"later",
			t->name);
		e2b_fail_err(a, c, &e);
		return;
	}
	note(&q, "template.remove", t, NULL);
	template_drop(a, t);
	reply_empty(a, c, 204);
}

static void h_remove(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct err e = { 0 };
	struct template *t = template_find(a, &call->who, call->arg[0], &e);

	if (t)
		remove_template(a, c, call, t);
	else if (!e2b_snapshot_delete(a, c, call, call->arg[0]))
		e2b_fail_err(a, c, &e);
}

/* --- the team: a project --- */

static void h_teams(struct api *a, struct http_conn *c, const struct call *call)
{
	const char *project = who_project(&call->who);

	reply_json(a, c, 200,
		   json_pack("[{s:s, s:s, s:s, s:b}]", "teamID", project,
			     "name", project, "apiKey", "", "isDefault", 1));
}

#define ROW(method, path, fn, scope) \
	{ method, path, fn, scope, ROUTE_FOREIGN, "", NULL, NULL, NULL, 0 }

const struct route e2b_template_routes[] = {
	ROW("GET", "/templates/aliases/{alias}", h_alias, SCOPE_READ),
	ROW("POST", "/templates/tags", h_tag, SCOPE_USE),
	ROW("DELETE", "/templates/tags", h_untag, SCOPE_USE),
	ROW("GET", "/templates", h_list, SCOPE_READ),
	ROW("GET", "/templates/{id}", h_one, SCOPE_READ),
	ROW("GET", "/templates/{id}/tags", h_tags, SCOPE_READ),
	ROW("PATCH", "/v2/templates/{id}", h_change, SCOPE_USE),
	ROW("PATCH", "/templates/{id}", h_change, SCOPE_USE),
	{ "DELETE", "/templates/{id}", h_remove, SCOPE_USE,
	  ROUTE_FOREIGN | ROUTE_ANYWAY, "", NULL, NULL, NULL, 0 },
	ROW("GET", "/teams", h_teams, SCOPE_READ),
	{ 0 },
};
