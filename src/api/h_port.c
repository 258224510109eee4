/*
 * Requests for ports of sandboxes. Whoever has a key may reach every port of
 * its sandboxes; whoever has a token, one port of one sandbox, also with a
 * browser: a link with the token in it becomes a cookie.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/auth.h"
#include "api/hosts.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/wake.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/target.h"

enum {
	TTL_S = 3600,
	TTL_MAX_S = 30 * 24 * 3600,
	SEEN_MS = 60 * 1000,
	PREFIX_CAP = 3 * CALL_ARG_CAP,
};

/* What is asked of a key, where no token was shown. */
static const struct route with_key = { .scope = SCOPE_USE };

/* --- which port, who asks --- */

/* A number, or a name that the spec gave to one. 0: neither. */
static uint16_t port_number(const struct sandbox *s, const char *text)
{
	uint64_t n = 0;

	if (parse_u64(text, 65535, &n) < 0)
		n = (uint64_t)json_integer_value(
			json_object_get(s->spec.ports, text));
	return (uint16_t)(n <= 65535 ? n : 0);
}

/* Copies the token of a request: by field, by query, by cookie. */
static int given_token(const struct http_head *h, char out[PORT_TOKEN_CAP])
{
	const char *field = http_header(h, PORT_TOKEN_FIELD);
	const char *cookies = http_header(h, "cookie"), *value = NULL;
	size_t n;
	int r;

	if (field)
		return str_copy(out, PORT_TOKEN_CAP, field) < 0 ? -EINVAL : 1;
	r = http_query(h, PORT_TOKEN, out, PORT_TOKEN_CAP);
	if (r != 0)
		return r;
	n = cookies ? port_cookie(cookies, &value) : 0;
	if (n == 0 || n >= PORT_TOKEN_CAP || !port_cookie_counts(h))
		return 0;
	memcpy(out, value, n);
	out[n] = '\0';
	return 1;
}

bool port_has_token(const struct http_head *h)
{
	char token[PORT_TOKEN_CAP];

	return given_token(h, token) != 0;
}

struct visit {
	struct sandbox *box;
	struct identity who;
	uint16_t port;
	bool by_token;
	char token[PORT_TOKEN_CAP];
	uint64_t until_s; /* of the token */
};

/* The sandbox and port, if the token of the request opens them. */
static bool enter_by_token(struct api *a, struct http_conn *c, const char *ref,
			   const char *port, struct visit *v)
{
	struct sandbox *s;

	if (given_token(http_request(c), v->token) != 1)
		return false;
	/* It names its sandbox: by the whole id, or not at all. */
	s = id_valid(ref) ? box_by_id(a, ref) : NULL;
	if (!s || !box_visible(s))
		return false;
	v->port = port_number(s, port);
	if (!v->port ||
	    !port_token_opens(a, v->token, s->id, v->port, &v->until_s))
		return false;
	v->box = s;
	v->by_token = true;
	snprintf(v->who.name, sizeof(v->who.name), "token");
	memcpy(v->who.project, s->project, sizeof(v->who.project));
	return true;
}

static int enter_by_key(struct api *a, struct http_conn *c, const char *ref,
			const char *port, struct visit *v, struct err *e)
{
	char token[PORT_TOKEN_CAP];
	int r = auth_check(a, c, &with_key, &v->who, e);

	if (r == -EACCES && given_token(http_request(c), token) != 0) {
		err_clear(e);
		return err_set(e, EACCES,
			       "the token does not open this port, or not any "
			       "more");
	}
	if (r < 0)
		return r;
	v->box = box_find(a, &v->who, ref, e);
	if (!v->box)
		return -e->code;
	v->port = port_number(v->box, port);
	if (!v->port)
		return err_set(e, EINVAL,
			       "'%.64s' is no port: a number from 1 to 65535, "
			       "or a name of the sandbox's spec",
			       port);
	return 0;
}

/* Does it run? If not, the request was answered, or comes again when it does.
 */
static bool is_up(struct api *a, struct http_conn *c, const struct call *call,
		  struct sandbox *s)
{
	struct err e = { 0 };

	audit_call_box(c, s);
	if (wake_hold(a, c, call, s))
		return false;
	if (s->state == BOX_RUNNING) {
		box_touch(s);
		return true;
	}
	if (s->state == BOX_ENDING)
		err_set(&e, EBUSY, "sandbox %s is being removed", s->id);
	else
		err_set(&e, EAGAIN, "sandbox %s is not up yet", s->id);
	reply_err(a, c, &e);
	return false;
}

/* Who asks, for what. false: not now, or it was answered. */
static bool enter(struct api *a, struct http_conn *c, const struct call *call,
		  struct visit *v)
{
	const char *ref = call->arg[0], *port = call->arg[1];
	struct call woken = *call;
	struct err e = { 0 };

	*v = (struct visit){ 0 };
	if (!enter_by_token(a, c, ref, port, v) &&
	    enter_by_key(a, c, ref, port, v, &e) < 0) {
		reply_err(a, c, &e);
		return false;
	}
	http_trust(c, true);
	woken.who = v->who;
	return is_up(a, c, &woken, v->box);
}

/* --- the log --- */

static uint64_t hash(const struct visit *v)
{
	uint64_t h = 0xcbf29ce484222325u;
	const char *p;

	for (p = v->box->id; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3u;
	for (p = v->who.name; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3u;
	return (h ^ v->port) * 0x100000001b3u;
}

/* A page is a hundred requests: one line a minute for each who and where. */
static void note_visit(struct api *a, struct http_conn *c,
		       const struct visit *v, const char *protocol)
{
	uint64_t who = hash(v), now = clock_boot_ms();
	unsigned at = (unsigned)(who >> 32) % PORT_SEEN;

	if (a->ports.seen[at].who == who && a->ports.seen[at].until_ms > now)
		return;
	a->ports.seen[at].who = who;
	a->ports.seen[at].until_ms = now + SEEN_MS;
	audit_add(a, &(struct audit){ .type = "port.connect",
				      .box = v->box,
				      .who = &v->who,
				      .request_id = http_request_id(c),
				      .data = json_pack("{s:i, s:s}", "port",
							v->port, "protocol",
							protocol) });
}

/* --- HTTP --- */

/* A link that carries its token: the token moves into a cookie. */
static void move_token(struct http_conn *c, const struct visit *v,
		       const struct port_way *way)
{
	const struct http_head *h = http_request(c);
	uint64_t now = (uint64_t)clock_wall_ms() / 1000;
	AUTO(buf_done) struct buf to = { 0 }, cookie = { 0 }, query = { 0 };
	struct http_field fields[] = {
		{ "Location", NULL },
		{ "Set-Cookie", NULL },
		{ "Cache-Control", "no-store" },
		{ "Referrer-Policy", "no-referrer" },
		{ NULL, NULL },
	};

	buf_add(&to, h->target, strcspn(h->target, "?"));
	http_query_without(&query, h->query, PORT_TOKEN);
	if (buf_len(&query) > 0)
		buf_printf(&to, "?%s", buf_str(&query));
	buf_printf(&cookie,
		   "%s=%s; Path=%s/; Max-Age=%llu; HttpOnly; "
		   "SameSite=Lax%s",
		   PORT_TOKEN, v->token, way->prefix,
		   (unsigned long long)(v->until_s - now),
		   way->https ? "; Secure" : "");
	fields[0].value = buf_str(&to);
	fields[1].value = buf_str(&cookie);
	http_reply(c, 303, fields, NULL, 0);
}

/*
 * A browser that goes to a page keeps cookies, and shows the address. Programs
 * (curl, fetch) do neither: their request is passed on without the token.
 */
static bool is_page_view(const struct http_head *h)
{
	const char *accept = http_header(h, "accept");

	return !port_upgrade(h) && accept && strstr(accept, "text/html") &&
	       (strcmp(h->method, "GET") == 0 ||
		strcmp(h->method, "HEAD") == 0);
}

static bool has_query_token(const struct http_head *h)
{
	char token[PORT_TOKEN_CAP];

	return http_query(h, PORT_TOKEN, token, sizeof(token)) != 0;
}

/* May there be a proxy in front of us, which says who is in front of it? */
static bool is_near(const char *peer)
{
	return *peer == '\0' || strncmp(peer, "127.", 4) == 0 ||
	       strcmp(peer, "::1") == 0;
}

static bool came_by_https(struct http_conn *c, bool near)
{
	const char *proto = http_header(http_request(c), "x-forwarded-proto");

	return http_is_tls(c) || (near && proto && strcmp(proto, "https") == 0);
}

static void see_peer(struct http_conn *c, char peer[HTTP_PEER_TEXT],
		     struct port_way *way)
{
	http_peer_text(c, peer);
	way->peer = peer;
	way->near = is_near(peer);
	way->https = came_by_https(c, way->near);
}

void port_visit(struct api *a, struct http_conn *c, struct sandbox *s,
		const struct identity *who, struct port_way *way)
{
	struct visit v = { .box = s, .who = *who, .port = way->port };
	char peer[HTTP_PEER_TEXT];

	see_peer(c, peer, way);
	note_visit(a, c, &v, "http");
	port_proxy(a, c, s, way);
}

static void visit_http(struct api *a, struct http_conn *c,
		       const struct visit *v, const char *prefix)
{
	const struct http_head *h = http_request(c);
	char peer[HTTP_PEER_TEXT];
	struct port_way way = { .port = v->port,
				.by_host = *prefix == '\0',
				.prefix = prefix,
				.target = h->target,
				.by_token = v->by_token };
	int i;

	see_peer(c, peer, &way);
	/* No segment has a slash in it: the sixth one is the server's own. */
	for (i = 0; !way.by_host && i < 5; i++)
		way.target = strchr(way.target + 1, '/');
	note_visit(a, c, v, "http");
	if (v->by_token && has_query_token(h) && is_page_view(h)) {
		a->metrics.requests[3]++;
		move_token(c, v, &way);
		return;
	}
	port_proxy(a, c, v->box, &way);
}

static void h_port(struct api *a, struct http_conn *c, const struct call *call)
{
	char prefix[PREFIX_CAP];
	struct visit v;

	if (!enter(a, c, call, &v))
		return;
	/* Not by the name it was called by: that may be another's tomorrow. */
	snprintf(prefix, sizeof(prefix), "/v1/sandboxes/%s/ports/%s",
		 v.by_token ? v.box->id : call->arg[0], call->arg[1]);
	visit_http(a, c, &v, prefix);
}

/* Relative links of a page need the slash that is missing. */
static void h_port_slash(struct api *a, struct http_conn *c,
			 const struct call *call)
{
	const struct http_head *h = http_request(c);
	AUTO(buf_done) struct buf to = { 0 };
	struct http_field fields[] = { { "Location", NULL }, { NULL, NULL } };

	http_encode(&to, call->arg[1]);
	buf_printf(&to, "/%s%s", *h->query ? "?" : "", h->query);
	fields[0].value = buf_str(&to);
	a->metrics.requests[3]++;
	http_reply(c, 308, fields, NULL, 0);
}

static void h_preview(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	struct visit v;

	if (enter(a, c, call, &v))
		visit_http(a, c, &v, "");
}

bool port_by_host(struct api *a, struct http_conn *c)
{
	static const struct route any = { .fn = h_preview,
					  .scope = SCOPE_USE,
					  .flags = ROUTE_TOKEN };
	const struct http_head *h = http_request(c);
	const char *host = http_header(h, "host");
	struct call call = { .route = &any, .rest = h->path };
	struct err e = { 0 };
	uint16_t port;

	if (!host || !host_is_preview(&a->conf, host, &port, call.arg[0]))
		return false;
	audit_call(c, &call);
	snprintf(call.arg[1], sizeof(call.arg[1]), "%u", port);
	if (audit_ready(a, &e) < 0)
		reply_err(a, c, &e);
	else
		h_preview(a, c, &call);
	return true;
}

/* --- tokens --- */

struct token_ask {
	struct api *api;
	struct call call;
};

static void token_gone(struct http_conn *c, void *owner)
{
	(void)c;
	free(owner);
}

/* Where `host` (or `listen`) has its port: ":7070", or "". */
static const char *port_suffix(const char *host)
{
	const char *colon = strrchr(host, ':');

	return colon && !strchr(colon, ']') ? colon : "";
}

/* Names below localhost lead a browser to its own machine. */
static bool browser_finds(const char *domain, const char *host)
{
	return strcasecmp(domain, "localhost") != 0 || host_is_loopback(host);
}

/* Where a browser finds it; NULL when there is no door for browsers. */
static json_t *preview_url(const struct api *a, struct http_conn *c,
			   const struct sandbox *s, uint16_t port,
			   const char *token)
{
	const struct conf *conf = &a->conf;
	const char *host =
		http_is_local(c) ? NULL : http_header(http_request(c), "host");
	bool https =
		http_is_local(c) ? *conf->tls_cert : came_by_https(c, true);
	AUTO(buf_done) struct buf url = { 0 };

	if (!host)
		host = conf->listen;
	if (!*host)
		return json_null();
	buf_printf(&url, "%s://", https ? "https" : "http");
	if (*conf->domain && browser_finds(conf->domain, host))
		buf_printf(&url, "%u-%s.%s%s/", port, s->id, conf->domain,
			   port_suffix(host));
	else
		buf_printf(&url, "%s/v1/sandboxes/%s/ports/%u/", host, s->id,
			   port);
	buf_printf(&url, "?%s=%s", PORT_TOKEN, token);
	return json_string(buf_str(&url));
}

static int take_ttl(const char *body, size_t n, uint64_t *ttl, struct err *e)
{
	json_t *j = parse_body(body, n, e);
	json_int_t v = TTL_S;
	json_error_t why;
	int r = 0;

	if (!j)
		return -e->code;
	if (json_unpack_ex(j, &why, JSON_STRICT, "{s?:I}", "ttl", &v) < 0)
		r = err_set(e, EINVAL, "%.150s", why.text);
	else if (v < 1 || v > TTL_MAX_S)
		r = err_set(e, ERANGE, "ttl is 1 to %d seconds", TTL_MAX_S);
	json_decref(j);
	*ttl = (uint64_t)v;
	return r;
}

static void make_token(struct api *a, struct http_conn *c,
		       const struct call *call, struct sandbox *s,
		       uint64_t ttl_s)
{
	uint16_t port = port_number(s, call->arg[1]);
	uint64_t until_ms = (uint64_t)clock_wall_ms() + ttl_s * 1000;
	char token[PORT_TOKEN_CAP];
	struct err e = { 0 };

	if (!port) {
		err_set(&e, EINVAL, "'%.64s' is no port", call->arg[1]);
		reply_err(a, c, &e);
		return;
	}
	port_token_make(a, s->id, port, until_ms / 1000, token);
	audit_add(a, &(struct audit){ .type = "port.token",
				      .box = s,
				      .who = &call->who,
				      .request_id = http_request_id(c),
				      .data = json_pack("{s:i, s:I}", "port",
							port, "ttl",
							(json_int_t)ttl_s) });
	reply_json(a, c, 201,
		   json_pack("{s:s, s:o, s:o}", "token", token, "url",
			     preview_url(a, c, s, port, token), "expires_at",
			     json_time(until_ms)));
}

static void token_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	AUTO_FREE struct token_ask *t = owner;
	struct err e = { 0 };
	uint64_t ttl_s = 0;
	struct sandbox *s = NULL;

	if (take_ttl(body, n, &ttl_s, &e) == 0)
		s = box_find(t->api, &t->call.who, t->call.arg[0], &e);
	if (s)
		make_token(t->api, c, &t->call, s, ttl_s);
	else
		reply_err(t->api, c, &e);
}

static void h_port_token(struct api *a, struct http_conn *c,
			 const struct call *call)
{
	struct token_ask *t = xcalloc(1, sizeof(*t));

	t->api = a;
	t->call = *call;
	http_own(c, t, token_gone);
	http_read_body(c, BODY_MAX, token_body);
}

/* --- TCP --- */

static void h_tcp(struct api *a, struct http_conn *c, const struct call *call)
{
	struct visit v = { .who = call->who };
	struct err e = { 0 };

	if (!http_wants_upgrade(http_request(c), TCP_UPGRADE)) {
		reply_error(a, c, 426, "upgrade_required",
			    "ask with 'Connection: Upgrade' and "
			    "'Upgrade: " TCP_UPGRADE "'");
		return;
	}
	if (http_request(c)->body != HTTP_NO_BODY) {
		reply_error(a, c, 400, "bad_request",
			    "a request to upgrade must have no body here");
		return;
	}
	if (enter_by_key(a, c, call->arg[0], call->arg[1], &v, &e) < 0) {
		reply_err(a, c, &e);
		return;
	}
	if (!is_up(a, c, call, v.box))
		return;
	note_visit(a, c, &v, "tcp");
	port_tcp(a, c, v.box, v.port);
}

const struct route port_routes[] = {
	{ "POST", "/v1/sandboxes/{id}/ports/{port}/token", h_port_token,
	  SCOPE_USE, 0, "A token that opens this port for a while", NULL,
	  "PortTokenAsk", "PortToken", 201 },
	{ "*", "/v1/sandboxes/{id}/ports/{port}/*", h_port, SCOPE_USE,
	  ROUTE_TOKEN, "What is served on this port inside", NULL, NULL, "*/*",
	  200 },
	{ "*", "/v1/sandboxes/{id}/ports/{port}", h_port_slash, SCOPE_USE,
	  ROUTE_OPEN, "To the same with a slash at its end", NULL, NULL, NULL,
	  308 },
	{ "POST", "/v1/sandboxes/{id}/tcp/{port}", h_tcp, SCOPE_USE, 0,
	  "A TCP connection to this port: upgrade to carrel-tcp/1", NULL, NULL,
	  NULL, 101 },
	{ 0 },
};
