#include "api/e2b/connect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/json_text.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/str.h"

enum {
	ENVELOPE_HEAD = 5,
	ENVELOPE_COMPRESSED = 1,
	ENVELOPE_END = 2,
	KEEPALIVE_S = 90,
	KEEPALIVE_MAX_S = 3600,
};

static const char stream_type[] = "application/connect+json";
static const char unary_type[] = "application/json";

static const struct {
	const char *word;
	int status; /* of a unary answer */
} words[] = {
	{ "canceled", 499 },           { "invalid_argument", 400 },
	{ "deadline_exceeded", 504 },  { "not_found", 404 },
	{ "already_exists", 409 },     { "permission_denied", 403 },
	{ "resource_exhausted", 429 }, { "failed_precondition", 400 },
	{ "unimplemented", 501 },      { "unavailable", 503 },
	{ "unauthenticated", 401 },    { "internal", 500 },
};

static const struct {
	int code;
	const char *word;
} codes[] = {
	{ EINVAL, "invalid_argument" },
	{ ERANGE, "invalid_argument" },
	{ E2BIG, "invalid_argument" },
	{ ENAMETOOLONG, "invalid_argument" },
	{ ENOTDIR, "invalid_argument" },
	{ EISDIR, "invalid_argument" },
	{ ELOOP, "invalid_argument" },
	{ ENOENT, "not_found" },
	{ ESRCH, "not_found" },
	{ ERR_ENDED, "not_found" },
	{ EEXIST, "already_exists" },
	{ EACCES, "permission_denied" },
	{ EPERM, "permission_denied" },
	{ EROFS, "permission_denied" },
	{ EBUSY, "failed_precondition" },
	{ ENOTEMPTY, "failed_precondition" },
	{ EMFILE, "resource_exhausted" },
	{ ENFILE, "resource_exhausted" },
	{ EDQUOT, "resource_exhausted" },
	{ EUSERS, "resource_exhausted" },
	{ ENOSPC, "resource_exhausted" },
	{ ERR_PROJECT_FULL, "resource_exhausted" },
	{ ERR_HOST_FULL, "resource_exhausted" },
	/* "unavailable" would be read as: the sandbox is gone. */
	{ EAGAIN, "resource_exhausted" },
	{ ENOMEM, "resource_exhausted" },
	{ ENOTSUP, "unimplemented" },
	{ ENOSYS, "unimplemented" },
	{ ENOTCONN, "unavailable" },
	{ LOG_AWAY, "unavailable" },
	{ WARDEN_AWAY, "unavailable" },
	{ GATE_AWAY, "unavailable" },
	{ ETIMEDOUT, "deadline_exceeded" },
};

const char *connect_code(int code)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].code == code)
			return codes[i].word;
	return "internal";
}

static int status_of(const char *word)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].status;
	return 500;
}

static json_t *error_object(const char *word, const char *msg)
{
	return json_pack("{s:s, s:o}", "code", word, "message",
			 json_lossy(msg, strlen(msg)));
}

/* --- unary --- */

void connect_reply(struct api *a, struct http_conn *c, json_t *answer)
{
	reply_json(a, c, 200, answer);
}

void connect_fail(struct api *a, struct http_conn *c, int code, const char *msg)
{
	connect_fail_as(a, c, connect_code(code), msg);
}

void connect_fail_as(struct api *a, struct http_conn *c, const char *word,
		     const char *msg)
{
	reply_json(a, c, status_of(word), error_object(word, msg));
}

/* --- messages --- */

json_t *connect_parse(bool envelope, const char *body, size_t n, struct err *e)
{
	uint32_t length;

	if (!envelope)
		return parse_body(body, n, e);
	if (n < ENVELOPE_HEAD) {
		err_set(e, EINVAL, "the request is no whole envelope");
		return NULL;
	}
	memcpy(&length, body + 1, sizeof(length));
	if (body[0] & ENVELOPE_COMPRESSED) {
		err_set(e, ENOTSUP, "compressed messages are not taken");
		return NULL;
	}
	if (body[0] != 0 || ntohl(length) != n - ENVELOPE_HEAD) {
		err_set(e, EINVAL, "the request is not one envelope");
		return NULL;
	}
	return parse_body(body + ENVELOPE_HEAD, n - ENVELOPE_HEAD, e);
}

/* Is it of this type, whatever parameters (charset) it names? */
static bool is_type(const char *value, const char *type)
{
	size_t n = strlen(type);

	return strncasecmp(value, type, n) == 0 &&
	       (value[n] == '\0' || value[n] == ';' || value[n] == ' ');
}

json_t *connect_message(struct http_conn *c, const char *body, size_t n,
			struct err *e)
{
	const char *type = http_header(http_request(c), "content-type");

	if (type && is_type(type, stream_type))
		return connect_parse(true, body, n, e);
	if (type && is_type(type, unary_type))
		return connect_parse(false, body, n, e);
	err_set(e, EINVAL, "the content type is neither %s nor %s", unary_type,
		stream_type);
	return NULL;
}

/* --- streams --- */

static uint64_t keepalive_ms(struct http_conn *c)
{
	const char *text =
		http_header(http_request(c), "keepalive-ping-interval");
	uint64_t s;

	if (!text || parse_u64(text, KEEPALIVE_MAX_S, &s) < 0 || s == 0)
		s = KEEPALIVE_S;
	return s * 1000;
}

/* Set anew only when it fires: messages are many, silence is rare. */
static void on_quiet(struct timer *t)
{
	struct connect_stream *s =
		container_of(t, struct connect_stream, quiet);
	uint64_t past = clock_boot_ms() - s->sent_ms;

	if (past >= s->keepalive_ms) {
		connect_send(s, s->keepalive, strlen(s->keepalive));
		past = 0;
	}
	timer_set(&s->api->loop, t, s->keepalive_ms - past, on_quiet);
}

static void start_answer(struct api *a, struct http_conn *c,
			 void (*ready)(struct http_conn *c, void *owner))
{
	static const struct http_field fields[] = {
		{ "Content-Type", stream_type },
		{ "Cache-Control", "no-store" },
		{ NULL, NULL },
	};

	a->metrics.requests[2]++;
	http_reply_start(c, 200, fields, ready);
}

void connect_start(struct connect_stream *s, struct api *a, struct http_conn *c,
		   const char *keepalive,
		   void (*ready)(struct http_conn *c, void *owner))
{
	s->api = a;
	s->conn = c;
	s->sent_ms = clock_boot_ms();
	s->keepalive_ms = keepalive_ms(c);
	s->keepalive = keepalive;
	start_answer(a, c, ready);
	timer_set(&a->loop, &s->quiet, s->keepalive_ms, on_quiet);
}

static void envelope_begin(struct buf *b)
{
	buf_clear(b);
	buf_add(b, "\0\0\0\0", ENVELOPE_HEAD);
}

static void envelope_close(struct buf *b, char flags)
{
	uint32_t length = htonl((uint32_t)(buf_len(b) - ENVELOPE_HEAD));
	char *head = buf_data(b);

	head[0] = flags;
	memcpy(head + 1, &length, sizeof(length));
}

static void add_end(struct buf *b, const char *word, const char *msg)
{
	json_t *end =
		word ? json_pack("{s:o}", "error", error_object(word, msg))
		     : json_object();

	envelope_begin(b);
	json_add(b, end);
	json_decref(end);
	envelope_close(b, ENVELOPE_END);
}

struct buf *connect_begin(struct connect_stream *s)
{
	envelope_begin(&s->line);
	return &s->line;
}

bool connect_commit(struct connect_stream *s)
{
	envelope_close(&s->line, 0);
	s->sent_ms = clock_boot_ms();
	return http_reply_data(s->conn, buf_data(&s->line), buf_len(&s->line));
}

bool connect_send(struct connect_stream *s, const char *json, size_t n)
{
	buf_add(connect_begin(s), json, n);
	return connect_commit(s);
}

bool connect_send_json(struct connect_stream *s, json_t *message)
{
	json_add(connect_begin(s), message);
	json_decref(message);
	return connect_commit(s);
}

void connect_end(struct connect_stream *s, const char *word, const char *msg)
{
	struct http_conn *c = s->conn;

	if (!c)
		return;
	add_end(&s->line, word, msg);
	http_reply_data(c, buf_data(&s->line), buf_len(&s->line));
	connect_gone(s);
	http_reply_end(c);
}

void connect_gone(struct connect_stream *s)
{
	if (!s->conn)
		return;
	s->conn = NULL;
	buf_done(&s->line);
	timer_del(&s->api->loop, &s->quiet);
}

void connect_refuse(struct api *a, struct http_conn *c, const char *word,
		    const char *msg)
{
	AUTO(buf_done) struct buf b = { 0 };

	start_answer(a, c, NULL);
	add_end(&b, word, msg);
	http_reply_data(c, buf_data(&b), buf_len(&b));
	http_reply_end(c);
}
