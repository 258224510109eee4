/*
 * The blocking client. Writes use MSG_NOSIGNAL: a server that refuses a large
 * body answers and closes while we are still sending, and what the user wants
 * to see then is that answer, not a broken pipe.
 */
#include "http/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"

enum { PIECE = 64 * 1024 };

int http_client_open(struct http_client *c, const char *socket_path,
		     struct err *e)
{
	int fd = unix_connect(socket_path, SOCK_STREAM);

	if (fd < 0)
		return err_set(e, -fd, "connect to %s: %s", socket_path,
			       strerror(-fd));
	http_client_attach(c, fd);
	return 0;
}

void http_client_attach(struct http_client *c, int fd)
{
	*c = (struct http_client){ .fd = fd, .body_done = true };
}

int http_client_timeout(struct http_client *c, uint64_t ms, struct err *e)
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000),
			      .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

	c->timeout_ms = ms;
	if (setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0 ||
	    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0)
		return err_sys(e, "set the timeout of a connection");
	return 0;
}

void http_client_done(struct http_client *c)
{
	auto_close(&c->fd);
	buf_done(&c->in);
	http_head_done(&c->head);
}

static bool target_ok(const char *s)
{
	if (*s != '/')
		return false;
	for (; *s; s++)
		if ((unsigned char)*s <= 0x20 || (unsigned char)*s >= 0x7f)
			return false;
	return true;
}

static int check_call(const struct http_client *c, const struct http_call *call,
		      struct err *e)
{
	const struct http_field *f;

	if (!http_is_token(call->method) ||
	    strlen(call->method) > HTTP_METHOD_MAX)
		return err_set(e, EINVAL, "bad HTTP method \"%s\"",
			       call->method);
	if (!target_ok(call->target))
		return err_set(e, EINVAL, "bad request target \"%s\"",
			       call->target);
	for (f = call->fields; f && f->name; f++)
		if (!http_is_token(f->name) || !http_is_value(f->value))
			return err_set(e, EINVAL, "bad value of header %s",
				       f->name);
	if (c->fd < 0 || c->closing)
		return err_set(e, ENOTCONN, "the connection has ended");
	if (!c->body_done)
		return err_set(e, EBUSY, "the last answer was not read");
	return 0;
}

/* The head of a call; `framing` says what follows it. */
static int make_head(struct http_client *c, const struct http_call *call,
		     const char *framing, struct buf *b, struct err *e)
{
	const struct http_field *f;
	int r = check_call(c, call, e);

	if (r < 0)
		return r;
	memcpy(c->method, call->method, strlen(call->method) + 1);
	buf_printf(b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", call->method,
		   call->target);
	for (f = call->fields; f && f->name; f++)
		buf_printf(b, "%s: %s\r\n", f->name, f->value);
	if (call->upgrade)
		buf_printf(b, "Connection: Upgrade\r\nUpgrade: %s\r\n",
			   call->upgrade);
	buf_puts(b, framing);
	buf_puts(b, "\r\n");
	c->body_done = false;
	return 0;
}

static void advance(struct iovec *v, size_t count, size_t n)
{
	size_t i;

	for (i = 0; i < count; i++) {
		size_t part = v[i].iov_len < n ? v[i].iov_len : n;

		if (part == 0)
			continue;
		v[i].iov_base = (char *)v[i].iov_base + part;
		v[i].iov_len -= part;
		n -= part;
	}
}

static size_t iov_left(const struct iovec *v, size_t count)
{
	size_t i, n = 0;

	for (i = 0; i < count; i++)
		n += v[i].iov_len;
	return n;
}

/* The server stopped listening; perhaps it said why before. */
static bool is_hangup(int code)
{
	return code == EPIPE || code == ECONNRESET;
}

int http_send(struct http_client *c, const struct http_call *call,
	      struct err *e)
{
	AUTO(buf_done) struct buf head = { 0 };
	char framing[48] = "";
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = ARRAY_LEN(v) };
	int r;

	if (call->body || strcmp(call->method, "POST") == 0 ||
	    strcmp(call->method, "PUT") == 0)
		snprintf(framing, sizeof(framing), "Content-Length: %zu\r\n",
			 call->body_n);
	r = make_head(c, call, framing, &head, e);
	if (r < 0)
		return r;
	v[0] = (struct iovec){ buf_data(&head), buf_len(&head) };
	v[1] = (struct iovec){ (void *)call->body, call->body_n };
	v[2] = (struct iovec){ (void *)call->first, call->first_n };
	while (iov_left(v, ARRAY_LEN(v)) > 0) {
		ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL);

		if (n < 0 && is_hangup(errno)) {
			c->closing = true;
			return 0;
		}
		if (n < 0 && errno != EINTR)
			return err_sys(e, "send to the server");
		if (n > 0)
			advance(v, ARRAY_LEN(v), (size_t)n);
	}
	/* Refused, these bytes would be taken for another request. */
	if (call->first_n > 0)
		c->closing = true;
	return 0;
}

/*
 * Waits until the server can take bytes, or, with `src_fd` >= 0, until there
 * is something to read from it. 1 when the server has something to say first.
 */
static int wait_turn(struct http_client *c, int src_fd, struct err *e)
{
	struct pollfd p[2] = {
		{ .fd = c->fd, .events = POLLIN },
		{ .fd = src_fd, .events = POLLIN },
	};
	int timeout = -1, r;

	if (src_fd < 0) {
		p[0].events |= POLLOUT;
		if (c->timeout_ms > 0 && c->timeout_ms < INT32_MAX)
			timeout = (int)c->timeout_ms;
	}
	do
		r = poll(p, 2, timeout);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_sys(e, "wait for the server");
	if (r == 0)
		return err_set(e, ETIMEDOUT, "the server takes no data");
	if (p[1].revents & POLLNVAL)
		return err_set(e, EBADF, "read the body to send");
	return (p[0].revents & ~POLLOUT) != 0;
}

/* Sends all of `b`. 1 when the server answered meanwhile. */
static int push(struct http_client *c, struct buf *b, struct err *e)
{
	while (buf_len(b) > 0) {
		ssize_t n;
		int r = wait_turn(c, -1, e);

		if (r != 0)
			return r;
		n = send(c->fd, buf_data(b), buf_len(b),
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			buf_eat(b, (size_t)n);
		else if (n < 0 && is_hangup(errno))
			return 1;
		else if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_sys(e, "send to the server");
	}
	return 0;
}

/* Reads a piece of the body into `b` as a chunk: its size, 0 at the end. */
static ssize_t next_piece(const struct http_call *call, int body_fd,
			  char *piece, struct buf *b, struct err *e)
{
	ssize_t n;
	int r = 0;

	do
		n = read(body_fd, piece, PIECE);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "read the body to send");
	if (n > 0) {
		http_chunk_add(b, piece, (size_t)n);
		return n;
	}
	if (call->at_end)
		r = call->at_end(call->ctx, e);
	if (r == 0)
		buf_puts(b, HTTP_LAST_CHUNK);
	return r;
}

static int send_pieces(struct http_client *c, const struct http_call *call,
		       int body_fd, struct buf *b, struct err *e)
{
	AUTO_FREE char *piece = xcalloc(1, PIECE);
	uint64_t total = 0;
	ssize_t n;
	int r;

	do {
		r = wait_turn(c, body_fd, e);
		if (r != 0)
			return r;
		n = next_piece(call, body_fd, piece, b, e);
		if (n < 0)
			return (int)n;
		r = push(c, b, e);
		if (r != 0)
			return r;
		total += (uint64_t)n;
		if (call->progress)
			call->progress(total, call->ctx);
	} while (n > 0);
	return 0;
}

int http_send_fd(struct http_client *c, const struct http_call *call,
		 int body_fd, struct err *e)
{
	AUTO(buf_done) struct buf b = { 0 };
	int r = make_head(c, call, "Transfer-Encoding: chunked\r\n", &b, e);

	if (r == 0) /* the head leaves with the first piece */
		r = send_pieces(c, call, body_fd, &b, e);
	if (r != 0)
		c->closing = true;
	return r;
}

/* Reads more into `in`: the count, 0 at the end. */
static ssize_t fetch(struct http_client *c, size_t max, struct err *e)
{
	ssize_t n = buf_read(&c->in, c->fd, max);

	if (n == -EAGAIN)
		return err_set(e, ETIMEDOUT, "the server does not answer");
	if (n == -ECONNRESET)
		return 0;
	if (n < 0)
		return err_set(e, (int)-n, "read from the server: %s",
			       strerror((int)-n));
	return n;
}

static int recv_one_head(struct http_client *c, struct err *e)
{
	struct http_scan scan = { 0 };
	const char *why = "";
	int n;

	while ((n = http_scan_head(&scan, buf_data(&c->in), buf_len(&c->in),
				   &why)) == 0) {
		ssize_t got = fetch(c, HTTP_HEAD_MAX + 1 - buf_len(&c->in), e);

		if (got < 0)
			return (int)got;
		if (got == 0)
			return err_set(e, ECONNRESET,
				       "the server ended the connection "
				       "without an answer");
	}
	if (n < 0 || http_parse_response(&c->head, buf_data(&c->in), (size_t)n,
					 c->method, &why) < 0)
		return err_set(e, EBADMSG, "bad answer of the server: %s", why);
	buf_eat(&c->in, (size_t)n);
	return c->head.status;
}

int http_recv_head(struct http_client *c, struct err *e)
{
	int status, interim = 0;

	do {
		status = recv_one_head(c, e);
		if (status < 0)
			return status;
		if (interim++ > 8)
			return err_set(e, EBADMSG, "the server keeps saying %d",
				       status);
	} while (status < 200 && status != 101);
	c->body_done = c->head.body == HTTP_NO_BODY;
	c->left = c->head.length;
	c->chunked = (struct http_chunked){ 0 };
	if (!c->head.keep_alive)
		c->closing = true;
	return status;
}

/* The next content at the front of `in`: 0 at the end of the body. */
static ssize_t next_content(struct http_client *c, struct err *e)
{
	size_t used, n = 0;
	int r;

	while (!c->body_done && n == 0) {
		ssize_t got = 1;

		if (buf_len(&c->in) == 0)
			got = fetch(c, PIECE, e);
		if (got < 0)
			return got;
		if (got == 0 && c->head.body != HTTP_UNTIL_CLOSE)
			return err_set(e, ECONNRESET,
				       "the server cut its answer short");
		n = buf_len(&c->in);
		if (c->head.body == HTTP_UNTIL_CLOSE) {
			c->body_done = n == 0;
		} else if (c->head.body == HTTP_LENGTH) {
			n = n < c->left ? n : (size_t)c->left;
			c->left -= n;
			c->body_done = c->left == 0;
		} else {
			r = http_chunked_next(&c->chunked, buf_data(&c->in), n,
					      &used, &n);
			if (r < 0)
				return err_set(e, EBADMSG,
					       "bad chunked answer "
					       "of the server");
			buf_eat(&c->in, used - n);
			c->body_done = r == HTTP_CHUNK_END;
		}
	}
	return (ssize_t)n;
}

int http_recv_stream(struct http_client *c,
		     int (*fn)(const char *p, size_t n, void *ctx,
			       struct err *e),
		     void *ctx, struct err *e)
{
	ssize_t n;

	while ((n = next_content(c, e)) > 0) {
		int r = fn(buf_data(&c->in), (size_t)n, ctx, e);

		if (r < 0)
			return r;
		buf_eat(&c->in, (size_t)n);
	}
	return (int)n;
}

struct collect {
	struct buf *out;
	size_t max;
};

static int collect(const char *p, size_t n, void *ctx, struct err *e)
{
	struct collect *to = ctx;

	if (n > to->max)
		return err_set(e, EMSGSIZE, "the answer is too large");
	to->max -= n;
	buf_add(to->out, p, n);
	return 0;
}

int http_recv_body(struct http_client *c, size_t max, struct buf *out,
		   struct err *e)
{
	struct collect to = { out, max };

	return http_recv_stream(c, collect, &to, e);
}

int http_do(struct http_client *c, const struct http_call *call, size_t max,
	    struct buf *out, struct err *e)
{
	int status, r = http_send(c, call, e);

	if (r < 0)
		return r;
	status = http_recv_head(c, e);
	if (status < 0)
		return status;
	r = http_recv_body(c, max, out, e);
	return r < 0 ? r : status;
}

int http_client_upgrade(struct http_client *c, const struct http_call *call,
			int *fd, struct buf *leftover, struct err *e)
{
	int status, r = http_send(c, call, e);

	if (r < 0)
		return r;
	status = http_recv_head(c, e);
	if (status != 101)
		return status;
	if (!http_wants_upgrade(&c->head, call->upgrade))
		return err_set(e, EBADMSG,
			       "the server changed to another protocol than %s",
			       call->upgrade);
	buf_add(leftover, buf_data(&c->in), buf_len(&c->in));
	buf_clear(&c->in);
	*fd = take_fd(&c->fd);
	return status;
}
