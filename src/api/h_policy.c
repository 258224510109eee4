/* Requests about policies (policies.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/gate.h"
#include "api/policies.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/sha.h"
#include "http/target.h"
#include "policy/policy.h"

static json_t *users_json(struct api *a, const struct saved_policy *p)
{
	json_t *users = json_array();
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		const struct sandbox *s = container_of(n, struct sandbox, all);

		if (strcmp(s->spec.policy, p->name) == 0 &&
		    strcmp(s->project, p->project) == 0)
			json_array_append_new(users, json_string(s->id));
	}
	return users;
}

/* The digest names the text in the log. */
static json_t *digest_json(const struct saved_policy *p)
{
	uint8_t hash[SHA256_LEN];
	char hex[2 * SHA256_LEN + 1];
	struct sha256 h;
	size_t i;

	sha256_init(&h);
	sha256_add(&h, p->text, strlen(p->text));
	sha256_end(&h, hash);
	for (i = 0; i < SHA256_LEN; i++)
		snprintf(hex + 2 * i, 3, "%02x", hash[i]);
	return json_string(hex);
}

static json_t *policy_json(struct api *a, const struct saved_policy *p)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", p->name,
			 "project", p->project, "sha256", digest_json(p),
			 "sandboxes", users_json(a, p), "updated_at",
			 json_time(p->updated_ms));
}

/* With what it says, in both forms. */
static json_t *whole_json(struct api *a, const struct saved_policy *p)
{
	struct policy policy = { 0 };
	json_t *j = policy_json(a, p);
	struct err e = { 0 };

	json_object_set_new(j, "text", json_string(p->text));
	if (policy_parse(&policy, p->text, strlen(p->text), &e) == 0)
		json_object_set_new(j, "policy", policy_to_json(&policy));
	policy_done(&policy);
	return j;
}

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	char project[NAME_CAP] = "";
	json_t *list = json_array();
	struct list *n, *next;

	if (http_query(http_request(c), "project", project, sizeof(project)) <
	    0)
		memcpy(project, "?", 2); /* nobody's */
	list_each (n, next, &a->policies.all) {
		const struct saved_policy *p =
			container_of(n, struct saved_policy, node);

		if (who_sees(&call->who, p->project) &&
		    (!*project || strcmp(project, p->project) == 0))
			json_array_append_new(list, policy_json(a, p));
	}
	reply_json(a, c, 200, json_pack("{s:o}", "policies", list));
}

static void h_presets(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	json_t *list = json_array();
	struct list *n, *next;

	(void)call;
	list_each (n, next, &a->policies.presets) {
		const struct saved_policy *p =
			container_of(n, struct saved_policy, node);

		json_array_append_new(list,
				      json_pack("{s:s, s:s}", "name", p->name,
						"text", p->text));
	}
	reply_json(a, c, 200, json_pack("{s:o}", "presets", list));
}

static struct saved_policy *asked_for(struct api *a, struct http_conn *c,
				      const struct call *call, struct err *e)
{
	char project[NAME_CAP];
	struct saved_policy *p;

	if (call_project(call, http_request(c), project, e) < 0)
		return NULL;
	p = policy_find(a, project, call->arg[0]);
	if (!p)
		err_set(e, ENOENT, "project %s has no policy '%.64s'", project,
			call->arg[0]);
	return p;
}

static void h_get(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	const struct saved_policy *p = asked_for(a, c, call, &e);

	if (p)
		reply_json(a, c, 200, whole_json(a, p));
	else
		reply_err(a, c, &e);
}

/* --- changes --- */

struct put {
	struct api *api;
	struct identity who;
	char project[NAME_CAP], name[NAME_CAP];
};

static void put_gone(struct http_conn *c, void *owner)
{
	(void)c;
	free(owner);
}

static struct audit entry_of(struct http_conn *c, const char *type,
			     const struct identity *who,
			     const struct saved_policy *p)
{
	return (struct audit){
		.type = type,
		.who = who,
		.request_id = http_request_id(c),
		.data = json_pack("{s:s, s:s, s:o}", "name", p->name, "project",
				  p->project, "sha256", digest_json(p)),
	};
}

/* The text that is kept: as it came, or of what came as JSON. */
static int take_text(const struct put *u, const char *body, size_t n,
		     struct buf *text, struct err *e)
{
	struct policy p = { 0 };
	int r = policy_read(&p, body, n, e);

	if (r == 0)
		r = policy_may_say(&u->who, &p, e);
	if (r == 0 && policy_is_json(body, n))
		policy_print(&p, text);
	else if (r == 0)
		buf_add(text, body, n);
	policy_done(&p);
	if (r == 0 && buf_len(text) > SAVED_POLICY_MAX)
		r = err_set(e, E2BIG, "a policy is at most %d KiB",
			    SAVED_POLICY_MAX / 1024);
	return r;
}

static void put_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	AUTO_FREE struct put *u = owner;
	AUTO(buf_done) struct buf text = { 0 };
	struct saved_policy *p = NULL;
	struct audit entry;
	struct err e = { 0 };

	if (take_text(u, body, n, &text, &e) == 0)
		p = policy_keep(u->api, u->project, u->name, buf_str(&text),
				&e);
	if (!p) {
		reply_err(u->api, c, &e);
		return;
	}
	entry = entry_of(c, "policy.set", &u->who, p);
	/* In the log before it is in force. */
	audit_reply(u->api, c, &entry, 200, whole_json(u->api, p));
	gate_policy_changed(u->api, p->project, p->name);
}

static void h_put(struct api *a, struct http_conn *c, const struct call *call)
{
	struct put *u = xcalloc(1, sizeof(*u));
	struct err e = { 0 };

	u->api = a;
	u->who = call->who;
	if (call_project(call, http_request(c), u->project, &e) == 0 &&
	    (str_copy(u->name, sizeof(u->name), call->arg[0]) < 0 ||
	     !name_valid(u->name)))
		err_set(&e, EINVAL, "'%.64s' is not 1 to 63 of a-z, 0-9 and -",
			call->arg[0]);
	if (e.code) {
		free(u);
		reply_err(a, c, &e);
		return;
	}
	http_own(c, u, put_gone);
	http_read_body(c, BODY_MAX, put_body);
}

static void h_remove(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct err e = { 0 };
	struct saved_policy *p = asked_for(a, c, call, &e);
	const struct sandbox *user = p ? policy_user(a, p) : NULL;
	struct audit entry = { 0 };

	if (user)
		err_set(&e, EBUSY,
			"sandbox %s has policy '%s': give it another, or "
			"remove it first",
			user->id, p->name);
	if (p && !user)
		entry = entry_of(c, "policy.remove", &call->who, p);
	if (!p || user || policy_forget(a, p, &e) < 0) {
		json_decref(entry.data);
		reply_err(a, c, &e);
		return;
	}
	audit_reply(a, c, &entry, 204, NULL);
}

static const struct route_query project_query[] = {
	{ "project", "string", "for the operator: whose" },
	{ 0 },
};

static const struct route_query list_query[] = {
	{ "project", "string", "only of this one" },
	{ 0 },
};

const struct route policy_routes[] = {
	{ "GET", "/v1/policies", h_list, SCOPE_READ, ROUTE_ALONE,
	  "List the policies", list_query, NULL, "PolicyList", 200 },
	{ "GET", "/v1/presets", h_presets, SCOPE_READ, ROUTE_ALONE,
	  "List the presets: policies that come with the daemon", NULL, NULL,
	  "PresetList", 200 },
	{ "GET", "/v1/policies/{name}", h_get, SCOPE_READ, ROUTE_ALONE,
	  "Show a policy, as text and as JSON", project_query, NULL, "Policy",
	  200 },
	{ "PUT", "/v1/policies/{name}", h_put, SCOPE_POLICY, ROUTE_ALONE,
	  "Make or change a policy: text, or JSON; in force at once for all "
	  "sandboxes that have it",
	  project_query, "text/plain", "Policy", 200 },
	{ "POST", "/v1/policy-test", h_policy_test, SCOPE_READ, ROUTE_ALONE,
	  "What would become of a request", project_query, "PolicyTest",
	  "Verdict", 200 },
	{ "DELETE", "/v1/policies/{name}", h_remove, SCOPE_POLICY, ROUTE_ALONE,
	  "Remove a policy that no sandbox has", project_query, NULL, NULL,
	  204 },
	{ 0 },
};
