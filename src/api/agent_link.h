/*
 * The connection to a sandbox's agent, shared by all clients of the sandbox.
 *
 * Channels have another number here than at the client; each remembers what
 * was sent and acknowledged in both directions, so that neither side can make
 * us keep more than the windows allow. An agent that breaks the rules loses
 * its connection, and its sandbox is marked degraded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/endpoint.h"
#include "base/err.h"
#include "base/list.h"

struct sandbox;
struct relay;

/* A process. Freed with its last frame. */
struct chan {
	struct list node;     /* of the client */
	struct relay *client; /* NULL: it left, nobody listens */
	struct agent_link *agent;
	uint32_t client_no, agent_no;
	uint64_t out[2], out_acked[2]; /* streams 1 and 2: agent to client */
	uint64_t in, in_acked;
	bool started, in_eof, out_eof[2];
};

struct agent_link {
	struct endpoint ep;
	struct chan **slot; /* agent_no & 255 */
	unsigned n_slots, n_chans;
	uint32_t generation;
	struct list relays; /* clients of this sandbox */
	struct list pings;  /* in the order they were sent */
};

void agent_init(struct agent_link *g);
void agent_done(struct agent_link *g);
/* Connects if it is not connected; never waits. */
int agent_connect(struct sandbox *s, struct err *e) MUST_CHECK;
/* Closes the connection; all channels fail with this. */
void agent_lost(struct agent_link *g, int code, const char *msg);

/* A number for a new process; NULL when the agent has too many. */
struct chan *chan_new(struct agent_link *g, struct relay *client,
		      uint32_t client_no);
void chan_free(struct chan *ch);

/* FRAME_PING of a client; the answer goes back to it. */
void agent_ping(struct agent_link *g, struct relay *client, uint8_t *raw,
		const struct frame *f);
void agent_forget_pings(struct agent_link *g, const struct relay *client);
/* Is so much waiting that clients are to stop? */
bool agent_is_full(const struct agent_link *g);
