#include "cli/mcp_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/server.h"

enum { READ_MAX = 256 * 1024 };

void wire_close(struct mcp_wire *w)
{
	if (!w->loop)
		return;
	io_close(w->loop, &w->io);
	w->loop = NULL;
	buf_done(&w->out);
	buf_done(&w->in);
	buf_done(&w->lines);
	buf_done(&w->text);
}

static void finish(struct mcp_wire *w, bool whole)
{
	wire_close(w);
	w->ops->ended(w, w->status, whole && !w->too_long);
}

/* --- the answer --- */

/* The message that was put together. */
static void deliver(struct mcp_wire *w)
{
	struct buf text = w->text;

	w->text = (struct buf){ 0 };
	if (buf_len(&text) > 0 && w->ops->message && !w->too_long)
		w->ops->message(w, buf_str(&text), buf_len(&text));
	buf_done(&text);
}

static const char *value_of(const char *line, size_t n, const char *name,
			    size_t *value_n)
{
	size_t len = strlen(name);

	if (n < len || memcmp(line, name, len) != 0)
		return NULL;
	line += len;
	n -= len;
	if (n > 0 && *line == ' ') {
		line++;
		n--;
	}
	*value_n = n;
	return line;
}

/* One line of a stream of events; an empty one ends an event. */
static void take_line(struct mcp_wire *w, const char *line, size_t n)
{
	const char *v;
	size_t len;

	if (n > 0 && line[n - 1] == '\r')
		n--;
	if (n == 0) {
		deliver(w);
		return;
	}
	v = value_of(line, n, "data:", &len);
	if (v && buf_len(&w->text) + len > WIRE_MESSAGE_MAX)
		w->too_long = true;
	else if (v)
		buf_add(&w->text, v, len);
	v = value_of(line, n, "id:", &len);
	if (v && len < sizeof(w->last_id)) {
		memcpy(w->last_id, v, len);
		w->last_id[len] = '\0';
	}
}

static void take_data(struct mcp_wire *w, const char *p, size_t n)
{
	struct buf *b = w->sse ? &w->lines : &w->text;
	char *end;

	if (buf_len(b) + n > WIRE_MESSAGE_MAX) {
		w->too_long = true;
		return;
	}
	buf_add(b, p, n);
	while (w->loop && w->sse &&
	       (end = memchr(buf_data(b), '\n', buf_len(b)))) {
		n = (size_t)(end - buf_data(b));
		take_line(w, buf_data(b), n);
		/* Its owner may have closed us. */
		if (w->loop)
			buf_eat(b, n + 1);
	}
}

static void whole(struct mcp_wire *w)
{
	if (!w->sse)
		deliver(w);
	if (w->loop)
		finish(w, true);
}

/* 1: there may be more to be had of `in`. */
static int take_content(struct mcp_wire *w)
{
	size_t used, n = buf_len(&w->in);
	int r = HTTP_CHUNK_DATA;

	if (n == 0)
		return 0;
	if (w->body == HTTP_CHUNKED) {
		r = http_chunked_next(&w->chunked, buf_data(&w->in), n, &used,
				      &n);
		if (r < 0) {
			finish(w, false);
			return 0;
		}
		buf_eat(&w->in, used - n);
	} else if (w->body == HTTP_LENGTH) {
		n = n < w->left ? n : (size_t)w->left;
		w->left -= n;
	}
	take_data(w, buf_data(&w->in), n);
	if (!w->loop)
		return 0;
	buf_eat(&w->in, n);
	if (r == HTTP_CHUNK_END || (w->body == HTTP_LENGTH && w->left == 0)) {
		whole(w);
		return 0;
	}
	return 1;
}

static void take_fields(struct mcp_wire *w, const struct http_head *h)
{
	const char *type = http_header(h, "Content-Type");
	const char *session = http_header(h, "Mcp-Session-Id");

	w->sse = type && str_starts(type, "text/event-stream");
	if (!session || str_copy(w->session, sizeof(w->session), session) < 0)
		*w->session = '\0';
}

static int take_head(struct mcp_wire *w)
{
	AUTO(http_head_done) struct http_head h = { 0 };
	const char *why = "";
	int n = http_scan_head(&w->scan, buf_data(&w->in), buf_len(&w->in),
			       &why);

	if (n == 0)
		return 0;
	if (n < 0 || http_parse_response(&h, buf_data(&w->in), (size_t)n,
					 w->method, &why) < 0) {
		finish(w, false);
		return 0;
	}
	buf_eat(&w->in, (size_t)n);
	w->scan = (struct http_scan){ 0 };
	if (h.status < 200)
		return 1;
	w->status = h.status;
	w->body = h.body;
	w->left = h.length;
	take_fields(w, &h);
	if (w->body == HTTP_NO_BODY ||
	    (w->body == HTTP_LENGTH && w->left == 0)) {
		whole(w);
		return 0;
	}
	return 1;
}

/* --- the connection --- */

static void send_some(struct mcp_wire *w)
{
	while (buf_len(&w->out) > 0) {
		ssize_t n = buf_write(&w->out, w->io.fd);

		if (n == -EAGAIN)
			return;
		if (n < 0)
			buf_clear(&w->out); /* what it says is read */
	}
	io_set(w->loop, &w->io, EPOLLIN);
}

static void on_event(struct io *io, uint32_t events)
{
	struct mcp_wire *w = container_of(io, struct mcp_wire, io);
	ssize_t n;

	if (events & EPOLLOUT)
		send_some(w);
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	n = buf_read(&w->in, io->fd, READ_MAX);
	if (n == -EAGAIN)
		return;
	if (n == 0 && w->status && w->body == HTTP_UNTIL_CLOSE) {
		whole(w);
		return;
	}
	if (n <= 0) {
		finish(w, false);
		return;
	}
	while (w->loop && (w->status ? take_content(w) : take_head(w)) == 1)
		;
}

static void put_request(struct buf *b, const struct mcp_wire_request *q)
{
	const struct http_field *f;

	buf_printf(b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", q->method,
		   q->target);
	for (f = q->fields; f->name; f++)
		buf_printf(b, "%s: %s\r\n", f->name, f->value);
	if (q->body)
		buf_printf(b,
			   "Content-Type: application/json\r\n"
			   "Content-Length: %zu\r\n",
			   q->body_n);
	buf_puts(b, "\r\n");
	if (q->body)
		buf_add(b, q->body, q->body_n);
}

int wire_start(struct mcp_wire *w, struct cli *cli, struct loop *l,
	       const struct mcp_wire_request *q, char why[MESSAGE_CAP])
{
	const struct mcp_wire_ops *ops = w->ops;
	struct http_client c = { .fd = -1 };
	int r;

	if (!server_try(cli, &c, why))
		return -ECONNREFUSED;
	*w = (struct mcp_wire){ .ops = ops, .loop = l };
	snprintf(w->method, sizeof(w->method), "%s", q->method);
	put_request(&w->out, q);
	r = fd_set_nonblock(c.fd, true);
	if (r == 0)
		r = io_add(l, &w->io, c.fd, EPOLLIN | EPOLLOUT, on_event);
	if (r == 0)
		take_fd(&c.fd);
	http_client_done(&c);
	if (r < 0) {
		w->io.fd = -1;
		wire_close(w);
		snprintf(why, MESSAGE_CAP, "%s", strerror(-r));
	}
	return r;
}
