/*
 * One end of a relay: a stream that carries frames, to a client or to
 * an agent. Both are outsiders.
 *
 * Frames go from one endpoint to another without a copy: they are read into
 * one scratch area, get a new channel number in place, and are written from
 * there. Only what the receiver does not take at once is kept in `out`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/loop.h"
#include "http/stream.h"
#include "wire/frame.h"

struct endpoint;

enum { FRAME_GO_ON = 0, FRAME_STOP = 1 };

struct endpoint_ops {
	/*
	 * A whole frame; `raw` is its head, which may be changed. FRAME_STOP:
	 * this frame was used, no further one before endpoint_resume().
	 * -errno: it broke the rules. May close the endpoint.
	 */
	int (*frame)(struct endpoint *ep, const struct frame *f, uint8_t *raw);
	/* It ended (0), failed, or broke the rules (-EBADMSG, -EPROTO). */
	void (*lost)(struct endpoint *ep, int why);
	/* What was queued has left. */
	void (*drained)(struct endpoint *ep);
};

struct endpoint {
	const struct endpoint_ops *ops;
	struct loop *loop;
	struct http_stream stream;
	struct buf in;  /* the start of a frame, or what waits for a resume */
	struct buf out; /* not taken yet */
	size_t last;    /* 1 + where the last frame in `out` starts; 0: sent */
	bool hello;     /* the peer's was seen */
	/* A line that others had before: nothing is said until the peer's hello
	 * came, and what is in front of that is not for us. */
	bool waits;
	bool stopped; /* no frames wanted */
	bool queued;  /* `turn` is */
	bool look;    /* at `in`, in that turn */
	struct deferred turn;
};

void endpoint_init(struct endpoint *ep);
/* Takes over the connection, also when it fails. */
int endpoint_take(struct endpoint *ep, struct http_stream *s,
		  const struct endpoint_ops *ops) MUST_CHECK;
/* The same with a (non-blocking) socket. */
int endpoint_open(struct endpoint *ep, struct loop *l, int fd,
		  const struct endpoint_ops *ops) MUST_CHECK;
/* Silent: no callback follows. Harmless when closed. */
void endpoint_close(struct endpoint *ep);
/* The same, but what is queued stays for the next endpoint_open(). */
void endpoint_cut(struct endpoint *ep);
static inline bool endpoint_is_open(const struct endpoint *ep)
{
	return http_stream_is_open(&ep->stream);
}

/* The queue to append to; leaves at the end of this turn of the loop. */
struct buf *endpoint_out(struct endpoint *ep);
/*
 * The frame at `raw` (from ops->frame) with another channel number; joins
 * small pieces of the same stream while the peer is slow.
 */
void endpoint_forward(struct endpoint *to, uint8_t *raw, const struct frame *f,
		      uint32_t channel);
/* Bytes in `in` are looked at, at the end of this turn. */
void endpoint_resume(struct endpoint *ep);
