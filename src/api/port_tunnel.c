/*
 * A tunnel reads from one end what the other can take: PORT_BUFFER bytes may
 * wait in each direction. The end of one direction is passed on when all of it
 * has left; the tunnel ends with the second, or a while after the first.
 */
#include <errno.h>
#include <stdlib.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/auto.h"
#include "http/server.h"

enum { READ_MAX = 64 * 1024, HALF_MS = 60 * 1000 };

struct end {
	struct http_stream *stream;
	struct end *other;
	struct buf out; /* for this end */
	bool eof;       /* nothing more comes from it */
	bool shut;      /* nothing more goes to it */
};

struct tunnel {
	struct port_dial dial;
	struct http_stream client_stream;
	struct end client, inside;
	struct timer half;
	struct deferred gone;
};

static void on_client(struct http_stream *s, uint32_t events);
static void on_inside(struct http_stream *s, uint32_t events);

static void tunnel_free(struct deferred *d)
{
	free(container_of(d, struct tunnel, gone));
}

static void tunnel_end(struct tunnel *t)
{
	struct loop *l = &t->dial.api->loop;

	timer_del(l, &t->half);
	http_stream_close(&t->client_stream);
	port_hang_up(&t->dial);
	buf_done(&t->client.out);
	buf_done(&t->inside.out);
	loop_defer(l, &t->gone, tunnel_free);
}

static void on_half(struct timer *t)
{
	tunnel_end(container_of(t, struct tunnel, half));
}

/* -errno: the connection is broken. */
static int flush(struct end *to)
{
	while (buf_len(&to->out) > 0) {
		ssize_t n = http_stream_drain(to->stream, &to->out);

		if (n == -EAGAIN)
			return 0;
		if (n < 0)
			return (int)n;
	}
	if (to->other->eof && !to->shut) {
		http_stream_shutdown(to->stream);
		to->shut = true;
	}
	return 0;
}

static bool wants_read(const struct end *from)
{
	return !from->eof && buf_len(&from->other->out) < PORT_BUFFER;
}

static int take(struct end *from)
{
	ssize_t n = http_stream_fill(from->stream, &from->other->out, READ_MAX);

	if (n == -EAGAIN)
		return 0;
	if (n < 0)
		return (int)n;
	from->eof = n == 0;
	return flush(from->other);
}

static int watch(struct end *end, http_stream_fn *fn)
{
	uint32_t events = wants_read(end) ? EPOLLIN : 0;

	if (buf_len(&end->out) > 0)
		events |= EPOLLOUT;
	return http_stream_watch(end->stream, events, fn);
}

static void go_on(struct tunnel *t, int r)
{
	if (r == 0)
		r = watch(&t->client, on_client);
	if (r == 0)
		r = watch(&t->inside, on_inside);
	if (r < 0 || (t->client.shut && t->inside.shut)) {
		tunnel_end(t);
		return;
	}
	/* Half of it is over: the rest may take its time, but not sleep. */
	if (t->client.eof || t->inside.eof)
		timer_set(&t->dial.api->loop, &t->half, HALF_MS, on_half);
}

static int on_event(struct end *end, uint32_t events)
{
	int r = 0;

	if (events & EPOLLOUT)
		r = flush(end);
	if (r == 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
		if (wants_read(end))
			r = take(end);
		else if (end->eof && (events & EPOLLERR))
			r = -ECONNRESET;
		else if (events & (EPOLLHUP | EPOLLERR))
			/* Cannot be masked: heard of again later. */
			http_stream_unwatch(end->stream);
	}
	return r;
}

static void on_client(struct http_stream *s, uint32_t events)
{
	struct tunnel *t = container_of(s, struct tunnel, client_stream);

	go_on(t, on_event(&t->client, events));
}

static void on_inside(struct http_stream *s, uint32_t events)
{
	struct tunnel *t = container_of(s, struct tunnel, dial.stream);

	go_on(t, on_event(&t->inside, events));
}

void port_tunnel(struct port_dial *dial, struct http_stream *client,
		 struct buf *to_client, struct buf *to_inside)
{
	struct tunnel *t = xcalloc(1, sizeof(*t));
	int r;

	port_dial_move(&t->dial, dial);
	http_stream_move(&t->client_stream, client);
	t->client = (struct end){ .stream = &t->client_stream,
				  .other = &t->inside,
				  .out = *to_client };
	t->inside = (struct end){ .stream = &t->dial.stream,
				  .other = &t->client,
				  .out = *to_inside };
	*to_client = *to_inside = (struct buf){ 0 };
	list_init(&t->gone.node);
	r = flush(&t->client);
	if (r == 0)
		r = flush(&t->inside);
	go_on(t, r);
}

/* --- a tunnel that was asked for --- */

struct tcp_ask {
	struct api *api;
	struct http_conn *conn;
	struct port_dial dial;
	struct deferred gone;
};

static void ask_free(struct deferred *d)
{
	free(container_of(d, struct tcp_ask, gone));
}

static void ask_end(struct tcp_ask *t)
{
	port_hang_up(&t->dial);
	loop_defer(&t->api->loop, &t->gone, ask_free);
}

static void ask_gone(struct http_conn *c, void *owner)
{
	(void)c;
	ask_end(owner);
}

static void on_dialled(struct port_dial *d, const struct err *e)
{
	struct tcp_ask *t = container_of(d, struct tcp_ask, dial);
	AUTO(buf_done) struct buf in = { 0 }, out = { 0 };
	struct http_stream client;

	if (e->code) {
		port_refuse(d, t->conn, e);
	} else if (http_upgrade(t->conn, TCP_UPGRADE, NULL, &client, &in,
				&out) == 0) {
		t->api->metrics.requests[1]++;
		port_tunnel(d, &client, &out, &in);
	}
	ask_end(t);
}

void port_tcp(struct api *a, struct http_conn *c, const struct sandbox *s,
	      uint16_t port)
{
	struct tcp_ask *t = xcalloc(1, sizeof(*t));
	struct err e = { 0 };

	t->api = a;
	t->conn = c;
	list_init(&t->gone.node);
	if (port_dial(&t->dial, s, port, on_dialled, &e) < 0) {
		reply_err(a, c, &e);
		free(t);
		return;
	}
	http_own(c, t, ask_gone);
}
