/* Requests that make builds of templates, and look how they go. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/asked.h"
#include "api/e2b/build.h"
#include "api/e2b/e2b.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/target.h"

enum { LOG_PAGE = 100, UPLOAD_LIFE_S = 900 };

static struct build *find_build(struct api *a, const struct call *call,
				struct err *e)
{
	struct template *t = template_find(a, &call->who, call->arg[0], e);
	struct build *b = t ? build_find(t, call->arg[1]) : NULL;

	if (t && !b)
		err_set(e, ENOENT, "build '%.64s' not found", call->arg[1]);
	return b;
}

/* --- a new build --- */

static int take_number(const json_t *body, const char *key, json_int_t max,
		       const char *as, json_t *about, struct err *e)
{
	const json_t *v = json_object_get(body, key);

	if (!v || json_is_null(v))
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 1 ||
	    json_integer_value(v) > max)
		return err_set(e, EINVAL, "%s: not a number from 1 to %lld",
			       key, (long long)max);
	json_object_set(about, as, (json_t *)v);
	return 0;
}

static int add_tag(json_t *tags, const char *tag, struct err *e)
{
	const json_t *v;
	size_t i;

	if (!tag || !template_tag_valid(tag))
		return err_set(e, EINVAL,
			       "'%.64s' is no tag: 1 to 63 of a-z, 0-9, '-', "
			       "'_' and '.'",
			       tag ? tag : "");
	json_array_foreach (tags, i, v)
		if (strcmp(json_string_value(v), tag) == 0)
			return 0;
	if (json_array_size(tags) >= TEMPLATE_TAGS_MAX)
		return err_set(e, EINVAL, "over %d tags", TEMPLATE_TAGS_MAX);
	json_array_append_new(tags, json_string(tag));
	return 0;
}

static int take_tags(const json_t *body, const struct template_name *name,
		     json_t *about, struct err *e)
{
	json_t *tags = json_array();
	const json_t *list = json_object_get(body, "tags"), *v;
	size_t i;

	json_object_set_new(about, "tags", tags);
	if (*name->tag && add_tag(tags, name->tag, e) < 0)
		return -e->code;
	if (list && !json_is_array(list) && !json_is_null(list))
		return err_set(e, EINVAL, "tags: not a list");
	json_array_foreach (list, i, v)
		if (add_tag(tags, json_string_value(v), e) < 0)
			return -e->code;
	return json_array_size(tags) ? 0 : add_tag(tags, TEMPLATE_TAG, e);
}

static int take_name(const struct identity *who, const json_t *body,
		     struct template_name *name, struct err *e)
{
	const char *text = json_string_value(json_object_get(body, "name"));

	if (!text)
		text = json_string_value(json_object_get(body, "alias"));
	if (!text || template_name_parse(text, name) < 0)
		return err_set(e, EINVAL,
			       "'%.100s' is no name of a template: "
			       "[namespace/]alias[:tag] of a-z, 0-9, '-', '_' "
			       "and '.'",
			       text ? text : "");
	if (*name->namespace && strcmp(name->namespace, who_project(who)) != 0)
		return err_set(e, EPERM,
			       "'%s' is another project: templates are made "
			       "in the own one, '%s'",
			       name->namespace, who_project(who));
	return 0;
}

static struct build *new_build(struct asked *q, const json_t *body,
			       struct err *e)
{
	const struct identity *who = &q->call.who;
	struct template_name name;
	struct template *t;
	json_t *about;

	if (take_name(who, body, &name, e) < 0)
		return NULL;
	about = json_object();
	if (take_tags(body, &name, about, e) < 0 ||
	    take_number(body, "cpuCount", 512, "cpus", about, e) < 0 ||
	    take_number(body, "memoryMB", 4096LL * 1024, "memory_mb", about,
			e) < 0 ||
	    take_number(body, "minFreeDiskMb", 4096LL * 1024, "disk_mb", about,
			e) < 0) {
		json_decref(about);
		return NULL;
	}
	t = template_get(q->api, who_project(who), name.alias, e);
	if (!t) {
		json_decref(about);
		return NULL;
	}
	return build_add(q->api, t, about, e);
}

static void create_body(struct asked *q, json_t *body)
{
	struct err e = { 0 };
	const struct build *b = new_build(q, body, &e);
	char full[NAME_CAP + TEMPLATE_NAME_CAP];
	const struct template *t;

	if (!b) {
		e2b_fail_err(q->api, q->conn, &e);
		return;
	}
	t = b->of;
	snprintf(full, sizeof(full), "%s/%s", t->project, t->name);
	audit_add(q->api,
		  &(struct audit){
			  .type = "template.create",
			  .who = &q->call.who,
			  .request_id = http_request_id(q->conn),
			  .data = json_pack("{s:s, s:s, s:s, s:s}", "template",
					    t->id, "name", t->name, "project",
					    t->project, "build", b->id) });
	reply_json(q->api, q->conn, 202,
		   json_pack("{s:s, s:s, s:b, s:[s], s:O, s:[s]}", "templateID",
			     t->id, "buildID", b->id, "public", 0, "names",
			     full, "tags", json_object_get(b->about, "tags"),
			     "aliases", t->name));
}

static void h_create(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	asked_body(a, c, call, create_body);
}

static void start_body(struct asked *q, json_t *body)
{
	struct err e = { 0 };
	struct build *b = find_build(q->api, &q->call, &e);

	if (!b || build_start(q->api, &q->call.who, http_request_id(q->conn), b,
			      body, &e) < 0)
		e2b_fail_err(q->api, q->conn, &e);
	else
		reply_empty(q->api, q->conn, 202);
}

static void h_start(struct api *a, struct http_conn *c, const struct call *call)
{
	asked_body(a, c, call, start_body);
}

/* --- archives --- */

static void h_file_slot(struct api *a, struct http_conn *c,
			const struct call *call)
{
	const struct http_head *h = http_request(c);
	const struct template *t;
	uint64_t until_s = clock_wall_ms() / 1000 + UPLOAD_LIFE_S;
	AUTO(buf_done) struct buf url = { 0 };
	char sign[BUILD_SIGN_CAP];
	struct err e = { 0 };

	t = template_find(a, &call->who, call->arg[0], &e);
	if (t && !build_hash_valid(call->arg[1]))
		err_set(&e, EINVAL, "'%.70s' is no SHA-256", call->arg[1]);
	if (!t || e.code) {
		e2b_fail_err(a, c, &e);
		return;
	}
	build_file_sign(a, t->id, call->arg[1], until_s, sign);
	buf_printf(&url,
		   "%s://%s/templates/%s/files/%s?until=%llu&signature=%s",
		   http_is_tls(c) ? "https" : "http", http_header(h, "Host"),
		   t->id, call->arg[1], (unsigned long long)until_s, sign);
	reply_json(
		a, c, 201,
		json_pack("{s:b, s:s}", "present",
			  build_file_find(a, t->project, call->arg[1]) != NULL,
			  "url", buf_str(&url)));
}

/* --- how it goes --- */

/* The entries from `at` on, a page of them; their lines in `logs`. */
static json_t *log_page(const struct build *b, size_t at, json_t *logs)
{
	json_t *page = json_array();
	size_t i, n = json_array_size(b->log);

	for (i = at; i < n && i < at + LOG_PAGE; i++) {
		json_t *row = json_array_get(b->log, i);

		json_array_append(page, row);
		json_array_append(logs, json_object_get(row, "message"));
	}
	return page;
}

static void h_status(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	const struct http_head *h = http_request(c);
	struct err e = { 0 };
	const struct build *b = find_build(a, call, &e);
	char text[24] = "0";
	uint64_t at = 0;
	json_t *j, *logs, *reason;

	if (b && (http_query(h, "logsOffset", text, sizeof(text)) < 0 ||
		  parse_u64(text, UINT32_MAX, &at) < 0))
		err_set(&e, EINVAL, "logsOffset: not a number");
	if (!b || e.code) {
		e2b_fail_err(a, c, &e);
		return;
	}
	logs = json_array();
	reason = json_object_get(b->about, "reason");
	j = json_pack("{s:s, s:s, s:s, s:o, s:o}", "templateID", b->of->id,
		      "buildID", b->id, "status", build_state_name(b->state),
		      "logEntries", log_page(b, at, logs), "logs", logs);
	if (reason && b->state == BUILD_ERROR)
		json_object_set(j, "reason", reason);
	reply_json(a, c, 200, j);
}

static void h_log(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	const struct build *b = find_build(a, call, &e);

	if (b)
		reply_json(
			a, c, 200,
			json_pack("{s:o}", "logs",
				  b->log ? json_incref(b->log) : json_array()));
	else
		e2b_fail_err(a, c, &e);
}

const struct route e2b_build_routes[] = {
	{ "POST", "/v3/templates", h_create, SCOPE_USE, ROUTE_FOREIGN, "", NULL,
	  NULL, NULL, 202 },
	{ "POST", "/v2/templates", h_create, SCOPE_USE, ROUTE_FOREIGN, "", NULL,
	  NULL, NULL, 202 },
	{ "GET", "/templates/{id}/builds/{build}/logs", h_log, SCOPE_READ,
	  ROUTE_FOREIGN, "", NULL, NULL, NULL, 200 },
	{ "POST", "/v2/templates/{id}/builds/{build}", h_start, SCOPE_USE,
	  ROUTE_FOREIGN, "", NULL, NULL, NULL, 202 },
	{ "GET", "/templates/{id}/files/{hash}", h_file_slot, SCOPE_USE,
	  ROUTE_FOREIGN, "", NULL, NULL, NULL, 201 },
	{ "PUT", "/templates/{id}/files/{hash}", h_build_file_put, SCOPE_READ,
	  ROUTE_FOREIGN | ROUTE_OPEN, "", NULL, NULL, NULL, 200 },
	{ "GET", "/templates/{id}/builds/{build}/status", h_status, SCOPE_READ,
	  ROUTE_FOREIGN, "", NULL, NULL, NULL, 200 },
	{ 0 },
};
