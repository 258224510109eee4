/*
 * Requests about secrets (secrets.h). Values come sealed (vault/seal.h) and
 * are never shown; a value that is not sealed has no place in any request.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/gate.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/secrets.h"
#include "base/auto.h"
#include "base/base64.h"
#include "http/target.h"
#include "vault/secret_json.h"

static json_t *secret_json(const struct project_secret *p)
{
	json_t *j = secret_to_json(&p->secret);

	json_object_set_new(j, "project", json_string(p->project));
	json_object_set_new(j, "created_at", json_time(p->created_ms));
	json_object_set_new(j, "updated_at", json_time(p->updated_ms));
	return j;
}

/* Whose secrets: its own project's, or the one that the operator names. */
static int project_of(struct http_conn *c, const struct identity *who,
		      char out[NAME_CAP], struct err *e)
{
	int r = http_query(http_request(c), "project", out, NAME_CAP);

	if (r == 0)
		memcpy(out, who_project(who), strlen(who_project(who)) + 1);
	if (r < 0 || !name_valid(out))
		return err_set(e, EINVAL,
			       "project: not 1 to 63 of a-z, 0-9 and -");
	if (!who_sees(who, out))
		return err_set(e, ENOENT, "no project '%s'", out);
	return 0;
}

static struct project_secret *find(struct api *a, struct http_conn *c,
				   const struct call *call, struct err *e)
{
	struct project_secret *p;
	char project[NAME_CAP];

	if (project_of(c, &call->who, project, e) < 0)
		return NULL;
	p = project_secret_find(a, project, call->arg[0]);
	if (!p)
		err_set(e, ENOENT, "project %s has no secret '%.64s'", project,
			call->arg[0]);
	return p;
}

static struct audit entry_of(struct http_conn *c, const char *type,
			     const struct identity *who, const char *project,
			     const char *name)
{
	return (struct audit){
		.type = type,
		.who = who,
		.request_id = http_request_id(c),
		.data = json_pack("{s:s, s:s}", "name", name, "project",
				  project),
	};
}

/* --- changes: answered when they are in force --- */

struct change {
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	const char *type;
	char project[NAME_CAP], name[NAME_CAP];
	struct gate_wait wait;
};

static void change_gone(struct http_conn *c, void *owner)
{
	struct change *x = owner;

	(void)c;
	gate_cancel(&x->wait);
	free(x);
}

static void change_done(struct change *x)
{
	const struct project_secret *p =
		project_secret_find(x->api, x->project, x->name);
	const struct audit entry =
		entry_of(x->conn, x->type, &x->who, x->project, x->name);

	audit_reply(x->api, x->conn, &entry, p ? 200 : 204,
		    p ? secret_json(p) : NULL);
	free(x);
}

/* A door that went away starts with what is so now. */
static void on_settled(struct gate_wait *w, const struct gate_msg *m,
		       const struct err *e)
{
	struct change *x = container_of(w, struct change, wait);

	if (!m)
		log_warn("secret=%s its door has not said that it knows: %s",
			 x->name, e->msg);
	change_done(x);
}

/* `x` is taken. */
static void settle(struct change *x)
{
	http_own(x->conn, x, change_gone);
	gate_secret_changed(x->api, x->project, x->name);
	if (gate_secret_settle(x->api, x->project, &x->wait, on_settled) == 1)
		change_done(x);
}

/* --- set --- */

static void set_gone(struct http_conn *c, void *owner)
{
	(void)c;
	free(owner);
}

static int take_secret(const struct change *w, const json_t *j, struct err *e)
{
	struct secret s = { 0 };
	int r;

	memcpy(s.name, w->name, sizeof(s.name));
	list_init(&s.node);
	if (json_object_get(j, "value"))
		return err_set(e, EINVAL,
			       "value: must not come here; seal it to the key "
			       "of GET /v1/vault/key");
	r = secret_from_json(&s, j, e);
	/* As with policies: private places are the operator's to name. */
	s.private_url = *s.url && *w->who.project == '\0';
	if (r == 0 && s.sealed_n == 0)
		r = err_set(e, EINVAL, "sealed: the value is missing");
	if (r == 0)
		r = project_secret_put(w->api, w->project, &s, e);
	secret_done(&s);
	return r;
}

static void set_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct change *w = owner;
	struct err e = { 0 };
	json_t *j = parse_body(body, n, &e);
	int r = j ? take_secret(w, j, &e) : -EINVAL;

	json_decref(j);
	if (r == 0) {
		settle(w);
		return;
	}
	reply_err(w->api, c, &e);
	free(w);
}

static void h_set(struct api *a, struct http_conn *c, const struct call *call)
{
	struct change *w = xcalloc(1, sizeof(*w));
	struct err e = { 0 };

	w->api = a;
	w->conn = c;
	w->who = call->who;
	w->type = "secret.set";
	if (!name_valid(call->arg[0]))
		err_set(&e, EINVAL, "'%.64s' is not 1 to 63 of a-z, 0-9 and -",
			call->arg[0]);
	else
		memcpy(w->name, call->arg[0], strlen(call->arg[0]) + 1);
	if (e.code || project_of(c, &call->who, w->project, &e) < 0) {
		free(w);
		reply_err(a, c, &e);
		return;
	}
	http_own(c, w, set_gone);
	http_read_body(c, BODY_MAX, set_body);
}

/* --- look, remove --- */

static void h_list(struct api *a, struct http_conn *c, const struct call *call)
{
	char project[NAME_CAP] = "";
	json_t *list = json_array();
	struct list *n, *next;

	if (http_query(http_request(c), "project", project, sizeof(project)) <
	    0)
		memcpy(project, "?", 2); /* nobody's */
	list_each (n, next, &a->secrets.all) {
		const struct project_secret *p =
			container_of(n, struct project_secret, node);

		if (who_sees(&call->who, p->project) &&
		    (!*project || strcmp(project, p->project) == 0))
			json_array_append_new(list, secret_json(p));
	}
	reply_json(a, c, 200, json_pack("{s:o}", "secrets", list));
}

static void h_get(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	const struct project_secret *p = find(a, c, call, &e);

	if (p)
		reply_json(a, c, 200, secret_json(p));
	else
		reply_err(a, c, &e);
}

static void h_remove(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	struct err e = { 0 };
	struct project_secret *p = find(a, c, call, &e);
	struct change *x;

	if (!p) {
		reply_err(a, c, &e);
		return;
	}
	x = xcalloc(1, sizeof(*x));
	x->api = a;
	x->conn = c;
	x->who = call->who;
	x->type = "secret.remove";
	memcpy(x->project, p->project, sizeof(x->project));
	memcpy(x->name, p->secret.name, sizeof(x->name));
	if (project_secret_drop(a, p, &e) < 0) {
		free(x);
		reply_err(a, c, &e);
		return;
	}
	settle(x);
}

/* --- what the door is asked --- */

struct door_ask {
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	struct gate_wait wait;
};

static void ask_gone(struct http_conn *c, void *owner)
{
	struct door_ask *d = owner;

	(void)c;
	gate_cancel(&d->wait);
	free(d);
}

static struct door_ask *ask_new(struct api *a, struct http_conn *c,
				const struct call *call)
{
	struct door_ask *d = xcalloc(1, sizeof(*d));

	d->api = a;
	d->conn = c;
	d->who = call->who;
	http_own(c, d, ask_gone);
	return d;
}

static void on_key(struct gate_wait *w, const struct gate_msg *m,
		   const struct err *e)
{
	AUTO_FREE struct door_ask *d = container_of(w, struct door_ask, wait);
	AUTO(buf_done) struct buf key = { 0 };

	if (!m) {
		reply_err(d->api, d->conn, e);
		return;
	}
	base64_add(&key, m->bytes, m->n_bytes);
	reply_json(d->api, d->conn, 200,
		   json_pack("{s:s, s:s, s:s}", "project", m->project,
			     "public_key", buf_str(&key), "certificate",
			     m->text));
}

static void h_key(struct api *a, struct http_conn *c, const struct call *call)
{
	char project[NAME_CAP];
	struct err e = { 0 };

	if (project_of(c, &call->who, project, &e) < 0)
		reply_err(a, c, &e);
	else
		gate_keys(a, project, &ask_new(a, c, call)->wait, on_key);
}

static void on_code(struct gate_wait *w, const struct gate_msg *m,
		    const struct err *e)
{
	AUTO_FREE struct door_ask *d = container_of(w, struct door_ask, wait);
	struct audit entry;
	struct err why = { 0 };

	if (m && *m->name == '\0')
		err_set(&why, EINVAL, "%.200s", m->text);
	if (!m || why.code) {
		reply_err(d->api, d->conn, m ? &why : e);
		return;
	}
	entry = entry_of(d->conn, "secret.code", &d->who, w->project, w->name);
	audit_reply(d->api, d->conn, &entry, 200,
		    json_pack("{s:s}", "code", m->name));
}

static void h_code(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	const struct project_secret *p = find(a, c, call, &e);

	if (p)
		gate_code(a, p->project, p->secret.name,
			  &ask_new(a, c, call)->wait, on_code);
	else
		reply_err(a, c, &e);
}

static const struct route_query project_query[] = {
	{ "project", "string", "for the operator: whose" },
	{ 0 },
};
static const struct route_query list_query[] = {
	{ "project", "string", "only of this one" },
	{ 0 },
};

const struct route secret_routes[] = {
	{ "GET", "/v1/vault/key", h_key, SCOPE_READ, ROUTE_ALONE,
	  "The key that secrets of a project are sealed to", project_query,
	  NULL, "VaultKey", 200 },
	{ "GET", "/v1/secrets", h_list, SCOPE_READ, ROUTE_ALONE,
	  "List the secrets, without their values", list_query, NULL,
	  "SecretList", 200 },
	{ "GET", "/v1/secrets/{name}", h_get, SCOPE_READ, ROUTE_ALONE,
	  "Look at a secret, without its value", project_query, NULL, "Secret",
	  200 },
	{ "PUT", "/v1/secrets/{name}", h_set, SCOPE_ADMIN, ROUTE_ALONE,
	  "Set a secret, with a value that is sealed", project_query,
	  "SecretPut", "Secret", 200 },
	{ "DELETE", "/v1/secrets/{name}", h_remove, SCOPE_ADMIN, ROUTE_ALONE,
	  "Remove a secret: it leaves no more from now on", project_query, NULL,
	  NULL, 204 },
	{ "POST", "/v1/secrets/{name}/code", h_code, SCOPE_ADMIN, ROUTE_ALONE,
	  "A one-time code, or whether tokens can be had", project_query, NULL,
	  "SecretCode", 200 },
	{ 0 },
};
