/*
 * The bridge between stdio and /mcp. Private to mcp*.c.
 *
 * Each line of stdin is a message, and becomes a POST of its own; what comes
 * back are lines of stdout. Requests run side by side. A session that the
 * daemon does not know any more is begun again with the client's own words,
 * and a stream that was cut is gone on with, so that a client over stdio sees
 * nothing of a daemon that is restarted while it is idle.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/loop.h"
#include "cli/cli.h"
#include "cli/mcp_wire.h"
#include "cli/server.h"

enum {
	BRIDGE_CALLS_MAX = 16,  /* requests at once; more wait */
	BRIDGE_QUEUE_MAX = 256, /* messages; then stdin has to wait */
	BRIDGE_LINE_MAX = 8 * 1024 * 1024,
	BRIDGE_AGAIN_MS = 500, /* between tries to reach the daemon */
	BRIDGE_TRIES = 20,
	BRIDGE_LISTEN_MS = 1000, /* before a stream that ended is asked for */
	BRIDGE_GOODBYE_MS = 10000,
};

/* A message of the client's on its way. */
struct bridge_message {
	struct list node;
	struct bridge *bridge;
	char *text;
	size_t n;
	json_t *id; /* of a request, or NULL */
	bool initialize;
	bool quiet; /* of ours: nobody waits for the answer */
	bool answered;
	unsigned tries, begun;
	char session[WIRE_ID_CAP]; /* that it was sent in */
	char last_id[WIRE_ID_CAP]; /* of its stream, that was cut */
	char refusal[MESSAGE_CAP]; /* of an answer that is an error of HTTP */
	struct mcp_wire wire;
	struct timer again;
	struct deferred bury;
};

struct bridge {
	struct cli *cli;
	struct loop loop;
	char target[TARGET_CAP]; /* /mcp, with what was wished for */
	char session[WIRE_ID_CAP], version[16];
	struct list queue, flying;
	unsigned n_queue, n_calls;
	bool beginning;   /* `initialize` is under way */
	struct buf hello; /* the client's `initialize` */
	json_t *hello_id; /* NULL: it has not come yet */
	struct mcp_wire listen;
	struct timer listen_again;
	bool draining; /* stdin has ended */
	bool leaving;  /* DELETE is under way, or done */
	struct mcp_wire goodbye;
	struct timer late;
};

void bridge_init(struct bridge *b);
/* A line of stdin; it is copied. */
void bridge_take(struct bridge *b, const char *text, size_t n);
/* A message that was too long to be read. */
void bridge_refuse_long(struct bridge *b);
bool bridge_is_full(const struct bridge *b);
/* No more lines come: ends when all was answered. */
void bridge_drain(struct bridge *b);
/* Ends the session now, then the loop. */
void bridge_leave(struct bridge *b);
/* mcp.c: stdin is looked at again. */
void bridge_room(struct bridge *b);
