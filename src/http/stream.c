#include "http/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

void http_stream_init(struct http_stream *s)
{
	*s = (struct http_stream){ .io.fd = -1 };
}

void http_stream_open(struct http_stream *s, struct loop *l, int fd)
{
	http_stream_init(s);
	s->loop = l;
	s->io.fd = fd;
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
	io_close(s->loop, &s->io);
}

static void on_io(struct io *io, uint32_t events)
{
	struct http_stream *s = container_of(io, struct http_stream, io);

	s->fn(s, events);
}

int http_stream_watch(struct http_stream *s, uint32_t events,
		      http_stream_fn *fn)
{
	if (!http_stream_is_open(s))
		return -ENOTCONN;
	s->fn = fn;
	s->want = events;
	if (s->io.armed)
		return io_set(s->loop, &s->io, events);
	if (events == 0)
		return 0;
	return io_add(s->loop, &s->io, s->io.fd, events, on_io);
}

void http_stream_unwatch(struct http_stream *s)
{
	if (http_stream_is_open(s))
		io_del(s->loop, &s->io);
	s->want = 0;
}

ssize_t http_stream_read(struct http_stream *s, void *p, size_t n)
{
	ssize_t r;

	do
		r = read(s->io.fd, p, n);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

ssize_t http_stream_write(struct http_stream *s, const void *p, size_t n)
{
	ssize_t r;

	do
		r = send(s->io.fd, p, n, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

void http_stream_shutdown(struct http_stream *s)
{
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
