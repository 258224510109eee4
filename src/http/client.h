/*
 * A small blocking HTTP client, for the command line and for tests: one
 * connection, one call at a time. SIGPIPE never happens here.
 *
 *	struct http_client c = { .fd = -1 };
 *	struct http_call call = { .method = "GET", .target = "/v1/host" };
 *	int status = http_client_open(&c, path, &e);
 *	if (status == 0)
 *		status = http_do(&c, &call, MAX, &body, &e);
 *	http_client_done(&c);
 *
 * Functions return 0, a count or a status, or -errno with a message in `e`.
 * After an error only http_client_done() makes sense.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "http/chunked.h"
#include "http/parse.h"

struct http_client {
	int fd;
	struct http_head head; /* of the last answer */

	/* Private. */
	struct buf in;
	char method[HTTP_METHOD_MAX + 1]; /* of the last call */
	struct http_chunked chunked;
	uint64_t left;
	uint64_t timeout_ms;
	bool body_done, closing;
};

struct http_call {
	const char *method;
	const char *target;              /* encoded; see http_encode() */
	const struct http_field *fields; /* ends at a NULL name; may be NULL */
	const void *body;                /* NULL: no body */
	size_t body_n;
	const char *upgrade; /* protocol to change to, or NULL */
	const void *first;   /* bytes of that protocol sent behind the call */
	size_t first_n;
	/* For http_send_fd(): bytes sent so far; may be NULL. */
	void (*progress)(uint64_t bytes, void *ctx);
	/*
	 * For http_send_fd(): called at the end of the descriptor, before the
	 * server learns of it. An error cuts the body short, so that nobody
	 * takes it for whole. May be NULL.
	 */
	int (*at_end)(void *ctx, struct err *e);
	void *ctx;
};

/* -ENOENT, -ECONNREFUSED, -EACCES tell why nobody answers. */
int http_client_open(struct http_client *c, const char *socket_path,
		     struct err *e) MUST_CHECK;
/* Takes over a connected stream socket. */
void http_client_attach(struct http_client *c, int fd);
/* Errors after this many ms in which nothing moves; 0: wait for ever. */
int http_client_timeout(struct http_client *c, uint64_t ms,
			struct err *e) MUST_CHECK;
void http_client_done(struct http_client *c);

/* Sends a call with body and first bytes in one write. */
int http_send(struct http_client *c, const struct http_call *call,
	      struct err *e) MUST_CHECK;
/*
 * Sends a call whose body is read from `body_fd` until its end, chunked. When
 * the server answers before that, sending stops: 1, else 0. Either way the
 * answer is to be read; after 1 the connection cannot be used again.
 */
int http_send_fd(struct http_client *c, const struct http_call *call,
		 int body_fd, struct err *e) MUST_CHECK;

/* Reads the head of the answer into c->head: its status (never 100). */
int http_recv_head(struct http_client *c, struct err *e) MUST_CHECK;
/* The rest of the body appended to `out`; more than `max` is -EMSGSIZE. */
int http_recv_body(struct http_client *c, size_t max, struct buf *out,
		   struct err *e) MUST_CHECK;
/*
 * The body in pieces as they come; `fn` returns 0, or -errno to stop, which
 * is then returned (and `e` is what `fn` made of it).
 */
int http_recv_stream(struct http_client *c,
		     int (*fn)(const char *p, size_t n, void *ctx,
			       struct err *e),
		     void *ctx, struct err *e) MUST_CHECK;

/* http_send(), head and body in one: the status. */
int http_do(struct http_client *c, const struct http_call *call, size_t max,
	    struct buf *out, struct err *e) MUST_CHECK;

/*
 * Sends a call with `upgrade` set. 101: `fd` and the bytes that came behind
 * the answer are the caller's, c->head stays readable until
 * http_client_done(). Another status: an ordinary answer whose head was read;
 * its body comes with http_recv_body().
 */
int http_client_upgrade(struct http_client *c, const struct http_call *call,
			int *fd, struct buf *leftover,
			struct err *e) MUST_CHECK;
