/*
 * Requests to a sandbox, as the E2B SDKs make them: to its port 49983, where
 * in their world a program inside answers and here we do, and to ports that
 * are really served inside. By name ("8080-ID.domain"), or, where one address
 * has to do for all, by the fields E2b-Sandbox-Id and E2b-Sandbox-Port.
 *
 * Tokens open sandboxes here, never who asks: pages of any origin may.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/e2b/e2b.h"
#include "api/hosts.h"
#include "api/inner.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/wake.h"
#include "base/auto.h"
#include "base/base64.h"
#include "http/target.h"

enum { HOST_CAP = 254 };

static const struct envd_route *const envd_tables[] = {
	envd_host_routes, envd_process_routes, envd_fs_routes, envd_file_routes,
	NULL
};

/* --- pages of any origin --- */

static const struct http_field cors[] = {
	{ "Access-Control-Allow-Origin", "*" },
	{ "Access-Control-Expose-Headers", "*" },
	{ NULL, NULL },
};

/* A browser asks whether its page may. */
static void preflight(struct api *a, struct http_conn *c)
{
	const char *asked =
		http_header(http_request(c), "access-control-request-headers");
	const struct http_field fields[] = {
		{ "Access-Control-Allow-Methods", "*" },
		{ "Access-Control-Allow-Headers", asked ? asked : "*" },
		{ "Access-Control-Max-Age", "7200" },
		{ NULL, NULL },
	};

	a->metrics.requests[2]++;
	http_reply(c, 204, fields, NULL, 0);
}

static bool is_options(const struct http_head *h)
{
	return strcmp(h->method, "OPTIONS") == 0;
}

/* --- what is said in their words --- */

static void port_closed(struct port_dial *d, struct http_conn *c,
			const struct err *e)
{
	if (e->code != ECONNREFUSED) {
		port_refuse(d, c, e);
		return;
	}
	reply_json(d->api, c, 502,
		   json_pack("{s:s, s:s, s:i, s:i}", "sandboxId", d->id,
			     "message",
			     "The sandbox is running but port is not open",
			     "port", d->port, "code", 502));
}

/* --- sleep --- */

/* Does traffic wake it? One that was not made over E2B, always. */
static bool wakes(const struct sandbox *s)
{
	const json_t *kept = e2b_kept(s);

	return !kept || json_is_true(json_object_get(kept, "autoResume"));
}

/* Paused, or about to be, and nobody is waking it. */
static bool stays_asleep(const struct sandbox *s)
{
	if (!list_empty(&s->pause.wakers))
		return false;
	return s->state == BOX_PAUSED || s->state == BOX_SUSPENDED ||
	       (s->state == BOX_RUNNING && s->pause.call.busy);
}

/* Does it run? If not, it was answered, or comes again when it does. */
static bool is_up(struct api *a, struct http_conn *c, const struct call *call,
		  struct sandbox *s)
{
	struct err e = { 0 };

	if (stays_asleep(s) && !wakes(s)) {
		e2b_not_found(a, c, s->id);
		return false;
	}
	if (wake_hold(a, c, call, s))
		return false;
	if (s->state == BOX_RUNNING) {
		box_touch(s);
		return true;
	}
	err_set(&e, EAGAIN, "sandbox %s is not up yet", s->id);
	reply_err(a, c, &e);
	return false;
}

/* --- port 49983 --- */

static const struct envd_route *find_envd(const struct http_head *h,
					  bool *known)
{
	const struct envd_route *const *t, *r;

	*known = false;
	for (t = envd_tables; *t; t++)
		for (r = *t; r->method; r++) {
			if (strcmp(r->path, h->path) != 0)
				continue;
			*known = true;
			if (strcmp(r->method, h->method) == 0)
				return r;
		}
	return NULL;
}

static int may_envd(struct api *a, const struct http_head *h, unsigned flags,
		    const struct sandbox *s, struct err *e)
{
	const char *token = http_header(h, "x-access-token");

	if (flags & ENVD_OPEN)
		return 0;
	if (token && e2b_token_opens(a, s->id, token))
		return 0;
	if (token)
		return err_set(e, EACCES, "the access token is not valid");
	if ((flags & ENVD_SIGNED) && e2b_is_signed(h))
		return e2b_signature_opens(a, s->id, h, e);
	return err_set(e, EACCES,
		       "an access token is needed: send X-Access-Token");
}

static int take_basic(const char *value, char out[E2B_USER_CAP])
{
	static const char scheme[] = "Basic ";
	AUTO(buf_done) struct buf text = { 0 };
	size_t n;

	if (strncasecmp(value, scheme, strlen(scheme)) != 0)
		return 0; /* not for us */
	value += strlen(scheme);
	if (base64_get(&text, value, strlen(value)) < 0)
		return -EINVAL;
	n = strcspn(buf_str(&text), ":");
	if (n >= E2B_USER_CAP || strlen(buf_str(&text)) != buf_len(&text))
		return -EINVAL;
	memcpy(out, buf_data(&text), n);
	out[n] = '\0';
	return 0;
}

/*
 * The user inside, whom it names without a proof: the token is the proof. A
 * signature is one for the user in the URL alone.
 */
static int take_user(const struct http_head *h, char out[E2B_USER_CAP],
		     struct err *e)
{
	const char *auth = http_header(h, "x-access-token")
				   ? http_header(h, "authorization")
				   : NULL;
	int r = http_query(h, "username", out, E2B_USER_CAP);

	if (r == 0) {
		*out = '\0';
		r = auth ? take_basic(auth, out) : 0;
	}
	if (r < 0)
		return err_set(e, EINVAL, "the name of the user is no name");
	return 0;
}

static void to_envd(struct api *a, struct http_conn *c, const struct call *call,
		    struct sandbox *s)
{
	const struct http_head *h = http_request(c);
	struct envd_call ec = { .box = s, .who = call->who };
	const struct envd_route *r;
	struct err e = { 0 };
	bool known;

	r = find_envd(h, &known);
	/* Who has no token is not told either what there is. */
	if (may_envd(a, h, r ? r->flags : 0, s, &e) < 0 ||
	    take_user(h, ec.user, &e) < 0) {
		e2b_fail_err(a, c, &e);
		return;
	}
	http_trust(c, true);
	if (!r) {
		e2b_fail(a, c, known ? 405 : 404,
			 known ? "this path takes another method"
			       : "no such path");
		return;
	}
	if ((r->flags & ENVD_ASLEEP) || is_up(a, c, call, s))
		r->fn(a, c, &ec);
}

/* --- ports that are served inside --- */

/*
 * Open to everybody unless its maker said otherwise; those that were not made
 * over E2B have said nothing, and are closed.
 */
static bool may_visit(struct api *a, const struct http_head *h,
		      const struct sandbox *s)
{
	const json_t *kept = e2b_kept(s);
	const json_t *network = json_object_get(kept, "network");
	const char *token = http_header(h, "e2b-traffic-access-token");

	if (kept &&
	    !json_is_false(json_object_get(network, "allowPublicTraffic")))
		return true;
	return token && e2b_traffic_token_opens(a, s->id, token);
}

/* "${PORT}.example" in place of the name it was called by. */
static const char *masked(const struct sandbox *s, uint16_t port,
			  char out[HOST_CAP])
{
	static const char word[] = "${PORT}";
	const json_t *network = json_object_get(e2b_kept(s), "network");
	const char *mask =
		json_string_value(json_object_get(network, "maskRequestHost"));
	const char *at = mask ? strstr(mask, word) : NULL;
	int n;

	if (!mask)
		return NULL;
	if (at)
		n = snprintf(out, HOST_CAP, "%.*s%u%s", (int)(at - mask), mask,
			     port, at + strlen(word));
	else
		n = snprintf(out, HOST_CAP, "%s", mask);
	return n > 0 && n < HOST_CAP && http_is_value(out) ? out : NULL;
}

static void to_port(struct api *a, struct http_conn *c, const struct call *call,
		    struct sandbox *s, uint16_t port)
{
	const struct http_head *h = http_request(c);
	const char *host = http_header(h, "host");
	char id[ID_CAP], mask[HOST_CAP], token[E2B_TOKEN_CAP];
	struct port_way way = { .port = port,
				.prefix = "",
				.target = h->target,
				.by_token = true,
				.refuse = port_closed };
	uint16_t named;

	if (!may_visit(a, h, s)) {
		e2b_fail(a, c, 403,
			 "this port is not public: send "
			 "e2b-traffic-access-token");
		return;
	}
	way.by_host = host && host_is_preview(&a->conf, host, &named, id);
	way.host = masked(s, port, mask);
	e2b_token(a, s->id, token);
	if (port != E2B_CODE_PORT)
		way.secret = token;
	if (is_up(a, c, call, s))
		port_visit(a, c, s, &call->who, &way);
	OPENSSL_cleanse(token, sizeof(token));
}

/* --- which sandbox, which port --- */

static void h_data(struct api *a, struct http_conn *c, const struct call *call)
{
	struct sandbox *s = box_by_id(a, call->arg[0]);
	struct call known = *call;
	uint64_t port = 0;

	if (!*call->arg[0] && e2b_is_signed(http_request(c))) {
		e2b_fail(a, c, 401, "invalid signature");
		return;
	}
	if (!s || !box_visible(s) || s->state == BOX_ENDING) {
		e2b_not_found(a, c, call->arg[0]);
		return;
	}
	known.who = (struct identity){ .scope = SCOPE_USE, .name = "token" };
	memcpy(known.who.project, s->project, sizeof(s->project));
	audit_call(c, &known);
	audit_call_box(c, s);
	if (parse_u64(call->arg[1], UINT16_MAX, &port) < 0 || port == 0)
		e2b_fail(a, c, 400, "E2b-Sandbox-Port: not a port");
	else if (port == E2B_ENVD_PORT)
		to_envd(a, c, &known, s);
	else
		to_port(a, c, &known, s, (uint16_t)port);
}

static const struct route data_route = { .fn = h_data,
					 .scope = SCOPE_USE,
					 .flags = ROUTE_TOKEN };

/* By its name. A preview of ours stays one, with a token of ours. */
static bool find_by_host(struct api *a, const struct http_head *h,
			 struct call *call)
{
	const char *host = http_header(h, "host");
	const struct sandbox *s;
	uint16_t port;

	if (!host || !host_is_preview(&a->conf, host, &port, call->arg[0]))
		return false;
	snprintf(call->arg[1], sizeof(call->arg[1]), "%u", port);
	s = box_by_id(a, call->arg[0]);
	return port == E2B_ENVD_PORT ||
	       (s && e2b_kept(s) && (may_visit(a, h, s) || !port_has_token(h)));
}

/* By fields; "ID-anything" is the id alone. */
static bool find_by_field(const struct http_head *h, struct call *call)
{
	const char *id = http_header(h, "e2b-sandbox-id");
	const char *port = http_header(h, "e2b-sandbox-port");

	if (!id)
		return false;
	snprintf(call->arg[0], sizeof(call->arg[0]), "%.*s",
		 (int)strcspn(id, "-"), id);
	if (port)
		snprintf(call->arg[1], sizeof(call->arg[1]), "%s", port);
	else
		snprintf(call->arg[1], sizeof(call->arg[1]), "%d",
			 E2B_ENVD_PORT);
	return true;
}

static bool find_by_signature(struct api *a, const struct http_head *h,
			      struct call *call)
{
	const struct sandbox *s;

	if (!e2b_is_signed(h))
		return false;
	s = e2b_box_of_signature(a, h);
	snprintf(call->arg[0], sizeof(call->arg[0]), "%s", s ? s->id : "");
	snprintf(call->arg[1], sizeof(call->arg[1]), "%d", E2B_ENVD_PORT);
	return true;
}

static bool is_envd(const struct call *call)
{
	return strtoul(call->arg[1], NULL, 10) == E2B_ENVD_PORT;
}

bool e2b_by_sandbox(struct api *a, struct http_conn *c)
{
	const struct http_head *h = http_request(c);
	struct call call = { .route = &data_route };
	const char *host = http_header(h, "host");
	struct err e = { 0 };
	uint16_t port;
	bool found;

	if (inner_who(c))
		return false;
	if (host && host_is_preview(&a->conf, host, &port, call.arg[0]))
		found = find_by_host(a, h, &call);
	else
		found = find_by_field(h, &call) ||
			find_by_signature(a, h, &call);
	if (is_options(h) && (found ? is_envd(&call) : e2b_is_to_sandbox(h))) {
		http_also(c, cors);
		preflight(a, c);
		return true;
	}
	if (!found)
		return false;
	if (is_envd(&call))
		http_also(c, cors);
	else
		call.rest = h->path; /* somebody else's: not for the log */
	audit_call(c, &call);
	if (!a->reconciled)
		err_set(&e, WARDEN_AWAY,
			"the daemon has just started: try "
			"again");
	if (e.code || audit_ready(a, &e) < 0)
		e2b_fail_err(a, c, &e);
	else
		h_data(a, c, &call);
	return true;
}
