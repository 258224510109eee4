/* Requests about keys and projects. */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

/* How "all projects" is written; no project is called so. */
#define ALL_PROJECTS "*"

static json_t *key_json(const struct key *k)
{
	return json_pack(
		"{s:s, s:s, s:s, s:s, s:o, s:o}", "id", k->id, "name", k->name,
		"project", *k->project ? k->project : ALL_PROJECTS, "scope",
		scope_word(k->scope), "created_at", json_time(k->created_ms),
		"last_used_at", json_time(k->used_ms));
}

/* --- making --- */

struct key_ask {
	const char *name, *scope_text, *project;
	enum scope scope;
};

/* Visible text, so that a list of keys stays a list. */
static bool is_title(const char *s)
{
	if (strlen(s) >= KEY_NAME_CAP)
		return false;
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	return true;
}

static int take_ask(const struct identity *who, const json_t *j,
		    struct key_ask *k, struct err *e)
{
	json_error_t why;

	*k = (struct key_ask){ .name = "",
			       .scope_text = "use",
			       .project = who_project(who) };
	if (json_unpack_ex((json_t *)j, &why, JSON_STRICT, "{s?:s, s?:s, s?:s}",
			   "name", &k->name, "scope", &k->scope_text, "project",
			   &k->project) < 0)
		return err_set(e, EINVAL, "%.150s", why.text);
	if (!is_title(k->name))
		return err_set(e, EINVAL,
			       "name: more than %d bytes, or not plain text",
			       KEY_NAME_CAP - 1);
	if (scope_parse(k->scope_text, &k->scope) < 0)
		return err_set(e, EINVAL,
			       "scope: not read, use, "
			       "approve, policy or admin");
	if (strcmp(k->project, ALL_PROJECTS) == 0)
		k->project = "";
	else if (!name_valid(k->project))
		return err_set(e, EINVAL,
			       "project: not 1 to 63 of a-z, 0-9 and -");
	if (!who_sees(who, k->project))
		return err_set(e, EPERM,
			       "this key may make others for project '%s' only",
			       who->project);
	return 0;
}

struct key_create {
	struct api *api;
	struct identity who;
};

static void create_gone(struct http_conn *c, void *owner)
{
	(void)c;
	free(owner);
}

static struct audit entry_of(struct http_conn *c, const char *type,
			     const struct identity *who, const struct key *k)
{
	return (struct audit){
		.type = type,
		.who = who,
		.request_id = http_request_id(c),
		.data = key_json(k),
	};
}

static void create_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	AUTO_FREE struct key_create *kc = owner;
	struct err e = { 0 };
	json_t *j = parse_body(body, n, &e), *answer;
	struct audit entry;
	struct key *k = NULL;
	struct key_ask ask;
	char secret[KEY_CAP];

	if (j && take_ask(&kc->who, j, &ask, &e) == 0)
		k = key_make(kc->api, ask.name, ask.project, ask.scope, secret,
			     &e);
	json_decref(j);
	if (!k) {
		reply_err(kc->api, c, &e);
		return;
	}
	entry = entry_of(c, "key.create", &kc->who, k);
	answer = key_json(k);
	json_object_set_new(answer, "key", json_string(secret));
	OPENSSL_cleanse(secret, sizeof(secret));
	audit_reply(kc->api, c, &entry, 201, answer);
}

static void h_key_create(struct api *a, struct http_conn *c,
			 const struct call *call)
{
	struct key_create *kc = xcalloc(1, sizeof(*kc));

	kc->api = a;
	kc->who = call->who;
	http_own(c, kc, create_gone);
	http_read_body(c, BODY_MAX, create_body);
}

/* --- the rest --- */

static void h_key_list(struct api *a, struct http_conn *c,
		       const struct call *call)
{
	json_t *list = json_array();
	struct list *n, *next;

	list_each (n, next, &a->keys.all) {
		struct key *k = container_of(n, struct key, node);

		if (who_sees(&call->who, k->project))
			json_array_append_new(list, key_json(k));
	}
	reply_json(a, c, 200, json_pack("{s:o}", "keys", list));
}

static void h_key_delete(struct api *a, struct http_conn *c,
			 const struct call *call)
{
	struct key *k = key_by_id(a, call->arg[0]);
	struct audit entry;
	struct err e = { 0 };

	if (!k || !who_sees(&call->who, k->project)) {
		err_set(&e, ENOENT, "no key '%.64s'", call->arg[0]);
		reply_err(a, c, &e);
		return;
	}
	entry = entry_of(c, "key.remove", &call->who, k);
	if (key_drop(a, k, &e) < 0) {
		json_decref(entry.data);
		reply_err(a, c, &e);
		return;
	}
	audit_reply(a, c, &entry, 204, NULL);
}

struct project_list {
	struct api *api;
	const struct identity *who;
	json_t *list;
};

static unsigned count_boxes(struct api *a, const char *project)
{
	struct list *n, *next;
	unsigned count = 0;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		count += box_visible(s) && strcmp(s->project, project) == 0;
	}
	return count;
}

static unsigned count_keys(struct api *a, const char *project)
{
	struct list *n, *next;
	unsigned count = 0;

	list_each (n, next, &a->keys.all)
		count += strcmp(container_of(n, struct key, node)->project,
				project) == 0;
	return count;
}

static int add_project(void *arg, const char *name, uint64_t created_ms)
{
	struct project_list *p = arg;

	if (who_sees(p->who, name))
		json_array_append_new(
			p->list,
			json_pack("{s:s, s:o, s:i, s:i, s:I}", "name", name,
				  "created_at", json_time(created_ms),
				  "sandboxes", (int)count_boxes(p->api, name),
				  "keys", (int)count_keys(p->api, name),
				  "disk_bytes",
				  (json_int_t)project_disk_used(p->api, name)));
	return 0;
}

static void h_project_list(struct api *a, struct http_conn *c,
			   const struct call *call)
{
	struct project_list p = { a, &call->who, json_array() };
	struct err e = { 0 };

	if (registry_project_each(&a->registry, add_project, &p, &e) < 0) {
		json_decref(p.list);
		reply_err(a, c, &e);
		return;
	}
	reply_json(a, c, 200, json_pack("{s:o}", "projects", p.list));
}

const struct route key_routes[] = {
	{ "POST", "/v1/keys", h_key_create, SCOPE_ADMIN, ROUTE_ALONE,
	  "Make a key; the answer is the only one that shows it", NULL,
	  "KeyAsk", "Key", 201 },
	{ "GET", "/v1/keys", h_key_list, SCOPE_ADMIN, ROUTE_ALONE,
	  "List the keys", NULL, NULL, "KeyList", 200 },
	{ "DELETE", "/v1/keys/{id}", h_key_delete, SCOPE_ADMIN, ROUTE_ALONE,
	  "Remove a key: it opens nothing any more", NULL, NULL, NULL, 204 },
	{ "GET", "/v1/projects", h_project_list, SCOPE_READ, ROUTE_ALONE,
	  "List the projects", NULL, NULL, "ProjectList", 200 },
	{ 0 },
};
