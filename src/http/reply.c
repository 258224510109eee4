/*
 * The writing half of a connection. An answer is put together in one buffer
 * and leaves in one send(); output is watched only when that did not fit.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "http/conn.h"
#include "http/target.h"

enum { FLUSH_AT = 64 * 1024 }; /* streamed: not worth waiting for more */

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{ 101, "Switching Protocols" },
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 204, "No Content" },
	{ 206, "Partial Content" },
	{ 301, "Moved Permanently" },
	{ 302, "Found" },
	{ 303, "See Other" },
	{ 304, "Not Modified" },
	{ 307, "Temporary Redirect" },
	{ 308, "Permanent Redirect" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 410, "Gone" },
	{ 411, "Length Required" },
	{ 412, "Precondition Failed" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 421, "Misdirected Request" },
	{ 422, "Unprocessable Content" },
	{ 426, "Upgrade Required" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
	{ 507, "Insufficient Storage" },
};

static const char *reason_of(int status)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "";
}

static void on_write_timeout(struct timer *t)
{
	struct http_conn *c = container_of(t, struct http_conn, write_timer);

	c->broken = true;
	conn_drive(c);
}

/*
 * Sends what is queued. Failure only marks the connection: this is called
 * from inside owners' calls, and on_gone() must not come from there.
 */
void conn_flush(struct http_conn *c)
{
	struct loop *l = c->server->loop;
	bool moved = false;

	if (c->blocked || c->state == CONN_CLOSED)
		return;
	while (buf_len(&c->out) > 0 && !c->broken) {
		ssize_t n = http_stream_drain(&c->stream, &c->out);

		if (n == -EAGAIN) {
			c->blocked = true;
			conn_watch(c, EPOLLOUT, 0);
			if (moved || c->write_timer.slot == 0)
				timer_set(l, &c->write_timer,
					  c->server->write_ms,
					  on_write_timeout);
			return;
		}
		if (n < 0) {
			c->broken = true;
			conn_kick(c);
			return;
		}
		moved = true;
	}
	timer_del(l, &c->write_timer);
	conn_watch(c, 0, EPOLLOUT);
}

static void add_field(struct buf *b, const char *name, const char *value)
{
	buf_puts(b, name);
	buf_puts(b, ": ");
	for (; *value; value++) {
		unsigned char v = (unsigned char)*value;

		buf_add(b, (v < 0x20 && v != '\t') || v == 0x7f ? "?" : value,
			1);
	}
	buf_puts(b, "\r\n");
}

void conn_answered(struct http_conn *c, int status)
{
	if (!c->asked)
		return;
	c->asked = false;
	if (c->server->on_answer)
		c->server->on_answer(c, status, c->server->ctx);
}

/* The head up to, not including, its last line. */
static void add_head(struct http_conn *c, struct buf *b, int status,
		     const struct http_field *extra)
{
	const struct http_field *also = c->also;

	conn_answered(c, status);
	buf_printf(b, "HTTP/1.1 %d %s\r\nDate: %s\r\nRequest-Id: %s\r\n",
		   status, reason_of(status), server_date(c->server), c->id);
	for (; extra && extra->name; extra++)
		add_field(b, extra->name, extra->value);
	for (; also && also->name; also++)
		add_field(b, also->name, also->value);
}

/*
 * Body bytes that nobody wants: what is already here is dropped, what is
 * still to come costs the connection.
 */
static void settle_body(struct http_conn *c)
{
	if (c->body == BODY_DONE || c->state != CONN_REQUEST)
		return;
	if (c->head.body != HTTP_CHUNKED &&
	    c->left <= buf_len(&c->in) - c->span) {
		buf_eat(&c->in, c->span + (size_t)c->left);
		c->body = BODY_DONE;
		return;
	}
	c->close_after = c->linger = true;
}

/* The answer is queued whole: the request is no longer its owner's. */
static void answer_done(struct http_conn *c)
{
	http_own(c, NULL, NULL);
	c->state = CONN_FLUSH;
	c->answering = false;
	timer_del(c->server->loop, &c->read_timer);
	conn_flush(c);
	conn_kick(c);
}

static bool is_head(const struct http_conn *c)
{
	return c->head.method && strcmp(c->head.method, "HEAD") == 0;
}

static bool has_no_content(int status)
{
	return status == 204 || status == 304;
}

void http_reply(struct http_conn *c, int status, const struct http_field *extra,
		const void *body, size_t n)
{
	bool empty = has_no_content(status);

	settle_body(c);
	add_head(c, &c->out, status, extra);
	if (!empty)
		buf_printf(&c->out, "Content-Length: %zu\r\n", n);
	if (c->close_after)
		buf_puts(&c->out, "Connection: close\r\n");
	buf_puts(&c->out, "\r\n");
	if (!empty && !is_head(c))
		buf_add(&c->out, body, n);
	answer_done(c);
}

void http_reply_json(struct http_conn *c, int status, const char *json,
		     size_t n)
{
	static const struct http_field type[] = {
		{ "Content-Type", "application/json" }, { NULL, NULL }
	};

	http_reply(c, status, type, json, n);
}

/* A JSON string; what is not UTF-8 becomes '?'. */
static void add_json_string(struct buf *b, const char *s)
{
	buf_puts(b, "\"");
	while (*s) {
		unsigned char v = (unsigned char)*s;
		size_t n = 1;

		if (v >= 0x80) {
			n = v >= 0xf0 ? 4 : v >= 0xe0 ? 3 : 2;
			if (strnlen(s, n) < n || !http_is_utf8(s, n))
				n = 0;
		}
		if (n == 0)
			buf_puts(b, "?");
		else if (v < 0x20 || v == 0x7f)
			buf_printf(b, "\\u%04x", v);
		else if (v == '"' || v == '\\')
			buf_printf(b, "\\%c", v);
		else
			buf_add(b, s, n);
		s += n ? n : 1;
	}
	buf_puts(b, "\"");
}

void http_error(struct http_conn *c, int status, const char *word,
		const char *fmt, ...)
{
	/* RFC 9110, 11.6.1: a 401 says how to do better. */
	static const struct http_field ask_for_key[] = {
		{ "Content-Type", "application/json" },
		{ "WWW-Authenticate", "Bearer" },
		{ 0 }
	};
	AUTO(buf_done) struct buf json = { 0 };
	char message[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	buf_printf(&json, "{\"code\": %d, \"error\": ", status);
	add_json_string(&json, word);
	buf_puts(&json, ", \"message\": ");
	add_json_string(&json, message);
	buf_printf(&json, ", \"request_id\": \"%s\"}\n", c->id);
	if (status == 401)
		http_reply(c, status, ask_for_key, buf_data(&json),
			   buf_len(&json));
	else
		http_reply_json(c, status, buf_data(&json), buf_len(&json));
}

static void start_answer(struct http_conn *c, int status,
			 const struct http_field *extra, http_end_fn *ready)
{
	c->answering = true;
	c->on_ready = ready;
	c->no_content = is_head(c) || has_no_content(status);
	c->continue_due = false;
	add_head(c, &c->out, status, extra);
	if (c->sized && !has_no_content(status))
		buf_printf(&c->out, "Content-Length: %llu\r\n",
			   (unsigned long long)c->owed);
	else if (!c->raw_content && !has_no_content(status))
		buf_puts(&c->out, "Transfer-Encoding: chunked\r\n");
	if (c->close_after)
		buf_puts(&c->out, "Connection: close\r\n");
	buf_puts(&c->out, "\r\n");
	conn_kick(c);
}

void http_reply_start(struct http_conn *c, int status,
		      const struct http_field *extra,
		      void (*ready)(struct http_conn *c, void *owner))
{
	c->sized = false;
	c->raw_content = c->head.minor == 0;
	start_answer(c, status, extra, ready);
}

void http_reply_start_sized(struct http_conn *c, int status,
			    const struct http_field *extra, uint64_t length,
			    void (*ready)(struct http_conn *c, void *owner))
{
	c->sized = c->raw_content = true;
	c->owed = length;
	start_answer(c, status, extra, ready);
}

bool http_reply_data(struct http_conn *c, const void *p, size_t n)
{
	if (c->broken)
		return false; /* on_gone() is on its way */
	if (c->no_content)
		return true;
	if (c->sized) {
		assert(n <= c->owed);
		c->owed -= n;
	}
	if (c->raw_content)
		buf_add(&c->out, p, n);
	else
		http_chunk_add(&c->out, p, n);
	if (buf_len(&c->out) >= FLUSH_AT)
		conn_flush(c);
	conn_kick(c);
	if (c->on_ready && !c->draining)
		c->stopped = buf_len(&c->out) >= HTTP_OUT_HIGH;
	return buf_len(&c->out) < HTTP_OUT_HIGH;
}

bool http_is_full(const struct http_conn *c)
{
	return buf_len(&c->out) >= HTTP_OUT_HIGH;
}

void http_reply_drain(struct http_conn *c)
{
	c->stopped = c->draining = c->on_ready != NULL;
	conn_kick(c);
}

void http_reply_cut(struct http_conn *c)
{
	http_own(c, NULL, NULL);
	c->broken = true;
	conn_kick(c);
}

void http_reply_end(struct http_conn *c)
{
	if (c->sized && c->owed > 0 && !c->no_content) {
		http_reply_cut(c);
		return;
	}
	settle_body(c);
	if (!c->no_content && !c->raw_content)
		buf_puts(&c->out, HTTP_LAST_CHUNK);
	answer_done(c);
}

/* Sends all of `b` now or fails: an upgrade cannot wait. */
static int send_now(struct http_stream *s, struct buf *b)
{
	while (buf_len(b) > 0) {
		ssize_t n = http_stream_drain(s, b);

		if (n < 0)
			return (int)n;
	}
	return 0;
}

int http_upgrade(struct http_conn *c, const char *protocol,
		 const struct http_field *extra, struct http_stream *to,
		 struct buf *in, struct buf *out)
{
	int r = 0;

	if (c->body != BODY_DONE) {
		http_error(c, 400, "bad_request",
			   "a body is not allowed with this upgrade");
		return -EBADMSG;
	}
	add_head(c, &c->out, 101, extra);
	buf_puts(&c->out, "Connection: Upgrade\r\n");
	add_field(&c->out, "Upgrade", protocol);
	buf_puts(&c->out, "\r\n");
	http_own(c, NULL, NULL);
	if (out)
		buf_add(out, buf_data(&c->out), buf_len(&c->out));
	else
		r = send_now(&c->stream, &c->out);
	if (r < 0) {
		c->broken = true;
		conn_kick(c);
		return r;
	}
	conn_forget(c);
	http_stream_move(to, &c->stream);
	buf_add(in, buf_data(&c->in), buf_len(&c->in));
	return 0;
}
