/*
 * The reading half of a connection: heads, bodies, and what is refused.
 *
 * Memory: `in` holds at most one read more than a head; body bytes are read
 * only when all earlier ones were taken, so a consumer that pauses stops the
 * client through the kernel's socket buffer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "http/conn.h"

enum { LINGER_MAX = 4 * 1024 * 1024 };

const struct http_head *http_request(const struct http_conn *c)
{
	return &c->head;
}

const char *http_request_id(const struct http_conn *c)
{
	return c->id;
}

const void *http_guest(const struct http_conn *c)
{
	return c->guest;
}

void *http_note(struct http_conn *c)
{
	return c->note;
}

void http_also(struct http_conn *c, const struct http_field *fields)
{
	c->also = fields;
}

struct http_server *http_conn_server(const struct http_conn *c)
{
	return c->server;
}

int http_peer(struct http_conn *c, struct ucred *peer)
{
	socklen_t n = sizeof(*peer);

	if (!c->server->is_unix)
		return -EOPNOTSUPP;
	if (getsockopt(c->stream.io.fd, SOL_SOCKET, SO_PEERCRED, peer, &n) < 0)
		return -errno;
	return 0;
}

bool http_is_local(const struct http_conn *c)
{
	return c->server->is_unix;
}

bool http_is_tls(const struct http_conn *c)
{
	return http_stream_is_tls(&c->stream);
}

void http_peer_text(const struct http_conn *c, char out[HTTP_PEER_TEXT])
{
	const struct in6_addr *a = &c->peer;

	*out = '\0';
	if (c->server->is_unix)
		return;
	if (IN6_IS_ADDR_V4MAPPED(a))
		inet_ntop(AF_INET, &a->s6_addr[12], out, HTTP_PEER_TEXT);
	else
		inet_ntop(AF_INET6, a, out, HTTP_PEER_TEXT);
}

void http_own(struct http_conn *c, void *owner,
	      void (*on_gone)(struct http_conn *c, void *owner))
{
	c->owner = owner;
	c->on_gone = on_gone;
}

void *http_owner(const struct http_conn *c)
{
	return c->owner;
}

void http_read_body(struct http_conn *c, size_t max,
		    void (*done)(struct http_conn *c, char *body, size_t n,
				 void *owner))
{
	c->body = BODY_WHOLE;
	c->whole_max = max;
	c->on_whole = done;
	conn_kick(c);
}

void http_stream_body(struct http_conn *c,
		      size_t (*data)(struct http_conn *c, const char *p,
				     size_t n, void *owner),
		      void (*end)(struct http_conn *c, void *owner))
{
	c->body = BODY_STREAM;
	c->on_data = data;
	c->on_end = end;
	conn_kick(c);
}

void http_slow_body(struct http_conn *c)
{
	c->patient = true;
}

void http_resume_body(struct http_conn *c)
{
	c->paused = false;
	conn_kick(c);
}

void conn_refuse(struct http_conn *c, int status, const char *word,
		 const char *why)
{
	void *owner = c->owner;
	http_gone_fn *on_gone = c->on_gone;

	http_own(c, NULL, NULL);
	if (c->state == CONN_HEAD)
		conn_make_id(c);
	c->close_after = c->linger = true;
	if (c->answering)
		c->broken = true; /* too late for another status */
	else
		http_error(c, status, word, "%s", why);
	if (on_gone)
		on_gone(c, owner);
}

static const char *head_word(int status)
{
	switch (status) {
	case 417:
		return "expectation_failed";
	case 414:
	case 431:
		return "head_too_large";
	case 501:
		return "not_implemented";
	case 505:
		return "http_version";
	default:
		return "bad_request";
	}
}

static void start_request(struct http_conn *c)
{
	c->state = CONN_REQUEST;
	crowd_busy(c);
	conn_make_id(c);
	c->body = c->head.body == HTTP_NO_BODY ? BODY_DONE : BODY_UNCLAIMED;
	c->paused = c->answering = c->stopped = c->draining = c->linger = false;
	c->continue_due = c->head.expect_continue;
	c->close_after = !c->head.keep_alive;
	c->left = c->head.length;
	c->span = 0;
	c->patient = c->guest;
	c->body_got = c->body_wait_ms = c->body_since = 0;
	c->chunked = (struct http_chunked){ 0 };
	timer_del(c->server->loop, &c->read_timer);
	c->asked = true;
	memset(c->note, 0, sizeof(c->note));
	c->also = NULL;
	c->server->on_request(c, c->server->ctx);
}

bool conn_head_step(struct http_conn *c)
{
	const char *why = "";
	int n, r;

	/* One request at a time: the answer before has left by now. */
	n = http_scan_head(&c->scan, buf_data(&c->in), buf_len(&c->in), &why);
	if (n == 0)
		return false;
	r = n;
	if (n > 0)
		r = http_parse_request(&c->head, buf_data(&c->in), (size_t)n,
				       &why);
	if (r < 0) {
		conn_refuse(c, -r, head_word(-r), why);
		return true;
	}
	buf_eat(&c->in, (size_t)n);
	start_request(c);
	return true;
}

/* Finds the next content at the front of `in`. -EBADMSG, 1 at the end, or 0. */
static int next_span(struct http_conn *c)
{
	size_t used;
	int r;

	if (c->head.body != HTTP_CHUNKED) {
		if (c->left == 0)
			return 1;
		c->span = buf_len(&c->in) < c->left ? buf_len(&c->in)
						    : (size_t)c->left;
		c->left -= c->span;
		return 0;
	}
	r = http_chunked_next(&c->chunked, buf_data(&c->in), buf_len(&c->in),
			      &used, &c->span);
	if (r < 0)
		return r;
	buf_eat(&c->in, used - c->span);
	return r == HTTP_CHUNK_END;
}

static bool body_end(struct http_conn *c)
{
	enum body_mode mode = c->body;

	c->body = BODY_DONE;
	if (mode == BODY_WHOLE)
		c->on_whole(c, buf_str(&c->whole), buf_len(&c->whole),
			    c->owner);
	else
		c->on_end(c, c->owner);
	return true;
}

static bool take_span(struct http_conn *c)
{
	size_t n = c->span;

	if (c->body == BODY_WHOLE) {
		if (n > c->whole_max - buf_len(&c->whole)) {
			conn_refuse(c, 413, "too_large",
				    "the body is too large");
			return true;
		}
		buf_add(&c->whole, buf_data(&c->in), n);
	} else {
		n = c->on_data(c, buf_data(&c->in), n, c->owner);
		if (c->state != CONN_REQUEST)
			return true; /* it answered */
		if (n < c->span)
			c->paused = true;
		else
			n = c->span;
	}
	buf_eat(&c->in, n);
	c->span -= n;
	return !c->paused;
}

bool conn_body_step(struct http_conn *c)
{
	int r = 0;

	/* A body of length 0 that was asked for ends here, too. */
	if ((c->body != BODY_WHOLE && c->body != BODY_STREAM) || c->paused)
		return false;
	if (c->body == BODY_WHOLE && c->head.length > c->whole_max) {
		conn_refuse(c, 413, "too_large", "the body is too large");
		return true;
	}
	if (c->continue_due && buf_len(&c->in) == 0 && !c->answering)
		buf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
	c->continue_due = false;
	if (c->span == 0)
		r = next_span(c);
	if (r < 0) {
		conn_refuse(c, 400, "bad_request", "malformed chunked body");
		return true;
	}
	if (r > 0)
		return body_end(c);
	return c->span > 0 && take_span(c);
}

bool conn_wants_read(const struct http_conn *c)
{
	switch (c->state) {
	case CONN_HEAD:
	case CONN_LINGER:
		return true;
	case CONN_REQUEST:
		return (c->body == BODY_WHOLE || c->body == BODY_STREAM) &&
		       !c->paused && buf_len(&c->in) == 0;
	case CONN_FLUSH:
	case CONN_CLOSED:
		break;
	}
	return false;
}

static void drop_input(struct http_conn *c)
{
	char waste[16 * 1024];
	ssize_t n = http_stream_read(&c->stream, waste, sizeof(waste));

	if (n > 0)
		c->lingered += (uint64_t)n;
	if (n == 0 || (n < 0 && n != -EAGAIN) || c->lingered > LINGER_MAX)
		c->broken = true;
}

void conn_read(struct http_conn *c)
{
	/* A head that is incomplete and not refused is not longer than that. */
	size_t max = HTTP_HEAD_MAX + 1 - buf_len(&c->in);
	ssize_t n;

	if (c->state == CONN_LINGER) {
		drop_input(c);
		return;
	}
	if (c->state == CONN_REQUEST)
		max = HTTP_READ_MAX;
	n = http_stream_fill(&c->stream, &c->in, max);
	if (n > 0 && c->state == CONN_REQUEST)
		c->body_got += (uint64_t)n;
	if (n > 0 || n == -EAGAIN)
		return;
	if (n == 0 && c->state == CONN_REQUEST)
		conn_refuse(c, 400, "bad_request", "the body ended too early");
	else
		c->broken = true;
}
