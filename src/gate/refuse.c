/*
 * Words. A refusal names the rule and the remedy, never a secret, and never
 * what another sandbox does. What strangers sent comes back cut and without
 * control bytes: hosts, methods and paths are in their canonical form here.
 */
#include "gate/refuse.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/product.h"
#include "gate/inject.h"

static const struct {
	int status;
	const char *phrase, *word;
} kinds[] = {
	[REFUSE_POLICY] = { 403, "Forbidden", "policy" },
	[REFUSE_PERSON] = { 403, "Forbidden", "approval" },
	[REFUSE_BUDGET] = { 429, "Too Many Requests", "budget" },
	[REFUSE_SECRET] = { 403, "Forbidden", "secret" },
	[REFUSE_CANARY] = { 403, "Forbidden", "canary" },
	[REFUSE_HOST] = { 403, "Forbidden", "host" },
	[REFUSE_ADDRESS] = { 403, "Forbidden", "address" },
	[REFUSE_BAD] = { 400, "Bad Request", "malformed" },
	[REFUSE_METHOD] = { 405, "Method Not Allowed", "method" },
	[REFUSE_LARGE] = { 413, "Content Too Large", "large" },
	[REFUSE_SLOW] = { 408, "Request Timeout", "slow" },
	[REFUSE_LOG] = { 503, "Service Unavailable", "log" },
	[REFUSE_UPSTREAM] = { 502, "Bad Gateway", "upstream" },
	[REFUSE_LATE] = { 504, "Gateway Timeout", "upstream" },
};

static_assert(ARRAY_LEN(kinds) == REFUSALS, "a row for each");

void refusal_set(struct refusal *r, enum refusal_kind kind, const char *fmt,
		 ...)
{
	va_list ap;

	r->kind = kind;
	r->status = 0;
	va_start(ap, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, ap);
	va_end(ap);
}

static const char *scheme_word(enum scheme s)
{
	return s == SCHEME_HTTP ? "http" : s == SCHEME_HTTPS ? "https" : "tcp";
}

static bool usual_port(const struct request *q)
{
	return (q->scheme == SCHEME_HTTP && q->port == 80) ||
	       (q->scheme == SCHEME_HTTPS && q->port == 443);
}

void request_words(const struct request *q, struct buf *out)
{
	bool v6 = strchr(q->host, ':');

	if (q->scheme == SCHEME_TCP)
		buf_puts(out, "tcp ");
	else
		buf_printf(out, "%s %s://", q->method ? q->method : "*",
			   scheme_word(q->scheme));
	buf_printf(out, v6 ? "[%s]" : "%s", q->host);
	if (!usual_port(q))
		buf_printf(out, ":%u", q->port);
}

void refusal_policy(struct refusal *r, const struct box *b,
		    const struct request *q, const struct ruling *why)
{
	AUTO(buf_done) struct buf rule = { 0 };
	AUTO(buf_done) struct buf what = { 0 };

	ruling_text(b, why, &rule);
	request_words(q, &what);
	refusal_set(r, REFUSE_POLICY,
		    "%s%.160s%s: ask an operator to allow "
		    "%.300s",
		    why->rule ? "denied by " : "", buf_str(&rule),
		    why->rule ? "" : " allows it", buf_str(&what));
}

void refusal_parse(struct refusal *r, int status, const char *why)
{
	refusal_set(r, REFUSE_BAD, "the request is malformed: %s", why);
	r->status = -status;
}

void refusal_dial(struct refusal *r, const struct err *e)
{
	enum refusal_kind kind = e->code == EACCES      ? REFUSE_ADDRESS
				 : e->code == ETIMEDOUT ? REFUSE_LATE
							: REFUSE_UPSTREAM;

	refusal_set(r, kind, "%s", e->msg);
}

const char *refusal_word(const struct refusal *r)
{
	return kinds[r->kind].word;
}

int refusal_status(const struct refusal *r)
{
	return r->status ? r->status : kinds[r->kind].status;
}

static void add_text(struct buf *out, const char *fields, const char *text,
		     const char *method, bool close)
{
	bool body = !method || strcmp(method, "HEAD") != 0;

	buf_printf(out,
		   "Content-Type: text/plain; charset=utf-8\r\n"
		   "Content-Length: %zu\r\n"
		   "Cache-Control: no-store\r\n%s%s\r\n",
		   strlen(text) + 1, fields,
		   close ? "Connection: close\r\n" : "");
	if (body)
		buf_printf(out, "%s\n", text);
}

void refusal_answer(const struct refusal *r, const char *method, bool close,
		    struct buf *out)
{
	char fields[128];

	snprintf(fields, sizeof(fields), "Carrel-Denied: %s\r\n%s",
		 refusal_word(r),
		 r->kind == REFUSE_METHOD ? "Allow: GET, HEAD, POST\r\n" : "");
	buf_printf(out, "HTTP/1.1 %d %s\r\n", refusal_status(r),
		   kinds[r->kind].phrase);
	add_text(out, fields, r->text, method, close);
}

/* --- pages --- */

static const char help[] =
	"This is the door of this sandbox: an HTTP proxy on 127.0.0.1:3128.\n"
	"What passes it, and how much, is decided by the sandbox's policy and\n"
	"by people. A refusal says which rule it was, and the field\n"
	"Carrel-Denied why in one word. Credentials are placed by the door:\n"
	"what looks like one in this sandbox is a placeholder.\n"
	"\n"
	"/totp/NAME	a one-time code of the secret NAME";

static int page_text(struct box *b, const char *path, char code[TOTP_CAP],
		     const char **text, struct err *e)
{
	*text = help;
	if (strcmp(path, "/") == 0)
		return 200;
	if (!str_starts(path, "/totp/"))
		return 404;
	*text = code;
	if (totp_code(b, path + strlen("/totp/"), code, e) < 0) {
		*text = e->msg;
		return e->code == ENOENT ? 404 : 403;
	}
	return 200;
}

bool page_answer(struct box *b, const char *method, const char *path,
		 bool close, struct buf *out)
{
	char code[TOTP_CAP];
	struct err e = { 0 };
	const char *text;
	int status;

	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return false;
	status = page_text(b, path, code, &text, &e);
	buf_printf(out, "HTTP/1.1 %d %s\r\n", status,
		   status == 200 ? "OK" : "Not Found");
	add_text(out, "", text, method, close);
	return true;
}
