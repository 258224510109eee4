/*
 * E2B's secrets: values without a place, which headers of network rules carry
 * (${e2b.secrets.NAME}): texts of our vault. What else the vault has is seen
 * here, and not changed. What only they know of one is in its `user`:
 *
 *	{"name": as it was given, "version": N, "metadata": {...}}
 */
#include "api/e2b/secret.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/job.h"
#include "api/e2b/sealed.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/secrets.h"
#include "base/auto.h"
#include "http/target.h"

#define ID_PREFIX "sec_"
enum { PAGE_MAX = 100 };

int e2b_secret_name(const char *given, char out[NAME_CAP], struct err *e)
{
	size_t i;

	if (str_starts(given, ID_PREFIX))
		given += strlen(ID_PREFIX);
	for (i = 0; i < NAME_CAP - 1 && given[i]; i++)
		out[i] = given[i] == '_' || given[i] == '.'
				 ? '-'
				 : (char)tolower((unsigned char)given[i]);
	out[i] = '\0';
	if (given[i] || !name_valid(out) || str_starts(out, OWN_SECRET))
		return err_set(e, EINVAL,
			       "'%.64s' is no name of a secret: 1 to 63 "
			       "letters, digits, '-', '_' and '.'",
			       given);
	return 0;
}

static json_t *about_of(const struct project_secret *p)
{
	return p->secret.kind == SECRET_TEXT
		       ? json_loads(p->secret.user, 0, NULL)
		       : NULL;
}

static json_t *shown(const struct project_secret *p)
{
	json_t *about = about_of(p);
	json_t *name = json_object_get(about, "name"),
	       *version = json_object_get(about, "version"),
	       *metadata = json_object_get(about, "metadata");
	json_t *out =
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "secretID",
			  json_sprintf(ID_PREFIX "%s", p->secret.name), "name",
			  json_is_string(name) ? json_incref(name)
					       : json_string(p->secret.name),
			  "currentVersion",
			  json_is_integer(version) ? json_incref(version)
						   : json_integer(1),
			  "metadata",
			  json_is_object(metadata) ? json_incref(metadata)
						   : json_object(),
			  "createdAt", json_time(p->created_ms), "updatedAt",
			  json_time(p->updated_ms));

	json_decref(about);
	return out;
}

static struct project_secret *find(struct api *a, const struct identity *who,
				   const char *ref, struct err *e)
{
	struct project_secret *p = NULL;
	char name[NAME_CAP];
	struct err none = { 0 };

	if (e2b_secret_name(ref, name, &none) == 0)
		p = project_secret_find(a, who_project(who), name);
	if (!p)
		err_set(e, ENOENT, "no secret '%.64s'", ref);
	return p;
}

/* --- set --- */

static void on_set(struct e2b_job *j, int status, json_t *answer)
{
	const struct project_secret *p =
		project_secret_find(j->api, who_project(&j->who), j->name);

	if (status == 200 && p)
		e2b_job_json(j, j->flag ? 201 : 200, shown(p));
	else
		e2b_job_pass(j, status == 200 ? 502 : status, answer);
}

static int fill_about(struct e2b_job *j, struct secret *s, struct err *e)
{
	json_t *metadata = json_object_get(j->body, "metadata"), *v;
	json_t *about = json_pack(
		"{s:O, s:I, s:o}", "name", json_object_get(j->body, "name"),
		"version", (json_int_t)j->number, "metadata",
		metadata ? json_incref(metadata) : json_object());
	AUTO_FREE char *text =
		json_dumps(about, JSON_COMPACT | JSON_ENSURE_ASCII);
	const char *key;

	json_decref(about);
	if (metadata && !json_is_object(metadata))
		return err_set(e, EINVAL, "metadata: not an object");
	json_object_foreach (metadata, key, v)
		if (!json_is_string(v))
			return err_set(e, EINVAL,
				       "metadata: '%.64s' is not a string",
				       key);
	if (!text || str_copy(s->user, sizeof(s->user), text) < 0)
		return err_set(e, E2BIG,
			       "name and metadata: more than %zu bytes "
			       "together",
			       sizeof(s->user) - 1);
	return 0;
}

static void on_key(struct e2b_job *j, int status, json_t *answer)
{
	struct secret s = { .kind = SECRET_TEXT };
	unsigned char key[SEAL_KEY];
	struct err e = { 0 };
	json_t *put = NULL;

	list_init(&s.node);
	memcpy(s.name, j->name, sizeof(s.name));
	if (e2b_vault_key(status, answer, key, &e) == 0 &&
	    fill_about(j, &s, &e) == 0)
		put = e2b_sealed(&s, key, json_object_get(j->body, "value"),
				 &e);
	if (put)
		e2b_job_ask(j, "PUT", put, on_set, "/v1/secrets/%s?project=%s",
			    s.name, who_project(&j->who));
	else
		e2b_job_err(j, &e);
}

/* The job's number is the version. */
static void set(struct e2b_job *j)
{
	const json_t *value = json_object_get(j->body, "value");

	if (!json_is_string(value) || json_string_length(value) == 0) {
		e2b_job_fail(j, 400, "value: not a text");
		return;
	}
	e2b_job_ask(j, "GET", NULL, on_key, "/v1/vault/key?project=%s",
		    who_project(&j->who));
}

static void create_body(struct e2b_job *j)
{
	const char *given = json_string_value(json_object_get(j->body, "name"));
	char msg[160];
	struct err e = { 0 };

	if (!given || str_starts(given, ID_PREFIX))
		err_set(&e, EINVAL, "name: not a text without '" ID_PREFIX "'");
	if (e.code || e2b_secret_name(given, j->name, &e) < 0) {
		e2b_job_err(j, &e);
		return;
	}
	if (project_secret_find(j->api, who_project(&j->who), j->name)) {
		snprintf(msg, sizeof(msg), "there is a secret '%s' already",
			 j->name);
		e2b_job_fail(j, 409, msg);
		return;
	}
	j->number = 1;
	j->flag = true;
	set(j);
}

static void h_create(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct e2b_job *j = e2b_job(a, c, call);

	if (j)
		e2b_job_body(j, create_body);
}

static void update_body(struct e2b_job *j)
{
	const struct project_secret *p =
		project_secret_find(j->api, who_project(&j->who), j->name);
	json_t *about;

	if (!p) {
		e2b_job_fail(j, 404, "no such secret");
		return;
	}
	if (p->secret.kind != SECRET_TEXT) {
		e2b_job_fail(j, 409,
			     "it is bound to places: `carrel secret set` "
			     "changes it");
		return;
	}
	about = about_of(p);
	j->number = (uint64_t)json_integer_value(
			    json_object_get(about, "version")) +
		    1;
	json_object_set_new(
		j->body, "name",
		json_object_get(about, "name")
			? json_incref(json_object_get(about, "name"))
			: json_string(p->secret.name));
	if (!json_object_get(j->body, "metadata") &&
	    json_object_get(about, "metadata"))
		json_object_set(j->body, "metadata",
				json_object_get(about, "metadata"));
	json_decref(about);
	set(j);
}

/* --- one of them --- */

/* NULL: there is none, and that was answered. */
static struct e2b_job *job_of(struct api *a, struct http_conn *c,
			      const struct call *call)
{
	struct err e = { 0 };
	const struct project_secret *p = find(a, &call->who, call->arg[0], &e);
	struct e2b_job *j;

	if (!p) {
		e2b_fail_err(a, c, &e);
		return NULL;
	}
	j = e2b_job(a, c, call);
	if (j)
		memcpy(j->name, p->secret.name, sizeof(j->name));
	return j;
}

static void h_update(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct e2b_job *j = job_of(a, c, call);

	if (j)
		e2b_job_body(j, update_body);
}

static void on_removed(struct e2b_job *j, int status, json_t *answer)
{
	if (status == 204)
		e2b_job_empty(j, 204);
	else
		e2b_job_pass(j, status, answer);
}

static void h_delete(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct e2b_job *j = job_of(a, c, call);

	if (j)
		e2b_job_ask(j, "DELETE", NULL, on_removed,
			    "/v1/secrets/%s?project=%s", j->name,
			    who_project(&j->who));
}

static void h_get(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	const struct project_secret *p = find(a, &call->who, call->arg[0], &e);

	if (p)
		reply_json(a, c, 200, shown(p));
	else
		e2b_fail_err(a, c, &e);
}

/* --- all --- */

static int take_page(const struct http_head *h, uint64_t *limit,
		     char after[NAME_CAP], struct err *e)
{
	char text[16];
	int r = http_query(h, "limit", text, sizeof(text));

	*limit = PAGE_MAX;
	*after = '\0';
	if (r < 0 ||
	    (r == 1 && (parse_u64(text, PAGE_MAX, limit) < 0 || *limit == 0)))
		return err_set(e, EINVAL, "limit: not 1 to %d", PAGE_MAX);
	if (http_query(h, "nextToken", after, NAME_CAP) < 0)
		return err_set(e, EINVAL, "nextToken: not valid");
	return 0;
}

/* In the order in which they were made; `next`: the last one, if more come. */
static json_t *list_page(struct api *a, const struct identity *who,
			 uint64_t limit, const char *after, char next[NAME_CAP])
{
	json_t *list = json_array();
	bool begun = *after == '\0';
	struct list *n, *tmp;

	list_each (n, tmp, &a->secrets.all) {
		const struct project_secret *p =
			container_of(n, struct project_secret, node);

		if (strcmp(p->project, who_project(who)) != 0 ||
		    str_starts(p->secret.name, OWN_SECRET))
			continue;
		if (begun && json_array_size(list) == limit)
			return list;
		if (begun) {
			json_array_append_new(list, shown(p));
			memcpy(next, p->secret.name, NAME_CAP);
		}
		begun = begun || strcmp(p->secret.name, after) == 0;
	}
	*next = '\0';
	return list;
}

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	char next[NAME_CAP] = "", after[NAME_CAP];
	const struct http_field fields[] = { { "X-Next-Token", next },
					     { NULL, NULL } };
	AUTO_FREE char *text = NULL;
	struct err e = { 0 };
	uint64_t limit;
	json_t *list;

	if (take_page(http_request(c), &limit, after, &e) < 0) {
		e2b_fail_err(a, c, &e);
		return;
	}
	list = list_page(a, &call->who, limit, after, next);
	text = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	reply_text(a, c, 200, *next ? fields : NULL, text);
}

const struct route e2b_secret_routes[] = {
	E2B_ROW("GET", "/secrets", h_list, "E2B: list secrets"),
	E2B_ROW("POST", "/secrets", h_create, "E2B: set a secret"),
	E2B_ROW("GET", "/secrets/{id}", h_get, "E2B: look at a secret"),
	E2B_ROW("POST", "/secrets/{id}", h_update, "E2B: change a secret"),
	E2B_ROW("DELETE", "/secrets/{id}", h_delete, "E2B: remove a secret"),
	{ 0 },
};
