/*
 * Heads. Dropped in both directions is what concerns one connection only, and
 * whatever the other side names as such; before credentials are placed, so
 * that nobody can name them.
 */
#include "gate/request.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/guards.h"

/* RFC 9110, 7.6.1, and what is set anew. */
static const char *const per_connection[] = {
	"connection", "keep-alive",     "te", "trailer", "transfer-encoding",
	"upgrade",    "content-length", NULL,
};

static const char *const said_by_us[] = { "host", "expect", NULL };

/* Of other connections than ours. */
static const char *const not_outside[] = { "forwarded", "via", "http2-settings",
					   NULL };

/* Another protocol, that has no way through here. */
static const char *const not_inside[] = { "alt-svc", NULL };

/* A method or a path for the server that the policy did not see. */
static const char *const overrides[] = {
	"x-http-method-override", "x-http-method", "x-method-override",
	"x-original-url",         "x-rewrite-url", NULL,
};

/* They echo the head, with what we put into it; or are not for us. */
static const char *const no_methods[] = { "TRACE", "TRACK", "CONNECT", NULL };

static bool in(const char *const *list, const char *name)
{
	for (; *list; list++)
		if (strcasecmp(*list, name) == 0)
			return true;
	return false;
}

/* To many servers '_' in a name is the same as '-'. */
static bool overrides_something(const char *name)
{
	char plain[32];
	size_t i;

	for (i = 0; i < sizeof(plain) - 1 && name[i]; i++)
		plain[i] = name[i] == '_' ? '-' : name[i];
	plain[i] = '\0';
	return !name[i] && in(overrides, plain);
}

/* --- where to --- */

static int read_port(const char *s, uint16_t *out)
{
	uint64_t n;

	/* Digits alone, and one spelling of each number. */
	if (!isdigit((unsigned char)*s) || *s == '0' || strlen(s) > 5 ||
	    parse_u64(s, 65535, &n) < 0)
		return -EINVAL;
	*out = (uint16_t)n;
	return 0;
}

int place_read(struct place *p, const char *s, uint16_t usual)
{
	const char *close = *s == '[' ? strchr(s, ']') : NULL;
	const char *colon = strchr(close ? close : s, ':');
	size_t n = colon ? (size_t)(colon - s) : strlen(s);
	bool address;

	p->port = usual;
	if (colon && read_port(colon + 1, &p->port) < 0)
		return -EINVAL;
	if (p->port == 0 || (*s == '[') != (n > 0 && s[n - 1] == ']'))
		return -EINVAL;
	return host_read(s, n, p->host, &address);
}

static bool bad(struct refusal *r, const char *why)
{
	refusal_set(r, REFUSE_BAD, "the request is malformed: %s", why);
	return false;
}

static bool same(const struct place *a, const struct place *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* "http://HOST/" to the proxy; the Host field has to agree. */
static bool place_of_proxy(struct flow *f, const struct http_head *h,
			   const char *host, struct refusal *r)
{
	struct place field;

	if (place_read(&f->place, h->authority, 80) < 0)
		return bad(r, "bad host in the target");
	if (host && GUARD(AGREE) &&
	    (place_read(&field, host, 80) < 0 || !same(&field, &f->place)))
		return bad(r, "the target and Host do not agree");
	return true;
}

/* Host says it; a connection that is to one place stays there. */
static bool place_of_host(struct flow *f, const struct http_head *h,
			  const char *host, struct refusal *r)
{
	uint16_t port = f->place.port;
	struct place field;

	if (h->authority)
		return bad(r, "a target with a host, but this is no proxy");
	if (!host)
		return f->bound || bad(r, "no Host field");
	/* The usual port of the scheme, or that of the connection. */
	if (place_read(&field, host, port) < 0)
		return bad(r, "bad Host field");
	if (field.port != port)
		return bad(r, "Host has another port than the connection");
	if (GUARD(BOUND) && f->bound &&
	    strcmp(field.host, f->place.host) != 0) {
		refusal_set(r, REFUSE_HOST,
			    "the connection is to %.254s, and Host says "
			    "%.254s: they must agree",
			    f->place.host, field.host);
		return false;
	}
	f->place = field;
	return true;
}

static bool check_method(const struct http_head *h, struct refusal *r)
{
	const char *s;
	unsigned i;

	for (s = h->method; *s; s++)
		if (islower((unsigned char)*s))
			return bad(r, "methods are written in capitals");
	if (GUARD(METHODS) && in(no_methods, h->method)) {
		refusal_set(r, REFUSE_METHOD, "%s does not pass the gate",
			    h->method);
		return false;
	}
	for (i = 0; i < h->n_fields; i++)
		if (GUARD(OVERRIDES) && overrides_something(h->field[i].name)) {
			refusal_set(r, REFUSE_BAD,
				    "%.40s does not pass the gate: send the "
				    "method, or the path, itself",
				    h->field[i].name);
			return false;
		}
	return true;
}

bool request_check(struct flow *f, const struct http_head *h, bool *own,
		   struct refusal *r)
{
	const char *host = http_header(h, "host");
	bool by_proxy = f->proxy && !f->bound;

	*own = false;
	if (!check_method(h, r))
		return false;
	if (by_proxy && !h->authority) {
		*own = true;
		return true;
	}
	if (by_proxy ? !place_of_proxy(f, h, host, r)
		     : !place_of_host(f, h, host, r))
		return false;
	*own = strcmp(f->place.host, GATE_HOST) == 0;
	return true;
}

/* --- what passes --- */

static bool is_per_connection(const struct http_head *h, const char *name)
{
	if (in(per_connection, name))
		return true;
	return GUARD(HOP) && (strncasecmp(name, "proxy-", 6) == 0 ||
			      http_has_token(h, "connection", name));
}

static bool is_replaced(const struct inject *j, const char *name)
{
	const struct http_field *f = j->fields;

	for (; f && f->name; f++)
		if (strcasecmp(f->name, name) == 0)
			return true;
	return false;
}

/*
 * Fields that would keep the gate from masking secrets in the answer. The first
 * two negotiate compression. A range could cut a secret into pieces that the
 * gate does not recognize; every server may ignore a range.
 */
static const char *const not_masked[] = { "accept-encoding",
					  "sec-websocket-extensions", "range",
					  "if-range", NULL };

static bool passes_out(const struct pass *p, const struct http_field *f,
		       bool identity)
{
	if (is_per_connection(p->head, f->name) || in(said_by_us, f->name))
		return false;
	if (GUARD(FORWARDED) && (in(not_outside, f->name) ||
				 strncasecmp(f->name, "x-forwarded-", 12) == 0))
		return false;
	if (identity && in(not_masked, f->name))
		return false;
	/* Canaries are not found in compressed frames. */
	if (inject_canaries(p->inject.box) &&
	    strcasecmp(f->name, "sec-websocket-extensions") == 0)
		return false;
	return !GUARD(OWNFIELD) || !is_replaced(&p->inject, f->name);
}

/* Not buf_printf(): there are many of them. */
static void add(struct buf *b, const char *name, const char *value)
{
	buf_puts(b, name);
	buf_add(b, ": ", 2);
	buf_puts(b, value);
	buf_add(b, "\r\n", 2);
}

void request_target(const struct http_head *h, struct buf *out)
{
	buf_puts(out, h->sent);
	if (*h->query || h->target[strlen(h->target) - 1] == '?') {
		buf_puts(out, "?");
		buf_puts(out, h->query);
	}
}

bool request_upgrades(const struct http_head *h)
{
	return http_wants_upgrade(h, "websocket") &&
	       strcasecmp(http_header(h, "upgrade"), "websocket") == 0 &&
	       strcmp(h->method, "GET") == 0 && h->body == HTTP_NO_BODY;
}

static void add_host(struct buf *b, const struct request *q)
{
	bool v6 = strchr(q->host, ':');
	bool usual = q->port == (q->scheme == SCHEME_HTTPS ? 443 : 80);

	buf_puts(b, v6 ? "Host: [" : "Host: ");
	buf_puts(b, q->host);
	buf_puts(b, v6 ? "]" : "");
	if (!usual)
		buf_printf(b, ":%u", q->port);
	buf_add(b, "\r\n", 2);
}

static void add_length(struct buf *b, uint64_t n)
{
	buf_printf(b, "Content-Length: %llu\r\n", (unsigned long long)n);
}

static void add_request_framing(struct buf *b, const struct http_head *h,
				int64_t body_n)
{
	if (body_n >= 0)
		add_length(b, (uint64_t)body_n);
	else if (h->body == HTTP_CHUNKED)
		add(b, "Transfer-Encoding", "chunked");
	else if (h->body == HTTP_LENGTH || http_header(h, "content-length"))
		add_length(b, h->length);
}

void request_head(const struct pass *p, bool identity, int64_t body_n,
		  struct buf *out)
{
	const struct http_head *h = p->head;
	const struct http_field *f = p->inject.fields;
	unsigned i;

	buf_puts(out, h->method);
	buf_puts(out, " ");
	buf_puts(out, p->inject.new_target ? p->inject.new_target : p->target);
	buf_puts(out, " HTTP/1.1\r\n");
	add_host(out, &p->request);
	for (i = 0; i < h->n_fields; i++)
		if (passes_out(p, &h->field[i], identity))
			add(out, h->field[i].name, h->field[i].value);
	for (; f && f->name; f++)
		if (f->value)
			add(out, f->name, f->value);
	if (identity)
		add(out, "Accept-Encoding", "identity");
	add_request_framing(out, h, body_n);
	if (request_upgrades(h))
		buf_puts(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	buf_add(out, "\r\n", 2);
}

/* --- answers --- */

static bool passes_in(const struct http_head *a, const struct http_field *f)
{
	return !is_per_connection(a, f->name) && !in(not_inside, f->name);
}

static void add_masked(struct pass *p, const struct http_field *f,
		       struct buf *out)
{
	if (!p->inject.mask.set) {
		add(out, f->name, f->value);
		return;
	}
	inject_mask_name(&p->inject, f->name, out);
	buf_puts(out, ": ");
	inject_mask_text(&p->inject, f->value, out);
	buf_puts(out, "\r\n");
}

static void add_answer_framing(struct buf *b, const struct http_head *a,
			       bool chunked)
{
	if (chunked)
		add(b, "Transfer-Encoding", "chunked");
	else if (a->body == HTTP_LENGTH ||
		 (http_header(a, "content-length") && a->status >= 200 &&
		  a->status != 204))
		add_length(b, a->length);
}

void answer_head(struct pass *p, const struct http_head *a, bool chunked,
		 bool close, struct buf *out)
{
	unsigned i;

	buf_printf(out, "HTTP/1.1 %d ", a->status);
	if (p->inject.mask.set)
		inject_mask_text(&p->inject, a->reason, out);
	else
		buf_puts(out, a->reason);
	buf_add(out, "\r\n", 2);
	for (i = 0; i < a->n_fields; i++)
		if (passes_in(a, &a->field[i]))
			add_masked(p, &a->field[i], out);
	add_answer_framing(out, a, chunked);
	if (a->status == 101)
		buf_puts(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	else if (close)
		add(out, "Connection", "close");
	buf_add(out, "\r\n", 2);
}
