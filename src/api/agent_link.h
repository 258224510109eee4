/*
 * The connection to a sandbox's agent, shared by all clients of the sandbox.
 *
 * Channels have another number here than at the client; each remembers what
 * was sent and acknowledged in both directions, so that neither side can make
 * us keep more than the windows allow. An agent that breaks the rules loses
 * its connection, and its sandbox is marked degraded.
 *
 * The line to a machine is a port that has seen others before (see
 * guest/bridge.c): there the agent speaks first. When it does not in time, the
 * line is cut and dialed anew, which nobody here notices, for nothing was said
 * yet; after some times the machine counts as ill.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/endpoint.h"
#include "base/err.h"
#include "base/list.h"

struct chan;
struct proc_note;
struct sandbox;
struct relay;

/* What becomes of a channel's frames: its owner is a client that gets them as
 * they are (relay.c), or a handler of ours (process.c). */
struct chan_ops {
	/*
	 * A frame of the agent that passed all checks. `last`: the channel is
	 * over, and freed when this returns. FRAME_STOP: the agent's frames
	 * are to wait for endpoint_resume().
	 */
	int (*frame)(struct chan *ch, const struct frame *f, uint8_t *raw,
		     bool last);
	/* The agent is gone, and the channel with it. */
	void (*failed)(struct chan *ch, int code, const char *msg);
	/* agent_is_full() was true and is not any more; may be NULL. */
	void (*drained)(struct chan *ch);
};

/* A client of a process. Freed with its last frame. */
struct chan {
	const struct chan_ops *ops; /* NULL: its owner left */
	void *owner;
	struct proc_note *note; /* what is to be run, for the log; or NULL */
	uint32_t number;        /* of the process, once it is known */
	struct list node;       /* the owner's */
	struct agent_link *agent;
	uint32_t owner_no, agent_no;
	unsigned connection; /* of the agent's, counted */
	/* Streams 1 and 2, agent to client. With an attach, what it asked for
	 * until the agent said where it starts. */
	uint64_t out[2], out_acked[2];
	uint64_t in, in_acked;
	bool attach; /* to a process that was there; else it is a new one */
	bool logs;   /* the log hears of the exit from here */
	bool started, in_eof, out_eof[2];
	bool placed[2]; /* where the stream starts is known: no GAP any more */
};

struct agent_link {
	struct endpoint ep;
	struct chan **slot; /* by the low bits of agent_no */
	unsigned n_slots, n_chans;
	unsigned n_watchers; /* of them, those that wait for an exit only */
	unsigned n_own;      /* and those of the daemon itself */
	unsigned n_connections;
	uint32_t generation;
	struct timer pulse; /* pulse.c */
	unsigned silent_steps, lies;
	bool starved;       /* who has ops->drained was told to wait */
	bool cut;           /* between two tries to be greeted */
	bool mute;          /* the last time, none of them was of use */
	unsigned tries;     /* that were in vain */
	struct timer limit; /* for the greeting, or of being cut */
	struct list relays; /* clients of this sandbox */
	struct list pings;  /* in the order they were sent */
};

void agent_init(struct agent_link *g);
void agent_done(struct agent_link *g);
/* Connects if it is not connected; never waits. */
int agent_connect(struct sandbox *s, struct err *e) MUST_CHECK;
static inline bool agent_is_connected(const struct agent_link *g)
{
	return g->cut || endpoint_is_open(&g->ep);
}
/* Closes the connection; all channels fail with this. */
void agent_lost(struct agent_link *g, int code, const char *msg);

/* A number at the agent; NULL when it has too many. */
struct chan *chan_new(struct agent_link *g, const struct chan_ops *ops,
		      void *owner, uint32_t owner_no);
/* By its number at the agent, or NULL. */
struct chan *chan_find(struct agent_link *g, uint32_t no);
/* Asks for a process that is there. */
void chan_attach(struct chan *ch, const struct attach *at);
/* A channel that the agent has not heard of. */
void chan_free(struct chan *ch);
/* The two halves of that: nobody finds it any more; it is no more. */
void chan_unlink(struct chan *ch);
void chan_bury(struct chan *ch);
/*
 * The owner goes, the process stays; `lost`: the owner may come back. Not a
 * word of the channel reaches it any more.
 */
void chan_leave(struct chan *ch, bool lost);
/* The exit of this process is to be in the log. */
void chan_watch(struct agent_link *g, uint32_t number);

/* FRAME_PING of a client; the answer goes back to it. */
void agent_ping(struct agent_link *g, struct relay *client, uint8_t *raw,
		const struct frame *f);
/* One of our own. */
void agent_ping_own(struct agent_link *g);
void agent_forget_pings(struct agent_link *g, const struct relay *client);
/* Somebody left a channel: it is freed when nothing is under way to it. */
void agent_left(struct agent_link *g, const struct chan *ch);
/*
 * pulse.c: somebody wants something of it; it has said
 * something that is true; it has broken the protocol.
 */
void pulse_ask(struct agent_link *g);
void pulse_felt(struct agent_link *g);
void pulse_lied(struct agent_link *g);
/* Has anybody to do with its processes? */
static inline bool agent_has_clients(const struct agent_link *g)
{
	return g->n_chans > g->n_watchers + g->n_own || !list_empty(&g->relays);
}
/* How many processes have been started and not exited, as far as we know. */
unsigned agent_processes(const struct agent_link *g);
/* Is so much waiting that clients are to stop? */
bool agent_is_full(const struct agent_link *g);
