/*
 * Bytes both ways between a sandbox and a server, unseen: spliced between
 * plain sockets, through buffers when one side is TLS (WebSockets of inspected
 * hosts). Each direction waits for the slower end; one that ended is shut, the
 * other goes on. Idle tunnels hold no pipe and no buffer.
 */
#pragma once

#include "gate/budget.h"
#include "gate/gate.h"
#include "gate/ws_payload.h"
#include "http/stream.h"

struct tunnel;
struct scan;

/* Zero-initialise; set what comes first. */
struct tunnel {
	struct gate *gate;
	struct budget_hold *hold; /* bytes are counted here; over it: the end */
	struct scan *up_scan, *down_scan; /* words to look for; NULL: none */
	/* The same as up_scan in the content of WebSocket frames. */
	struct scan *frame_scan;
	/* The end; `why` NULL: both sides ended it. */
	void (*done)(struct tunnel *t, const char *why);
	uint64_t idle_ms; /* ends it when nothing moves for so long; 0: never */

	uint64_t up_bytes, down_bytes;

	/* Private. */
	struct http_stream inside, outside;
	struct timer timer;
	struct ws_payload frames;
	void *ways;
};

/* Takes both streams over; the bytes of `up` and `down` (may be NULL) go
 * first, and are eaten. */
void tunnel_start(struct tunnel *t, struct http_stream *inside,
		  struct http_stream *outside, struct buf *up,
		  struct buf *down);
/* Silent: no done(). Both sides are closed. */
void tunnel_end(struct tunnel *t);
