/*
 * Heads on their way through: made anew from what was parsed, never copied.
 *
 * Dropped in both directions is what concerns one connection only, and what
 * is ours: keys and tokens must not get into a sandbox, and a server inside
 * must not speak for us (our cookie; in the path form, where its pages share
 * our origin, whatever acts on all of that origin).
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/hosts.h"
#include "base/auto.h"
#include "base/guards.h"
#include "http/target.h"

/* RFC 9110, 7.6.1, and what is set anew. */
static const char *const per_connection[] = {
	"connection",
	"keep-alive",
	"proxy-connection",
	"proxy-authenticate",
	"te",
	"trailer",
	"transfer-encoding",
	"upgrade",
	"content-length",
	"proxy-authorization",
	"proxy-auth-info",
	NULL,
};

static const char *const not_inside[] = {
	"host",
	"expect", /* answered by us */
	"cookie", /* without ours */
	"forwarded",
	"x-forwarded-for",
	"x-forwarded-host",
	"x-forwarded-proto",
	"http2-settings",
	PORT_TOKEN_FIELD,
	"e2b-traffic-access-token",
	NULL,
};

static const char *const not_outside[] = { "date", "request-id", NULL };

/* These act on everything that has the same origin. */
static const char *const not_on_our_origin[] = {
	"clear-site-data",
	"service-worker-allowed",
	"strict-transport-security",
	"public-key-pins",
	"alt-svc",
	NULL,
};

static bool in(const char *const *list, const char *name)
{
	for (; *list; list++)
		if (strcasecmp(*list, name) == 0)
			return true;
	return false;
}

static bool is_per_connection(const struct http_head *h, const char *name)
{
	return in(per_connection, name) ||
	       http_has_token(h, "connection", name);
}

/* --- cookies and tokens --- */

/* The next "name=value" of a Cookie field; its length. */
static size_t next_cookie(const char **at)
{
	*at += strspn(*at, " \t;");
	return strcspn(*at, ";");
}

static bool is_our_cookie(const char *p, size_t n)
{
	const size_t len = strlen(PORT_TOKEN);

	return n > len && p[len] == '=' && strncmp(p, PORT_TOKEN, len) == 0;
}

size_t port_cookie(const char *cookies, const char **value)
{
	size_t n;

	while ((n = next_cookie(&cookies)) > 0) {
		if (is_our_cookie(cookies, n)) {
			*value = cookies + strlen(PORT_TOKEN) + 1;
			return n - strlen(PORT_TOKEN) - 1;
		}
		cookies += n;
	}
	return 0;
}

/*
 * Browsers send a cookie also with what another site's page asks for, and
 * previews are neighbours: to SameSite, all of them are one site. Going there
 * by a link is fine.
 */
bool port_cookie_counts(const struct http_head *h)
{
	const char *origin = http_header(h, "origin");
	const char *host = http_header(h, "host");
	const char *site = http_header(h, "sec-fetch-site");
	const char *mode = http_header(h, "sec-fetch-mode");

	if (!GUARD(SITE))
		return true;
	if (origin && (!host || !origin_is_same(origin, host)))
		return false;
	if (!site || strcasecmp(site, "same-origin") == 0 ||
	    strcasecmp(site, "none") == 0)
		return true;
	return mode && strcasecmp(mode, "navigate") == 0 &&
	       strcmp(h->method, "GET") == 0;
}

/* Something that opens our door, whoever it was sent to. */
static bool is_a_key(const char *name, const char *value)
{
	const char *key = strstr(value, KEY_PREFIX);

	return (strcasecmp(name, "authorization") == 0 ||
		strcasecmp(name, "x-api-key") == 0) &&
	       key && strlen(key) >= KEY_CAP - 1;
}

/* --- requests --- */

const char *port_upgrade(const struct http_head *h)
{
	const char *protocol = http_header(h, "upgrade");

	/* h2c is an offer that may be ignored, and is. */
	if (!protocol || h->minor == 0 ||
	    !http_has_token(h, "connection", "upgrade") ||
	    strcasecmp(protocol, "h2c") == 0)
		return NULL;
	return protocol;
}

static bool passes_in(const struct http_head *h, const struct port_way *way,
		      const struct http_field *f)
{
	if (is_per_connection(h, f->name) || in(not_inside, f->name) ||
	    is_a_key(f->name, f->value))
		return false;
	if (way->secret && strcmp(f->value, way->secret) == 0)
		return false;
	return way->by_token || (strcasecmp(f->name, "authorization") != 0 &&
				 strcasecmp(f->name, "x-api-key") != 0);
}

static void add(struct buf *b, const char *name, const char *value)
{
	buf_printf(b, "%s: %s\r\n", name, value);
}

static void add_cookies(struct buf *b, const char *cookies)
{
	const char *sep = "Cookie: ";
	size_t n;

	while ((n = next_cookie(&cookies)) > 0) {
		if (!is_our_cookie(cookies, n)) {
			buf_puts(b, sep);
			buf_add(b, cookies, n);
			sep = "; ";
		}
		cookies += n;
	}
	if (*sep == ';')
		buf_puts(b, "\r\n");
}

/* Who asks, by which name, over what; a proxy in front of us may know more. */
static void add_forwarded(struct buf *b, const struct http_head *h,
			  const struct port_way *way)
{
	const char *before =
		way->near ? http_header(h, "x-forwarded-for") : NULL;
	const char *host =
		way->near ? http_header(h, "x-forwarded-host") : NULL;
	const char *proto =
		way->near ? http_header(h, "x-forwarded-proto") : NULL;

	if (!host)
		host = http_header(h, "host");
	if (!proto ||
	    (strcmp(proto, "http") != 0 && strcmp(proto, "https") != 0))
		proto = way->https ? "https" : "http";
	buf_printf(b, "X-Forwarded-For: %s%s%s\r\n", before ? before : "",
		   before ? ", " : "", *way->peer ? way->peer : "127.0.0.1");
	if (host)
		add(b, "X-Forwarded-Host", host);
	add(b, "X-Forwarded-Proto", proto);
	if (*way->prefix)
		add(b, "X-Forwarded-Prefix", way->prefix);
}

static void add_framing(struct buf *b, const struct http_head *h)
{
	if (h->body == HTTP_CHUNKED)
		add(b, "Transfer-Encoding", "chunked");
	else if (h->body == HTTP_LENGTH || http_header(h, "content-length"))
		buf_printf(b, "Content-Length: %llu\r\n",
			   (unsigned long long)h->length);
}

/* Without our token. */
static void add_target(struct buf *b, const char *target)
{
	size_t n = strcspn(target, "?");
	AUTO(buf_done) struct buf query = { 0 };

	buf_add(b, target, n);
	if (target[n] == '\0')
		return;
	http_query_without(&query, target + n + 1,
			   GUARD(LINK) ? PORT_TOKEN : "");
	if (buf_len(&query) > 0 || target[n + 1] == '\0')
		buf_puts(b, "?");
	buf_add(b, buf_data(&query), buf_len(&query));
}

void port_request_head(struct buf *out, const struct http_head *h,
		       const struct port_way *way)
{
	const char *upgrade = port_upgrade(h);
	const char *host = http_header(h, "host");
	unsigned i;

	buf_printf(out, "%s ", h->method);
	add_target(out, way->target);
	buf_puts(out, " HTTP/1.1\r\n");
	/* By path it is called by a name that it may know as its own. */
	if (way->host)
		add(out, "Host", way->host);
	else if (way->by_host && host)
		add(out, "Host", host);
	else
		buf_printf(out, "Host: localhost:%u\r\n", way->port);
	for (i = 0; i < h->n_fields; i++) {
		const struct http_field *f = &h->field[i];

		if (strcasecmp(f->name, "cookie") == 0)
			add_cookies(out, f->value);
		else if (passes_in(h, way, f))
			add(out, f->name, f->value);
	}
	add_forwarded(out, h, way);
	add_framing(out, h);
	add(out, "Connection", upgrade ? "Upgrade" : "close");
	if (upgrade)
		add(out, "Upgrade", upgrade);
	buf_puts(out, "\r\n");
}

/* --- answers --- */

/* A cookie of our name would be taken for a token of ours. */
static bool sets_our_cookie(const struct http_field *f)
{
	return GUARD(COOKIE) && strcasecmp(f->name, "set-cookie") == 0 &&
	       strncasecmp(f->value + strspn(f->value, " \t"), PRODUCT "_",
			   strlen(PRODUCT "_")) == 0;
}

static bool passes_out(const struct http_head *h, const struct port_way *way,
		       const struct http_field *f)
{
	if (is_per_connection(h, f->name) || in(not_outside, f->name) ||
	    sets_our_cookie(f))
		return false;
	return way->by_host || !in(not_on_our_origin, f->name);
}

/*
 * "/x" of a server that does not know of its prefix, and the names it knows
 * itself by. NULL: as it is.
 */
static const char *new_location(const struct port_way *way, const char *value,
				struct buf *text)
{
	size_t at = buf_len(text);
	char own[48];
	size_t n = (size_t)snprintf(own, sizeof(own), "http://localhost:%u",
				    way->port);

	if (strncasecmp(value, own, n) == 0 &&
	    (value[n] == '/' || value[n] == '\0'))
		value += n;
	else if (value[0] != '/' || value[1] == '/')
		return NULL;
	buf_printf(text, "%s%s", way->prefix, *value ? value : "/");
	buf_add(text, "", 1);
	return buf_data(text) + at;
}

/*
 * A cookie is for its own preview: without Domain, which would have other
 * previews get it, and by path with a Path below the prefix, because there all
 * previews are on one host.
 */
static const char *new_cookie(const struct port_way *way, const char *value,
			      struct buf *text)
{
	size_t at = buf_len(text), n = strcspn(value, ";"), path_n = 0;
	const char *path = "";

	buf_add(text, value, n);
	while (value[n]) {
		const char *part = value + n + 1;
		size_t name;

		part += strspn(part, " \t");
		n = (size_t)(part - value) + strcspn(part, ";");
		name = strcspn(part, "=; \t");
		if (name == 4 && strncasecmp(part, "path", 4) == 0) {
			path = part + 4 + strspn(part + 4, "= \t");
			path_n = (size_t)(value + n - path);
		} else if (name != 6 || strncasecmp(part, "domain", 6) != 0) {
			buf_puts(text, "; ");
			buf_add(text, part, (size_t)(value + n - part));
		}
	}
	if (*way->prefix)
		buf_printf(text, "; Path=%s%.*s", way->prefix,
			   path_n > 1 && *path == '/' ? (int)path_n : 0, path);
	else if (path_n > 0)
		buf_printf(text, "; Path=%.*s", (int)path_n, path);
	buf_add(text, "", 1);
	return buf_data(text) + at;
}

/* `text` must not move: pointers into it are kept. */
static void make_room(const struct http_head *h, const struct port_way *way,
		      struct buf *text)
{
	size_t room = 0;
	unsigned i;

	for (i = 0; i < h->n_fields; i++)
		if (strcasecmp(h->field[i].name, "location") == 0 ||
		    strcasecmp(h->field[i].name, "set-cookie") == 0)
			/* A blank more than it had, behind each semicolon. */
			room += 2 * strlen(h->field[i].value) +
				strlen(way->prefix) + 16;
	buf_room(text, room);
}

static const char *new_value(const struct port_way *way,
			     const struct http_field *f, struct buf *text)
{
	if (strcasecmp(f->name, "set-cookie") == 0)
		return new_cookie(way, f->value, text);
	if (!way->by_host && strcasecmp(f->name, "location") == 0)
		return new_location(way, f->value, text);
	return NULL;
}

void port_answer_fields(const struct http_head *h, const struct port_way *way,
			struct http_field *out, struct buf *text)
{
	unsigned i, n = 0;

	make_room(h, way, text);
	for (i = 0; i < h->n_fields; i++) {
		const struct http_field *f = &h->field[i];
		const char *value;

		if (!passes_out(h, way, f))
			continue;
		value = new_value(way, f, text);
		out[n++] = (struct http_field){ f->name,
						value ? value : f->value };
	}
	/* Its scripts may run, but not as scripts of our origin. */
	if (GUARD(CSP) && !way->by_host)
		out[n++] = (struct http_field){
			"Content-Security-Policy",
			"sandbox allow-scripts allow-forms allow-popups "
			"allow-modals allow-downloads"
		};
	out[n] = (struct http_field){ NULL, NULL };
}
