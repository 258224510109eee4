/*
 * A connection from a sandbox. Which sandbox: that whose socket it came by,
 * and nothing else says so.
 *
 *	flow.c	    its life; what its first bytes are
 *	connect.c   a tunnel: CONNECT, TLS that nobody has to look into, raw
 *	exchange.c  HTTP requests on it, one after the other
 *	answer.c    what comes back
 *	request.c   one of them: where it wants to go, what passes of heads
 *	pass.c	    who is asked before anything leaves
 *
 * An object of it lives until flow_end(); its memory until the end of the
 * loop's turn, so that whoever called can see that it `ended`.
 */
#pragma once

#include "base/product.h"
#include "gate/ask.h"
#include "gate/budget.h"
#include "gate/decide.h"
#include "gate/dial.h"
#include "gate/gate.h"
#include "gate/inject.h"
#include "gate/record.h"
#include "gate/refuse.h"
#include "gate/tunnel.h"
#include "http/stream.h"

enum {
	FLOW_HEAD_MS = 10 * 1000,        /* for a head, a hello */
	FLOW_IDLE_MS = 75 * 1000,        /* between requests */
	FLOW_STALL_MS = 60 * 1000,       /* a body that does not go on */
	FLOW_ANSWER_MS = 15 * 60 * 1000, /* a server that thinks */
	FLOW_TUNNEL_MS = 60 * 60 * 1000, /* a tunnel that nobody uses */
	FLOW_LINGER_MS = 2 * 1000,
	FLOW_READ = 16 * 1024, /* at once */
	FLOW_READ_MORE = 64 * 1024,
};

#define GATE_HOST "gate." PRODUCT /* our own pages */

struct flow;
struct exchange;

struct place {
	char host[POLICY_HOST_CAP]; /* as host_read() makes it; "": unknown */
	uint16_t port;
};

/* HOST[:PORT]; `usual` 0: the port must be there. -EINVAL. */
int place_read(struct place *p, const char *s, uint16_t usual) MUST_CHECK;

enum pass_state {
	PASS_NONE,
	PASS_ASK,    /* a person */
	PASS_STILL,  /* the sandbox: its budget is used up */
	PASS_INJECT, /* credentials are fetched */
	PASS_DIAL,
	PASS_OPEN, /* under way */
};

typedef void pass_go_fn(struct flow *f);
typedef void pass_no_fn(struct flow *f, const struct refusal *r);

/* All that is asked about one request or tunnel. */
struct pass {
	/* Set these first; strings are the owner's until pass_end(). */
	const char *kind;       /* of struct egress */
	struct request request; /* scheme SCHEME_HTTPS and kind "tunnel": not
				   looked into, so TLS is not ours */
	const struct http_head *head; /* NULL: no HTTP request */
	const char *target;
	const void *body;
	size_t body_n;

	/* Private, but for counters and what inject says. */
	enum pass_state state;
	bool over;     /* what is asked for is more than the budget */
	bool approved; /* by a person: this one */
	bool recorded;
	struct ruling ruling;
	struct ask ask;
	struct budget_hold hold;
	struct inject inject;
	struct egress egress;
	struct dial dial;
	struct timer timer;
	uint64_t log_ms; /* since when the log is waited for; 0: it is not */
	uint64_t began_ms, up, down;
	pass_go_fn *go;
	pass_no_fn *no;
};

struct flow {
	struct list node; /* box->flows */
	struct box *box;
	struct http_stream inside, outside;
	struct timer timer;
	uint64_t deadline_ms;
	struct deferred gone;
	bool ended;
	bool proxy;    /* came by the proxy's socket */
	bool self;     /* asks about the sandbox itself: self.h */
	bool bound;    /* to `place`: what it says later must agree */
	bool promised; /* CONNECT was answered with 200 */
	bool tunnelled;
	size_t peeked;
	enum scheme scheme; /* of requests: http, or https inside our TLS */
	struct place place;
	struct place outside_place; /* that `outside` leads to */
	enum scheme outside_scheme;
	bool outside_named; /* the next request may not go there */
	struct pass pass;
	struct tunnel tunnel;
	struct scan look;        /* canaries, in a tunnel that can be read */
	struct scan frame_look;  /* ... and in the content of its frames */
	struct refusal *refusal; /* of all that comes: TLS, to say it inside */
	struct exchange *x;      /* exchange.c */
	struct exchange *old;    /* one that became a tunnel */
};

/* A listening socket of the sandbox (box.proxy, box.tcp) has connections. */
void flows_accept(struct box *b, struct io *io);

/* flow.c. Silent and harmless when it has ended. */
void flow_end(struct flow *f);
/* It ends when nothing calls this again in time; 0: never. */
void flow_deadline(struct flow *f, uint64_t ms);
/* Looks at what comes next: TLS, HTTP or something else. */
void flow_look(struct flow *f);
/* Enough: from here on a single byte is heard again. */
int flow_looked(struct flow *f) MUST_CHECK;
/* Takes exactly `n` bytes that were looked at. */
int flow_take(struct flow *f, void *p, size_t n) MUST_CHECK;

/* connect.c: CONNECT was read; a hello was; it is malformed; it is neither TLS
 * nor HTTP. */
struct hello;
void connect_start(struct flow *f, const struct http_head *h);
void connect_hello(struct flow *f, const struct hello *h);
void connect_bad_hello(struct flow *f);
void connect_raw(struct flow *f);
/* From here on bytes pass: `up` and `down` go first, may be NULL. `look`: they
 * can be read. */
void connect_tunnel(struct flow *f, bool look, struct buf *up,
		    struct buf *down);
void connect_count(struct flow *f);
/* The answer to CONNECT, and the end. */
void connect_refuse(struct flow *f, const struct refusal *r);
/* Is it allowed to be raw, so that nobody has to wait for its first bytes? */
bool connect_is_raw(struct flow *f);
/* It is raw: may it still be, by the policies of now? */
bool connect_stays_raw(struct flow *f);

/* exchange.c */
void exchange_start(struct flow *f);
void exchange_free(struct exchange *x);
/* The body that it holds goes. */
void exchange_release(struct flow *f);
/* The time is up; a policy changed, and what is under way must end. */
void exchange_late(struct flow *f);
void exchange_revoked(struct flow *f, const struct refusal *r);

/* pass.c. One of them is called once, maybe before this returns; `no` after
 * pass_end(). `go`: the way is open (f->outside). */
void pass_start(struct flow *f, pass_go_fn *go, pass_no_fn *no);
/* The connection was stale: another one, then `go` again. */
void pass_redial(struct flow *f);
/* False: over the budget, nothing of it may leave. */
bool pass_up(struct flow *f, size_t n);
bool pass_down(struct flow *f, size_t n);
/* It is over: settled and written down. Harmless when there is none. */
void pass_end(struct flow *f, int status, const char *failure);
/* The policies changed: true when it may go on. */
bool pass_review(struct flow *f, struct refusal *r);
/* Written down as denied. */
void pass_denied(struct flow *f, const char *kind, const struct request *q,
		 const struct ruling *why, const struct refusal *r);
/* So is what cannot be read. */
void pass_malformed(struct flow *f, const struct refusal *r);
/* Must somebody look into TLS to this host? */
bool pass_needs_look(const struct flow *f, const char *host, uint16_t port);
