/*
 * One HTTP request to /mcp on the event loop, and the messages of its answer:
 * a body of JSON is one, and each server-sent event is.
 *
 * Embedded in its owner. Callbacks come from the loop; ended() is the last one,
 * and none comes after wire_close().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/loop.h"
#include "cli/server.h"
#include "http/chunked.h"
#include "http/parse.h"

struct mcp_wire;

enum { WIRE_ID_CAP = 64, WIRE_MESSAGE_MAX = 64 * 1024 * 1024 };

struct mcp_wire_ops {
	/* May be NULL. */
	void (*message)(struct mcp_wire *w, const char *text, size_t n);
	/* `status` 0: there was no answer. `whole`: nothing is missing. */
	void (*ended)(struct mcp_wire *w, int status, bool whole);
};

/* Zero-initialise, and set `ops`. */
struct mcp_wire {
	const struct mcp_wire_ops *ops;
	bool sse;                  /* the answer is a stream */
	char session[WIRE_ID_CAP]; /* that the answer names, or "" */
	char last_id[WIRE_ID_CAP]; /* of its events, or "" */

	/* Private. */
	struct loop *loop; /* NULL: closed */
	struct io io;
	struct buf out, in;
	struct buf lines; /* of a stream: what is not a whole one yet */
	struct buf text;  /* of a message that is not whole yet */
	struct http_scan scan;
	struct http_chunked chunked;
	enum http_body body;
	uint64_t left;
	int status;
	bool too_long;
	char method[HTTP_METHOD_MAX + 1];
};

struct mcp_wire_request {
	const char *method, *target;
	const struct http_field *fields; /* end at a NULL name */
	const void *body;                /* NULL: none */
	size_t body_n;
};

/* 0, or -errno: nobody listens, and `why` says so. */
int wire_start(struct mcp_wire *w, struct cli *cli, struct loop *l,
	       const struct mcp_wire_request *q,
	       char why[MESSAGE_CAP]) MUST_CHECK;
void wire_close(struct mcp_wire *w);
