/*
 * A WebSocket (RFC 6455), the server's side, over an upgraded connection.
 *
 * The struct is embedded in its owner. Callbacks come from the loop, never
 * from inside a function called here. closed() is the last one, and comes
 * exactly once; after it, or after websocket_abort(), the memory is the
 * owner's again (who frees it with loop_defer(), as always).
 *
 * Pings are answered and sent here; a peer that shows no sign of life for two
 * of them is lost. What it does not take is queued: websocket_send() says when
 * to stop. Nothing is read while more than WS_OUT_HIGH waits for the peer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/loop.h"
#include "http/server.h"
#include "http/stream.h"
#include "http/wsframe.h"

struct websocket;

enum {
	WS_MESSAGE_MAX = 1024 * 1024, /* default of `max` */
	WS_OUT_HIGH = 256 * 1024,     /* queued for a peer before we say stop */
	WS_PING_MS = 30 * 1000
};

struct websocket_ops {
	/*
	 * A whole message, with a NUL behind its end. It may be changed, and
	 * is valid until this returns, or until websocket_abort().
	 */
	void (*message)(struct websocket *ws, bool text, char *p, size_t n);
	/* The peer took what was queued when websocket_send() said false; may
	 * be NULL. */
	void (*ready)(struct websocket *ws);
	/*
	 * The peer's close code (WS_NO_CODE), ours if it was not answered, or
	 * WS_LOST.
	 */
	void (*closed)(struct websocket *ws, unsigned code);
};

enum ws_state { WS_OPEN, WS_CLOSING, WS_DRAINING, WS_ENDED };

/* Zero-initialise; `max` may be set before websocket_start(). */
struct websocket {
	size_t max; /* bytes of a message; 0: WS_MESSAGE_MAX */

	/* Private. */
	const struct websocket_ops *ops;
	struct loop *loop;
	struct http_stream stream;
	enum ws_state state;
	struct ws_decoder decoder;
	struct buf in, out;
	bool paused;   /* the owner wants no messages */
	bool stopped;  /* the owner waits for ready() */
	bool draining; /* ... until nothing is queued */
	bool deaf;     /* the peer takes nothing any more */
	bool blocked;  /* the socket is full; EPOLLOUT is watched */
	bool shut;     /* our side of the connection is */
	bool alive;    /* something moved since the last ping */
	bool queued;   /* `turn` is */
	int failure;
	unsigned code;
	struct timer timer; /* the next ping, or the end of a close */
	struct deferred turn;
};

/*
 * Is it a proper opening handshake (the check of Origin is the caller's)? If
 * not, it was answered with 400 or 426.
 */
bool websocket_wanted(struct http_conn *c);
/*
 * Answers 101 to a request that websocket_wanted(). `protocol`: the
 * subprotocol that was chosen, or NULL. On failure (-errno) the connection is
 * finished and no callback comes.
 */
int websocket_start(struct websocket *ws, struct http_conn *c,
		    const char *protocol,
		    const struct websocket_ops *ops) MUST_CHECK;

/*
 * Queues a message: false when WS_OUT_HIGH is reached, wait for ready(). Text
 * must be UTF-8. What is sent after a close is dropped.
 */
bool websocket_send(struct websocket *ws, bool text, const void *p, size_t n);
/*
 * ready() is called once all that is queued has left, not earlier: for those
 * who tell somebody else that the peer has it.
 */
void websocket_drain(struct websocket *ws);
/* No messages until it is resumed: the peer's bytes wait in the kernel. */
void websocket_pause(struct websocket *ws);
void websocket_resume(struct websocket *ws);
/*
 * Sends what is queued and a close frame, and waits a moment for the peer's.
 * No message comes any more, closed() does. `reason`: UTF-8, cut at 123 bytes;
 * may be NULL.
 */
void websocket_close(struct websocket *ws, unsigned code, const char *reason);
/* At once and silent. Harmless when it has ended or never started. */
void websocket_abort(struct websocket *ws);
