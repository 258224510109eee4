/*
 * A long answer of JSON objects: one per line, or server-sent events for a
 * client that asks for them ("Accept: text/event-stream"). When nothing was
 * sent for a while there is a {"type":"ping"}, so that nobody in between takes
 * the connection for dead.
 *
 * The struct is embedded in the owner of the request.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/loop.h"

struct api;
struct http_conn;

struct event_stream {
	struct api *api;
	struct http_conn *conn;
	bool sse;
	bool open; /* begun, and not ended */
	uint64_t sent_ms;
	struct timer ping;
	struct buf line; /* the event that is being put together */
	/* Called before a ping, may send; may be NULL. */
	void (*on_quiet)(struct event_stream *es);
};

/* Does the client ask for a stream, where it could have something else? */
bool event_stream_wanted(const struct http_conn *c);
/* Answers 200; `ready` as of http_reply_start(). */
void event_stream_start(struct event_stream *es, struct api *a,
			struct http_conn *c,
			void (*ready)(struct http_conn *c, void *owner));
/*
 * One object; takes the reference. `id` is that of a server-sent event, or
 * NULL. False: enough is queued, wait for `ready`.
 */
bool event_stream_send(struct event_stream *es, json_t *event, const char *id);
/*
 * The same written by hand: begin() says where one line of JSON is to be
 * appended to, commit() sends it.
 */
struct buf *event_stream_begin(struct event_stream *es, const char *id);
bool event_stream_commit(struct event_stream *es);
/* Completes the answer. */
void event_stream_end(struct event_stream *es);
/* The client left. Harmless when the stream was not begun. */
void event_stream_gone(struct event_stream *es);
