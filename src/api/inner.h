/*
 * Requests of ours to ourselves, for adapters (E2B, MCP) that only translate:
 * they say in the native API what they were asked in another language, with
 * the rights of who asked them. What counts for a native request (scopes,
 * limits, waking up, the log) counts for these, without a second way in.
 *
 * Each is a pair of sockets between a client in this file and the HTTP server
 * of this program. Bytes pass through the kernel, which bounds them; nothing
 * can be asked inside that could not be asked from outside.
 *
 * The structs are embedded in their owners. Callbacks come from the loop,
 * never from inside a function called here; after ended() or done(), or after
 * inner_close(), none comes and the memory is the owner's again.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/call.h"
#include "base/buf.h"
#include "base/err.h"
#include "http/chunked.h"
#include "http/parse.h"
#include "http/server.h"
#include "http/stream.h"

struct api;
struct inner;

enum {
	INNER_MAX = 4096,                   /* at once */
	INNER_ANSWER_MAX = 8 * 1024 * 1024, /* of inner_ask() */
	INNER_SEND_MAX = 256 * 1024, /* held of a body that is streamed */
};

/* Members may be NULL. */
struct inner_ops {
	/* The answer begins: status and fields; valid during this call. */
	void (*head)(struct inner *in, const struct http_head *h);
	/* Bytes of its body, all of which are taken. inner_hold() stops more
	 * of them. */
	void (*data)(struct inner *in, const char *p, size_t n);
	/* inner_send() took less than all, and takes more now. */
	void (*room)(struct inner *in);
	/* The last one. false: it ended in the middle, or never began. */
	void (*ended)(struct inner *in, bool whole);
};

struct inner_request {
	const char *method;
	const char *target;              /* encoded: see http_encode() */
	const struct http_field *fields; /* end at a NULL name; or NULL */
	const void *body;                /* NULL: none */
	size_t body_n;
	bool stream; /* the body comes by inner_send(), `body` is NULL */
};

/* Zero-initialise, and set `ops`. */
struct inner {
	const struct inner_ops *ops;
	int status; /* 0 before the head */

	/* Private. */
	struct api *api; /* NULL: closed */
	struct share *place;
	struct http_stream stream;
	struct buf in, out;
	struct http_scan scan;
	struct http_chunked chunked;
	enum http_body body;
	uint64_t left;
	char method[HTTP_METHOD_MAX + 1];
	bool held, want_room, sending;
	struct timer again;
};

/* The server's side. */
int inner_init(struct api *a, struct err *e) MUST_CHECK;
/* Who an inner request is for; NULL: it came from outside. */
const struct identity *inner_who(const struct http_conn *c);

/* `request_id`: of the request that this is done for. EUSERS, EAGAIN: too many.
 */
int inner_start(struct inner *in, struct api *a, const struct identity *who,
		const char *request_id, const struct inner_request *q,
		struct err *e) MUST_CHECK;
/* How many bytes were taken; less than `n`: room() comes later. */
size_t inner_send(struct inner *in, const void *p, size_t n);
void inner_send_end(struct inner *in);
/* No more data() until false is said. */
void inner_hold(struct inner *in, bool hold);
/* Gives up, as a client that leaves. Harmless twice, and on a zeroed one. */
void inner_close(struct inner *in);

/* --- JSON, whole --- */

struct inner_ask {
	struct inner in; /* private, as the rest */
	struct buf answer;
	bool too_long;
	void (*done)(struct inner_ask *q, int status, json_t *answer);
};

struct inner_json {
	struct api *api;
	const struct identity *who;
	const char *request_id;
	const char *method, *target; /* "/v1/...", encoded */
	json_t *body;                /* the reference is taken; NULL: none */
	/*
	 * The status and the answer: its reference is the ask's; NULL: none,
	 * or no JSON. Status 0: there was no whole answer.
	 */
	void (*done)(struct inner_ask *q, int status, json_t *answer);
};

int inner_ask(struct inner_ask *q, const struct inner_json *r,
	      struct err *e) MUST_CHECK;
static inline void inner_ask_close(struct inner_ask *q)
{
	inner_close(&q->in);
	buf_done(&q->answer);
}
/* The words of an answer that is an error; never NULL. */
const char *inner_message(int status, const json_t *answer);
