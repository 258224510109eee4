/*
 * The answer to one POST (or the stream of a GET). Private to mcp/.
 *
 * It is JSON when all that there is to say are the answers to what was asked,
 * and they come soon. It becomes a stream of events when something is told in
 * between, or when it takes longer: then nobody on the way takes the
 * connection for dead. Events have ids, and are kept within bounds: a client
 * that lost its connection goes on with `GET` and `Last-Event-ID`. Calls go on
 * meanwhile; losing a connection is no wish to cancel them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api/mcp/session.h"
#include "http/server.h"

enum {
	STREAM_JSON_MS = 2000, /* after which it is a stream, anyway */
	STREAM_PING_MS = 15000,
	STREAM_RETRY_MS = 1000,  /* a client that lost us comes back after it */
	STREAM_FINISHED_MAX = 8, /* that are kept for clients to come back */
};

struct mcp_stream {
	struct list node;
	struct mcp_session *session;
	struct http_conn *conn; /* NULL: its client is gone, or answered */
	char request_id[HTTP_REQUEST_ID];
	unsigned number;     /* 0: of a GET, for nothing in particular */
	unsigned n_events;   /* so far */
	unsigned n_calls;    /* under way */
	size_t held;         /* memory of the message, which they look at */
	struct share *share; /* of which it is */
	bool can_sse;        /* the client takes events */
	bool batch;          /* answers are an array */
	bool sse;            /* begun */
	bool busy;           /* calls are being started: it does not end yet */
	bool full;           /* the client is slow: what can be left out is */
	json_t *answers;     /* as long as it is not a stream */
	struct list events;
	struct timer timer;
	struct deferred bury;
};

struct mcp_stream *mcp_stream_new(struct mcp_session *s, struct http_conn *c,
				  bool can_sse, bool batch);
/* Its message takes so much memory. False: there is no room for that. */
bool mcp_stream_fits(const struct mcp_session *s, size_t n);
void mcp_stream_charge(struct mcp_stream *st, size_t n);
/* Around the start of its calls. */
void mcp_stream_hold(struct mcp_stream *st);
void mcp_stream_release(struct mcp_stream *st);
/* The answer to a call, which has ended; takes it. */
void mcp_stream_answer(struct mcp_stream *st, json_t *msg);
/* Something in between; takes it. False: it is told nobody. `must`: also to a
 * client that is slow, or gone for the moment. */
bool mcp_stream_tell(struct mcp_stream *st, json_t *msg, bool must);
/* Closes the connection while its calls go on: the client comes back. */
void mcp_stream_pause(struct mcp_stream *st);
/* Nothing more is said; clients that still wait are told why. */
void mcp_stream_end(struct mcp_stream *st, const char *why);

/* GET: for nothing in particular; the one before ends. */
void mcp_stream_listen(struct mcp_session *s, struct http_conn *c);
/* GET with Last-Event-ID: EINVAL when there is nothing to go on with. */
int mcp_stream_resume(struct mcp_session *s, struct http_conn *c,
		      const char *last, struct err *e) MUST_CHECK;
