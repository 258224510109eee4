/*
 * PUT /sandboxes/{id}/network: all of what a sandbox may reach, anew. In force
 * for what is open, too, when it is answered.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/e2b.h"
#include "api/e2b/job.h"
#include "api/e2b/network.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"

struct change {
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	char id[ID_CAP];
	json_t *body, *patch;
	struct e2b_network network;
	struct inner_ask ask;
};

static void change_free(struct change *x)
{
	e2b_network_done(&x->network);
	inner_ask_close(&x->ask);
	json_decref(x->body);
	json_decref(x->patch);
	free(x);
}

static void change_gone(struct http_conn *c, void *owner)
{
	(void)c;
	change_free(owner);
}

static void failed(struct change *x, const struct err *e)
{
	e2b_fail_err(x->api, x->conn, e);
	change_free(x);
}

static void on_changed(struct inner_ask *q, int status, json_t *answer)
{
	struct change *x = container_of(q, struct change, ask);

	x->network.applying = false;
	if (status == 200) {
		e2b_network_keep(&x->network);
		reply_empty(x->api, x->conn, 204);
	} else {
		e2b_pass_error(x->api, x->conn, status, answer);
	}
	change_free(x);
}

static void apply(struct change *x)
{
	char target[64];
	struct err e = { 0 };

	x->network.applying = true;
	snprintf(target, sizeof(target), "/v1/sandboxes/%s", x->id);
	if (inner_ask(&x->ask,
		      &(struct inner_json){ x->api, &x->who,
					    http_request_id(x->conn), "PATCH",
					    target, json_incref(x->patch),
					    on_changed },
		      &e) < 0)
		failed(x, &e);
}

static void on_network(struct e2b_network *n, const struct err *e)
{
	struct change *x = container_of(n, struct change, network);

	if (e)
		failed(x, e);
	else
		apply(x);
}

/* What their info shows: what this does not change stays. */
static json_t *kept_json(const struct sandbox *s, const json_t *body)
{
	static const char *const stay[] = { "allowPublicTraffic",
					    "maskRequestHost", "httpsPorts" };
	json_t *client = json_deep_copy(s->spec.client);
	json_t *kept = json_object_get(client, "e2b");
	json_t *was = json_object_get(kept, "network");
	json_t *now = e2b_network_shown(body);
	const json_t *internet = json_object_get(body, "allow_internet_access");
	size_t i;

	for (i = 0; i < ARRAY_LEN(stay); i++) {
		json_object_del(now, stay[i]);
		if (json_object_get(was, stay[i]))
			json_object_set(now, stay[i],
					json_object_get(was, stay[i]));
	}
	json_object_set_new(kept, "network", now);
	if (json_is_boolean(internet))
		json_object_set(kept, "allowInternetAccess",
				(json_t *)internet);
	else
		json_object_del(kept, "allowInternetAccess");
	return client;
}

static int begin(struct change *x, struct err *e)
{
	struct sandbox *s = box_find(x->api, &x->who, x->id, e);

	if (!s)
		return -e->code;
	x->patch = json_object();
	if (e2b_kept(s))
		json_object_set_new(x->patch, "client", kept_json(s, x->body));
	return e2b_network_start(
		&x->network, x->api,
		&(struct e2b_network_ask){
			.who = &x->who,
			.project = s->project,
			.request_id = http_request_id(x->conn),
			.network = x->body,
			.internet = json_object_get(x->body,
						    "allow_internet_access"),
			.spec = x->patch,
		},
		on_network, e);
}

static void on_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct change *x = owner;
	struct err e = { 0 };
	int r;

	(void)c;
	x->body = parse_body(body, n, &e);
	explicit_bzero(body, n); /* headers are secrets */
	r = x->body ? begin(x, &e) : -EINVAL;
	if (r < 0)
		failed(x, &e);
	else if (r == 1)
		apply(x);
}

static void h_network(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct change *x = xcalloc(1, sizeof(*x));

	x->api = a;
	x->conn = c;
	x->who = call->who;
	snprintf(x->id, sizeof(x->id), "%.*s", (int)strcspn(call->arg[0], "-"),
		 call->arg[0]);
	http_own(c, x, change_gone);
	http_read_body(c, BODY_MAX, on_body);
}

const struct route e2b_network_routes[] = {
	E2B_ROW("PUT", "/sandboxes/{id}/network", h_network, "E2B: network"),
	{ 0 },
};
