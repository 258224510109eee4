/*
 * Heads are parsed in two steps. http_scan_head() looks at every byte once,
 * as it comes, and finds the end; what no head may contain ends the
 * connection there. http_parse_*() then works on a private copy whose lines
 * it cuts into strings: no NUL can be in it, so they are safe C strings.
 */
#include "http/parse.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/guards.h"
#include "http/target.h"

/* Fields that mean something to us and must not come twice. */
static const char *const singles[] = {
	"host",
	"content-length",
	"transfer-encoding",
	"content-type",
	"expect",
	"authorization",
	"origin",
	"sec-websocket-key",
	"sec-websocket-version",
};

static int refuse(const char **why, int status, const char *text)
{
	*why = text;
	return -status;
}

void http_head_done(struct http_head *h)
{
	free(h->text);
	*h = (struct http_head){ 0 };
}

int http_scan_head(struct http_scan *s, const char *p, size_t n,
		   const char **why)
{
	for (; s->at < n; s->at++) {
		unsigned char c = (unsigned char)p[s->at];
		bool after_cr = s->at > 0 && p[s->at - 1] == '\r';

		if (s->at >= HTTP_HEAD_MAX)
			return refuse(why, 431, "the head is too long");
		if (after_cr != (c == '\n'))
			return refuse(why, 400, "a line must end in CR LF");
		/* A NUL would end a string: never without this check. */
		if (((c < 0x20 && c != '\t' && c != '\r' && c != '\n') ||
		     c == 0x7f) &&
		    (GUARD(CONTROL) || c == '\0'))
			return refuse(why, 400, "control byte in the head");
		if (c == '\n' && s->at - s->line == 1) {
			if (s->line == 0)
				return refuse(why, 400, "empty first line");
			return (int)(s->at + 1);
		}
		if (c == '\n')
			s->line = s->at + 1;
		else if (c != '\r' && s->at - s->line >= HTTP_LINE_MAX)
			return refuse(why, s->line == 0 ? 414 : 431,
				      "a line of the head is too long");
	}
	return 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_tchar(unsigned char c)
{
	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	    (c >= 'A' && c <= 'Z'))
		return true;
	return c && strchr("!#$%&'*+-.^_`|~", c);
}

bool http_is_token(const char *s)
{
	const char *p = s;

	while (is_tchar((unsigned char)*p))
		p++;
	return p != s && *p == '\0';
}

bool http_is_value(const char *s)
{
	for (; *s; s++)
		if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
			return false;
	return true;
}

const char *http_header(const struct http_head *h, const char *name)
{
	unsigned i;

	for (i = 0; i < h->n_fields; i++)
		if (strcasecmp(h->field[i].name, name) == 0)
			return h->field[i].value;
	return NULL;
}

static bool list_has(const char *list, const char *token)
{
	size_t len = strlen(token);

	assert(list); /* a parsed field has a value, if an empty one */
	while (*list) {
		size_t n;

		list += strspn(list, " \t,");
		n = strcspn(list, ",");
		if (n >= len && strncasecmp(list, token, len) == 0 &&
		    strspn(list + len, " \t") == n - len)
			return true;
		list += n;
	}
	return false;
}

bool http_has_token(const struct http_head *h, const char *name,
		    const char *token)
{
	unsigned i;

	for (i = 0; i < h->n_fields; i++)
		if (strcasecmp(h->field[i].name, name) == 0 &&
		    list_has(h->field[i].value, token))
			return true;
	return false;
}

bool http_wants_upgrade(const struct http_head *h, const char *protocol)
{
	return h->minor == 1 && http_has_token(h, "connection", "upgrade") &&
	       http_has_token(h, "upgrade", protocol);
}

/* Cuts the next line off; the scan made sure that each ends in CR LF. */
static char *next_line(char **rest)
{
	char *line = *rest, *end = strchr(line, '\r');

	*end = '\0';
	*rest = end + 2;
	return line;
}

static int parse_field(struct http_head *h, char *line, const char **why)
{
	char *value = strchr(line, ':');
	size_t n;

	if (h->n_fields == HTTP_FIELDS_MAX)
		return refuse(why, 431, "too many header fields");
	if (!value)
		return refuse(why, 400, "a header field without a colon");
	*value++ = '\0';
	/* This also refuses folded lines and a space before the colon. */
	if (!http_is_token(line))
		return refuse(why, 400, "bad header field name");
	value += strspn(value, " \t");
	n = strlen(value);
	while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'))
		value[--n] = '\0';
	h->field[h->n_fields++] = (struct http_field){ line, value };
	return 0;
}

static int check_singles(const struct http_head *h, const char **why)
{
	unsigned seen = 0;
	unsigned i, k;

	for (i = 0; i < h->n_fields; i++) {
		for (k = 0; k < ARRAY_LEN(singles); k++) {
			if (strcasecmp(h->field[i].name, singles[k]) != 0)
				continue;
			if (GUARD(SINGLES) && seen & (1U << k))
				return refuse(why, 400,
					      "repeated header field");
			seen |= 1U << k;
		}
	}
	return 0;
}

/* Not parse_u64(): a leading '+' or space there would be harmless, not here. */
static int parse_length(const char *s, uint64_t *out)
{
	uint64_t v = 0;

	if (*s == '\0')
		return -1;
	for (; *s; s++) {
		if (!is_digit(*s) || v > (INT64_MAX - 9) / 10)
			return -1;
		v = v * 10 + (uint64_t)(*s - '0');
	}
	*out = v;
	return 0;
}

/* Sets what follows the head as far as its fields say it. */
static int parse_framing(struct http_head *h, const char **why)
{
	const char *length = http_header(h, "content-length");
	const char *coding = http_header(h, "transfer-encoding");

	h->body = HTTP_NO_BODY;
	h->length = 0;
	if (GUARD(FRAMING) && length && coding)
		return refuse(why, 400,
			      "Content-Length and Transfer-Encoding together");
	if (coding && h->minor == 0)
		return refuse(why, 400, "Transfer-Encoding in HTTP/1.0");
	if (coding && strcasecmp(coding, "chunked") != 0)
		return refuse(why, 501, "Transfer-Encoding is not \"chunked\"");
	if (length && parse_length(length, &h->length) < 0)
		return refuse(why, 400, "bad Content-Length");
	if (coding)
		h->body = HTTP_CHUNKED;
	else if (h->length > 0)
		h->body = HTTP_LENGTH;
	h->keep_alive =
		h->minor == 1 && !http_has_token(h, "connection", "close");
	return 0;
}

static int parse_version(struct http_head *h, const char *s, const char **why)
{
	if (strcmp(s, "HTTP/1.1") == 0 || strcmp(s, "HTTP/1.0") == 0) {
		h->minor = s[7] - '0';
		return 0;
	}
	if (strlen(s) == 8 && strncmp(s, "HTTP/", 5) == 0 && is_digit(s[5]) &&
	    s[6] == '.' && is_digit(s[7]))
		return refuse(why, 505, "only HTTP/1.1 is spoken here");
	return refuse(why, 400, "bad HTTP version");
}

/* Makes two strings of "http://HOST/PATH"; the first moves, to have an end. */
static char *cut_authority(struct http_head *h, char *target)
{
	char *host = target + strlen("http:/"), *from = host + 1;
	size_t n = strcspn(from, "/?");

	memmove(host, from, n);
	host[n] = '\0';
	h->authority = host;
	return from + n;
}

static int parse_proxy_target(struct http_head *h, char *target, char *room)
{
	static char root[] = "/";
	char *path = room, *sent = room + strlen(target) + 1;

	h->target = target;
	if (strcmp(h->method, "CONNECT") == 0) {
		h->authority = target;
		h->path = h->sent = h->query = "";
		return 0;
	}
	if (strncasecmp(target, "http://", 7) == 0) {
		target = cut_authority(h, target);
		if (*target == '\0')
			target = root;
	}
	h->target = target;
	h->path = path;
	h->sent = sent;
	return http_target_proxy(target, path, sent, &h->query, &h->slashes);
}

static int parse_target(struct http_head *h, char *target, char *room,
			bool proxy)
{
	if (proxy)
		return parse_proxy_target(h, target, room);
	h->target = target;
	h->path = room;
	return http_target_split(target, room, &h->query);
}

static int parse_request_line(struct http_head *h, char *line, char *room,
			      bool proxy, const char **why)
{
	char *target = strchr(line, ' ');
	char *version = target ? strchr(target + 1, ' ') : NULL;
	int r;

	if (!version)
		return refuse(why, 400, "bad request line");
	*target++ = '\0';
	*version++ = '\0';
	if (!http_is_token(line) || strlen(line) > HTTP_METHOD_MAX)
		return refuse(why, 400, "bad method");
	r = parse_version(h, version, why);
	if (r < 0)
		return r;
	if (strlen(target) > HTTP_TARGET_MAX)
		return refuse(why, 414, "the target is too long");
	h->method = line;
	if (parse_target(h, target, room, proxy) < 0)
		return refuse(why, 400, "bad request target");
	return 0;
}

static int check_host(const struct http_head *h, const char **why)
{
	static const char more[] = "-._~!$&'()*+,;=%[]:";
	const char *s = http_header(h, "host");

	if (!s)
		return h->minor == 0 ? 0 : refuse(why, 400, "no Host field");
	for (; *s; s++)
		if (!((*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') ||
		      (*s >= 'A' && *s <= 'Z') || strchr(more, *s)))
			return refuse(why, 400, "bad Host field");
	return 0;
}

static int check_expect(struct http_head *h, const char **why)
{
	const char *s = http_header(h, "expect");

	h->expect_continue = false;
	if (!s || h->minor == 0)
		return 0;
	if (strcasecmp(s, "100-continue") != 0)
		return refuse(why, 417, "unknown expectation");
	h->expect_continue = h->body != HTTP_NO_BODY;
	return 0;
}

/*
 * The copy of the head; behind it is room for `extra` more bytes. Its last
 * CR LF becomes the end of the string.
 */
static int copy_head(struct http_head *h, const char *p, size_t n, size_t extra,
		     const char **why)
{
	struct http_scan scan = { 0 };
	char *text = h->text;
	int r = http_scan_head(&scan, p, n, why);

	if (r < 0)
		return r;
	if (r == 0 || (size_t)r != n)
		return refuse(why, 400, "not one complete head");
	text = xrealloc(text, n + extra);
	memcpy(text, p, n - 2);
	text[n - 2] = '\0';
	h->text = text;
	h->n_fields = 0;
	h->method = h->target = h->path = h->query = h->reason = NULL;
	h->authority = h->sent = NULL;
	h->slashes = false;
	h->status = 0;
	h->expect_continue = false;
	return 0;
}

static int parse_fields(struct http_head *h, char *rest, const char **why)
{
	while (*rest) {
		int r = parse_field(h, next_line(&rest), why);

		if (r < 0)
			return r;
	}
	return check_singles(h, why);
}

static int parse_request(struct http_head *h, const char *p, size_t n,
			 bool proxy, const char **why)
{
	char *rest;
	int r = copy_head(h, p, n, proxy ? 2 * n : n, why);

	if (r < 0)
		return r;
	rest = h->text;
	r = parse_request_line(h, next_line(&rest), h->text + n, proxy, why);
	if (r == 0)
		r = parse_fields(h, rest, why);
	if (r == 0)
		r = check_host(h, why);
	if (r == 0)
		r = parse_framing(h, why);
	if (r == 0)
		r = check_expect(h, why);
	return r;
}

int http_parse_request(struct http_head *h, const char *p, size_t n,
		       const char **why)
{
	int r = parse_request(h, p, n, false, why);

	if (r < 0)
		http_head_done(h);
	return r;
}

int http_parse_proxy_request(struct http_head *h, const char *p, size_t n,
			     const char **why)
{
	int r = parse_request(h, p, n, true, why);

	if (r < 0)
		http_head_done(h);
	return r;
}

static int parse_status_line(struct http_head *h, char *line, const char **why)
{
	char *code = strchr(line, ' ');
	int i, status = 0;

	if (!code)
		return refuse(why, 400, "bad status line");
	*code++ = '\0';
	if (parse_version(h, line, why) < 0)
		return -400;
	for (i = 0; i < 3; i++) {
		if (!is_digit(code[i]))
			return refuse(why, 400, "bad status");
		status = status * 10 + (code[i] - '0');
	}
	if (status < 100 || status > 599 || (code[3] && code[3] != ' '))
		return refuse(why, 400, "bad status");
	h->status = status;
	h->reason = code[3] ? code + 4 : "";
	return 0;
}

static void response_body(struct http_head *h, const char *method)
{
	bool framed = http_header(h, "content-length") ||
		      http_header(h, "transfer-encoding");

	if (h->status < 200 || h->status == 204 || h->status == 304 ||
	    strcmp(method, "HEAD") == 0) {
		h->body = HTTP_NO_BODY;
	} else if (!framed) {
		h->body = HTTP_UNTIL_CLOSE;
		h->keep_alive = false;
	}
}

int http_parse_response(struct http_head *h, const char *p, size_t n,
			const char *method, const char **why)
{
	char *rest;
	int r = copy_head(h, p, n, 0, why);

	if (r == 0) {
		rest = h->text;
		r = parse_status_line(h, next_line(&rest), why);
	}
	if (r == 0)
		r = parse_fields(h, rest, why);
	if (r == 0)
		r = parse_framing(h, why);
	if (r < 0) {
		http_head_done(h);
		return -400;
	}
	response_body(h, method);
	return 0;
}
