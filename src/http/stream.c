#include "http/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/tls.h"

void http_stream_init(struct http_stream *s)
{
	*s = (struct http_stream){ .io.fd = -1 };
}

void http_stream_open(struct http_stream *s, struct loop *l, int fd,
		      struct tls_context *ctx)
{
	http_stream_init(s);
	s->loop = l;
	s->io.fd = fd;
	if (ctx)
		s->tls = tls_new(ctx, fd);
}

void http_stream_open_client(struct http_stream *s, struct loop *l, int fd,
			     struct tls_context *ctx, const char *host)
{
	http_stream_init(s);
	s->loop = l;
	s->io.fd = fd;
	s->tls = tls_client_new(ctx, fd, host);
}

const char *http_stream_failure(const struct http_stream *s)
{
	return s->tls ? tls_failure(s->tls) : NULL;
}

void http_stream_move(struct http_stream *to, struct http_stream *from)
{
	http_stream_unwatch(from);
	*to = *from;
	http_stream_init(from);
}

void http_stream_close(struct http_stream *s)
{
	if (!http_stream_is_open(s))
		return;
	http_stream_unwatch(s);
	if (s->tls)
		tls_shutdown(s->tls);
	tls_free(s->tls);
	s->tls = NULL;
	io_close(s->loop, &s->io);
}

static void on_again(struct timer *t);

/*
 * Not with loop_defer(): a peer that always has more must not keep the loop
 * from looking at others.
 */
static void look_again(struct http_stream *s)
{
	if ((s->want & EPOLLIN) && tls_pending(s->tls))
		timer_set(s->loop, &s->again, 0, on_again);
}

static void on_again(struct timer *t)
{
	struct http_stream *s = container_of(t, struct http_stream, again);

	if (s->want & EPOLLIN)
		s->fn(s, EPOLLIN);
	if (s->tls)
		look_again(s);
}

static void on_io(struct io *io, uint32_t events)
{
	struct http_stream *s = container_of(io, struct http_stream, io);

	if (!s->tls) {
		s->fn(s, events);
		return;
	}
	s->fn(s, tls_means(s->tls, events));
	if (s->tls)
		look_again(s);
}

int http_stream_watch(struct http_stream *s, uint32_t events,
		      http_stream_fn *fn)
{
	if (!http_stream_is_open(s))
		return -ENOTCONN;
	s->fn = fn;
	s->want = events;
	if (s->tls) {
		events = tls_needs(s->tls, events);
		look_again(s);
	}
	if (s->io.armed)
		return io_set(s->loop, &s->io, events);
	if (events == 0)
		return 0;
	return io_add(s->loop, &s->io, s->io.fd, events, on_io);
}

void http_stream_unwatch(struct http_stream *s)
{
	if (http_stream_is_open(s)) {
		io_del(s->loop, &s->io);
		timer_del(s->loop, &s->again);
	}
	s->want = 0;
}

/* What TLS needs to go on may have changed. */
static ssize_t rearmed(struct http_stream *s, ssize_t n)
{
	if (s->io.armed)
		io_set(s->loop, &s->io, tls_needs(s->tls, s->want));
	return n;
}

int http_stream_handshake(struct http_stream *s)
{
	return s->tls ? (int)rearmed(s, tls_handshake(s->tls)) : 0;
}

ssize_t http_stream_read(struct http_stream *s, void *p, size_t n)
{
	ssize_t r;

	if (s->tls)
		return rearmed(s, tls_read(s->tls, p, n));
	do
		r = read(s->io.fd, p, n);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

ssize_t http_stream_write(struct http_stream *s, const void *p, size_t n)
{
	ssize_t r;

	if (s->tls)
		return rearmed(s, tls_write(s->tls, p, n));
	do
		r = send(s->io.fd, p, n, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

void http_stream_shutdown(struct http_stream *s)
{
	if (s->tls)
		tls_shutdown(s->tls);
	shutdown(s->io.fd, SHUT_WR);
}

ssize_t http_stream_fill(struct http_stream *s, struct buf *b, size_t max)
{
	ssize_t n = http_stream_read(s, buf_room(b, max), max);

	if (n > 0)
		buf_fill(b, (size_t)n);
	return n;
}

ssize_t http_stream_drain(struct http_stream *s, struct buf *b)
{
	ssize_t n = http_stream_write(s, buf_data(b), buf_len(b));

	if (n > 0)
		buf_eat(b, (size_t)n);
	return n;
}
