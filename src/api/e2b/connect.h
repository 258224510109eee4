/*
 * The Connect protocol with JSON, as the E2B SDKs speak it: unary calls are
 * JSON in, JSON out; streams are envelopes (a byte of flags, four of length,
 * JSON), the last of which says how it went. Errors of a stream are in that
 * last one, always under status 200: clients lose them otherwise.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

struct api;
struct http_conn;

/* "not_found" and so on: the word for an errno; see connect.c. */
const char *connect_code(int code);
/* Unary. Takes the reference. */
void connect_reply(struct api *a, struct http_conn *c, json_t *answer);
void connect_fail(struct api *a, struct http_conn *c, int code,
		  const char *msg);
/* The same with the word itself: {"code": word, "message": msg}. */
void connect_fail_as(struct api *a, struct http_conn *c, const char *word,
		     const char *msg);

/*
 * The one message of a request: unary, or of a stream (one envelope). NULL
 * with a message in `e`; the caller's reference.
 */
json_t *connect_message(struct http_conn *c, const char *body, size_t n,
			struct err *e);
/* The same without a request: is it an envelope? */
json_t *connect_parse(bool envelope, const char *body, size_t n, struct err *e);

/* Embedded in the owner of the request. */
struct connect_stream {
	struct api *api;
	struct http_conn *conn; /* NULL: ended, or not begun */
	uint64_t sent_ms;
	uint64_t keepalive_ms; /* from Keepalive-Ping-Interval, or 90 s */
	const char *keepalive; /* JSON that is sent when it is quiet */
	struct timer quiet;
	struct buf line; /* the envelope that is being put together */
};

/* Answers 200; `ready` as of http_reply_start(). */
void connect_start(struct connect_stream *s, struct api *a, struct http_conn *c,
		   const char *keepalive,
		   void (*ready)(struct http_conn *c, void *owner));
/* One envelope with `n` bytes of JSON. False: wait for `ready`. */
bool connect_send(struct connect_stream *s, const char *json, size_t n);
/* Takes the reference. */
bool connect_send_json(struct connect_stream *s, json_t *message);
/*
 * The same written by hand: begin() says where the JSON is to be appended to,
 * commit() sends it.
 */
struct buf *connect_begin(struct connect_stream *s);
bool connect_commit(struct connect_stream *s);
/* The last envelope; `word` NULL: all went well. Harmless when ended. */
void connect_end(struct connect_stream *s, const char *word, const char *msg);
/* The client left. Harmless when it was not begun. */
void connect_gone(struct connect_stream *s);
/* A stream that could not begin: status 200 and only a last envelope. */
void connect_refuse(struct api *a, struct http_conn *c, const char *word,
		    const char *msg);
