/*
 * The bytes of one connection on the event loop: a socket, or TLS over one.
 * Whoever reads and writes here cannot tell which.
 *
 * The struct is embedded in its owner. It follows the rules of struct io: a
 * callback may close or move any stream, its own or another's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/loop.h"

struct http_stream;
struct tls_context;
struct tls;
/* `events` may say more than is so: a read or write is then -EAGAIN. */
typedef void http_stream_fn(struct http_stream *s, uint32_t events);

struct http_stream {
	struct io io; /* io.fd is -1 when there is no connection */
	uint32_t want;

	/* Private. */
	struct loop *loop;
	http_stream_fn *fn;
	struct tls *tls;    /* NULL: plain */
	struct timer again; /* TLS holds bytes that no event will announce */
};

void http_stream_init(struct http_stream *s);
/*
 * Takes over a connected, non-blocking stream socket; nothing is watched.
 * `ctx`: the server's side of TLS over it; NULL: plain.
 */
void http_stream_open(struct http_stream *s, struct loop *l, int fd,
		      struct tls_context *ctx);
/* The client's side of TLS, see tls_client_new(). */
void http_stream_open_client(struct http_stream *s, struct loop *l, int fd,
			     struct tls_context *ctx, const char *host);
/* As tls_handshake() and tls_failure(). Plain: 0, NULL. */
int http_stream_handshake(struct http_stream *s);
const char *http_stream_failure(const struct http_stream *s);
static inline bool http_stream_is_open(const struct http_stream *s)
{
	return s->io.fd >= 0;
}
static inline bool http_stream_is_tls(const struct http_stream *s)
{
	return s->tls;
}
/* Hands the connection over; `from` is closed then, and `to` not watched. */
void http_stream_move(struct http_stream *to, struct http_stream *from);
/* Silent: no callback follows. Harmless when closed. */
void http_stream_close(struct http_stream *s);

/*
 * Starts watching for EPOLLIN, EPOLLOUT, EPOLLRDHUP, or changes what is
 * watched. 0 hears only of errors, or of nothing when it was not watched.
 */
int http_stream_watch(struct http_stream *s, uint32_t events,
		      http_stream_fn *fn);
/* Not even errors. */
void http_stream_unwatch(struct http_stream *s);

/* At most `n` bytes: the count, 0 at the end, or -errno (-EAGAIN). */
ssize_t http_stream_read(struct http_stream *s, void *p, size_t n);
/*
 * The count (there may be more to write), or -errno. With TLS, bytes that were
 * refused with -EAGAIN must be the first of the next write, unchanged.
 */
ssize_t http_stream_write(struct http_stream *s, const void *p, size_t n);
/* Our side ends; the peer's bytes can still be read. */
void http_stream_shutdown(struct http_stream *s);

/* As buf_read() and buf_write(). */
ssize_t http_stream_fill(struct http_stream *s, struct buf *b, size_t max);
ssize_t http_stream_drain(struct http_stream *s, struct buf *b);
