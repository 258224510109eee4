/*
 * HTTP server on the event loop, for a listening stream socket.
 *
 * The handler is called when a head is complete. It answers at once or later,
 * after asking for the body or not. Until it has answered, the request is its
 * own: it may keep the pointer. The pointer ends with the call that completes
 * the answer (http_reply*, http_error, http_reply_end, http_upgrade), or with
 * on_gone(): exactly one of the two happens, and no callback comes after it.
 * Callbacks come from the loop, never from inside a function called here.
 *
 * on_gone() is called when the connection ended before the answer was
 * complete: the client left, was too slow, or sent a body so bad or large
 * that the server answered it itself. Whoever holds memory or a running
 * operation for a request registers it with http_own() first.
 *
 * One request at a time and connection: the next one is looked at when the
 * answer has left; until then its bytes wait in the kernel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/loop.h"
#include "http/parse.h"
#include "http/stream.h"

struct http_conn;

enum {
	HTTP_REQUEST_ID = 17,       /* 16 hex digits and NUL */
	HTTP_READ_MAX = 64 * 1024,  /* largest piece of a streamed body */
	HTTP_OUT_HIGH = 256 * 1024, /* queued for a client before we say stop */
	HTTP_NOTE = 256,            /* bytes */
	HTTP_BODY_RATE = 1024,   /* bytes a second that a body has at least */
	HTTP_ORIGIN_LISTS = 1024 /* of addresses, by their hash */
};

/* Connections that wait for requests, the oldest first. */
struct http_idle {
	struct list of[2]; /* of strangers; of clients that are known */
};

struct http_server {
	/* Set before http_server_start(); 0 means the default. */
	void (*on_request)(struct http_conn *c, void *ctx);
	/*
	 * Once for each request that on_request() got, before the first byte
	 * of its answer leaves; `status` 0: its client left without one. May
	 * be NULL.
	 */
	void (*on_answer)(struct http_conn *c, int status, void *ctx);
	void *ctx;
	struct tls_context *tls; /* the caller's; NULL: plain */
	/*
	 * 1024. Behind it the oldest idle connection is closed for each new
	 * one, those without http_trust() first; while all have requests,
	 * clients wait in the kernel's queue.
	 */
	unsigned max_conns;
	/*
	 * Of one address (IPv6: of its /64): as above, among its own; while
	 * all of them have requests, more are closed. 0: no limit.
	 */
	unsigned max_per_peer;
	unsigned head_ms;  /* 10 s for a whole head */
	unsigned idle_ms;  /* 60 s between requests */
	unsigned body_ms;  /* 30 s without a byte of a wanted body */
	unsigned rate_ms;  /* 30 s before HTTP_BODY_RATE counts */
	unsigned write_ms; /* 30 s in which the client took nothing */

	/* Private. */
	struct loop *loop;
	struct io io;
	bool is_unix;
	struct timer retry; /* accept() was out of descriptors */
	struct list conns;
	unsigned n_conns; /* connections that were handed over not counted */
	struct http_idle idle;
	struct list origins[HTTP_ORIGIN_LISTS];
	uint64_t origin_seed;
	unsigned char random[512];
	unsigned random_left;
	int64_t date_s;
	char date[32];
};

/*
 * Takes over `listen_fd` (non-blocking), also when it fails. -1: nobody
 * connects, there is only what http_server_adopt() brings.
 */
int http_server_start(struct http_server *s, struct loop *l, int listen_fd,
		      struct err *e) MUST_CHECK;
/*
 * Serves a connected unix socket that the program made itself, for a guest
 * that needs no proof: `guest` is copied, http_guest() gives it to handlers.
 * Its requests have the id `request_id`. Takes over `fd`.
 */
void http_server_adopt(struct http_server *s, int fd, const void *guest,
		       size_t n, const char *request_id);
/* What http_server_adopt() was given; NULL for all others. */
const void *http_guest(const struct http_conn *c);
/* Stops listening and closes every connection; owners hear on_gone(). */
void http_server_done(struct http_server *s);

/* The request; its strings are valid until it is answered. */
const struct http_head *http_request(const struct http_conn *c);
const char *http_request_id(const struct http_conn *c);
/* Who connected (pid, uid, gid) to a unix socket; -errno for others. */
int http_peer(struct http_conn *c, struct ucred *peer) MUST_CHECK;
/* Over a unix socket: the kernel knows who it is. */
bool http_is_local(const struct http_conn *c);
/* The address it came from, as text; "" over a unix socket. */
enum { HTTP_PEER_TEXT = 46 };
void http_peer_text(const struct http_conn *c, char out[HTTP_PEER_TEXT]);
bool http_is_tls(const struct http_conn *c);
struct http_server *http_conn_server(const struct http_conn *c);
/* HTTP_NOTE bytes for the server's owner, zero when a request starts. */
void *http_note(struct http_conn *c);

/*
 * The client proved who it is, or did not: connections of known clients give
 * way last (see max_conns). Asked for each request; the last one counts.
 */
void http_trust(struct http_conn *c, bool known);

/*
 * Names the owner of a request, which all callbacks of it get. Call again to
 * change it; a new request starts without one.
 */
void http_own(struct http_conn *c, void *owner,
	      void (*on_gone)(struct http_conn *c, void *owner));
void *http_owner(const struct http_conn *c);

/*
 * Collects the whole body (there may be none: n = 0) and calls `done` once,
 * after this returned. `body` is NUL-terminated and valid until the
 * request is answered. Larger than `max`: 413, malformed or cut: 400, slow:
 * 408; all answered here, and the owner hears on_gone().
 */
void http_read_body(struct http_conn *c, size_t max,
		    void (*done)(struct http_conn *c, char *body, size_t n,
				 void *owner));

/*
 * Passes the body on as it comes. `data` returns how many of the `n` bytes it
 * took; fewer than `n` stops reading until http_resume_body(), and then the
 * rest comes again. It may answer early (an error): what it returns then
 * does not matter, and the connection is closed behind the answer. `end`
 * comes once, after the last byte.
 */
void http_stream_body(struct http_conn *c,
		      size_t (*data)(struct http_conn *c, const char *p,
				     size_t n, void *owner),
		      void (*end)(struct http_conn *c, void *owner));
/* A body that a person types, perhaps: its bytes may come at any rate. */
void http_slow_body(struct http_conn *c);
/* `data` is called again before the loop waits the next time. */
void http_resume_body(struct http_conn *c);

/*
 * Fields that the answer to this request has besides its own, whoever gives
 * it; the list ends at a NULL name, and stays where it is.
 */
void http_also(struct http_conn *c, const struct http_field *fields);

/*
 * Whole answers. `extra` is NULL or fields that end at a NULL name; control
 * bytes in values become '?'. Length, Date, Request-Id and Connection are
 * added here; Content-Type is the caller's, except for the JSON ones. An
 * answer given while body bytes are still to come closes the connection.
 */
void http_reply(struct http_conn *c, int status, const struct http_field *extra,
		const void *body, size_t n);
void http_reply_json(struct http_conn *c, int status, const char *json,
		     size_t n);
/* {"code": status, "error": word, "message": ..., "request_id": ...} */
void http_error(struct http_conn *c, int status, const char *word,
		const char *fmt, ...) PRINTF_LIKE(4, 5);

/*
 * An answer in pieces, chunked (until close for HTTP/1.0). `ready` (may be
 * NULL) is called when http_reply_data() said false and the client took what
 * was queued. Small pieces of one turn of the loop leave in one write.
 */
void http_reply_start(struct http_conn *c, int status,
		      const struct http_field *extra,
		      void (*ready)(struct http_conn *c, void *owner));
/* The same for an answer of exactly `length` bytes. */
void http_reply_start_sized(struct http_conn *c, int status,
			    const struct http_field *extra, uint64_t length,
			    void (*ready)(struct http_conn *c, void *owner));
/* Always queues; false when HTTP_OUT_HIGH is reached: wait for `ready`. */
bool http_reply_data(struct http_conn *c, const void *p, size_t n);
/* Is so much queued already? What can be left unsaid is then. */
bool http_is_full(const struct http_conn *c);
/*
 * `ready` is called once all that is queued has left, not earlier: for those
 * who tell somebody else that the client has it.
 */
void http_reply_drain(struct http_conn *c);
/* Completes the answer; one that lacks bytes of its length is cut. */
void http_reply_end(struct http_conn *c);
/*
 * The answer cannot be completed: the connection is closed in the middle of
 * it, so that the client does not take it for whole. The request is no longer
 * its owner's.
 */
void http_reply_cut(struct http_conn *c);

/*
 * Answers 101 and hands over the connection (not watched) and the bytes that
 * came behind the request. With `out` the answer is not sent but appended
 * there: the caller sends it in front of its own first bytes, in one write.
 * `out` NULL: sent here. The body, if there is one, must have been read. On
 * failure (-errno) the connection is finished, nothing is handed over and
 * on_gone() is not called. `in` and `out` are initialised buffers.
 */
int http_upgrade(struct http_conn *c, const char *protocol,
		 const struct http_field *extra, struct http_stream *to,
		 struct buf *in, struct buf *out) MUST_CHECK;
