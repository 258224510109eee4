/*
 * The gate: the one door of the sandboxes. Three kinds of processes:
 *
 *	starter	has nothing, hears only the keeper, and forks doors; the others
 *		end with it
 *	keeper	has the files (vault, keys, spools, counters) and no network; it
 *		hears only the api's hellos and the doors
 *	door	has the network and hears strangers on both sides; it has no
 *		files, and the keys of the projects it serves alone
 *
 * This header is a door's state; one file per concern:
 *
 *	main.c	    start-up as root; setup.c what is taken from there
 *	starter.c   the starter
 *	keeper.c    the keeper
 *	keys.c      a project's keys at rest
 *	confine.c   what each of them gives up
 *	within.c    what they say to each other; outbox.c what waits to be said
 *	door.c	    a door: its links to api and keeper
 *	box.c	    sandboxes: their sockets, policies
 *	project.c   projects: their keys, secrets
 *	state.c     what a sandbox has that outlives the process
 *	account.c   counters that a sandbox shares with its forks
 *	flow.c	    a connection from a sandbox: what its first bytes are
 *	connect.c   tunnels
 *	exchange.c  HTTP requests, one after the other; answer.c what comes back
 *	request.c   heads, as they pass
 *	pass.c	    who is asked before anything leaves
 *	refuse.c    what people and models are told
 *	decide.c    policies of a sandbox as one
 *	dial.c	    the way to a server outside
 *	resolve.c   names, for real
 *	address.c   addresses that are nobody's business
 *	tunnel.c    bytes both ways, unseen
 *	ws_payload.c  the content of masked WebSocket frames
 *	hello.c	    the first message of TLS
 *	leaf.c	    certificates that sandboxes trust
 *	names.c     the resolver inside; dns.c its packets
 *	self.c	    what a sandbox hears about itself on port 49983
 *	inject.c    credentials on the way out; credential.c makes them,
 *		    oauth.c fetches some, opened.c has what they are made of
 *	scan.c	    words that must not pass
 *	budget.c    how much
 *	model.c     tokens of model APIs; prices.c what they cost
 *	ask.c	    requests that wait for a person
 *	record.c    what goes into the log
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "gate/outbox.h"
#include "policy/policy.h"
#include "wire/gate.h"

enum {
	GATE_BUCKETS = 1024,
	BOX_FLOWS_MAX = 1024, /* connections of a sandbox; more wait */
	FLOWS_MAX = 8192,     /* of all */
	BOX_HELD_MAX = 64 * 1024 * 1024,
};

struct account;
struct gate;
struct project;
struct secret;
struct box_state;
struct budgets;
struct ca;
struct resolver;
struct recorder;
struct leaves;
struct box_words;
struct tls_context;
struct prices;

/* A policy of a sandbox and its name. */
struct box_part {
	char name[GATE_PART_CAP];
	struct policy policy;
};

struct box_use {
	char name[NAME_CAP];
	char placeholder[GATE_PLACEHOLDER_CAP];
	bool canary;
};

struct box {
	struct list node;
	struct gate *gate;
	struct project *project;
	char id[ID_CAP], name[NAME_CAP];
	uint32_t flags; /* enum gate_box_flags */
	uint64_t ask_ms;
	uint64_t generation; /* grows with each change of its policies */
	struct box_part *parts;
	unsigned n_parts;
	struct box_use uses[GATE_USES_MAX];
	unsigned n_uses;
	struct box_words *words; /* inject.c: made of `uses` */
	struct io proxy, dns, tcp, udp, self;
	int link_fd;
	char *about; /* self.c: JSON, or NULL */
	unsigned char about_for[GATE_SELF_HASH];
	struct box_state *state; /* state.h: what it alone has */
	struct account *account; /* account.h: what it shares */
	struct list in_account;
	struct budgets *budgets; /* budget.c */
	struct list flows;       /* flow.h */
	unsigned n_flows, n_asks;
	size_t held; /* bytes of bodies that are held as a whole */
	uint64_t ask_room, ask_room_ms; /* ask.c: how often it may ask */
	bool full;                      /* does not accept: too many flows */
	bool listens; /* its project has keys, and it has a state */
	struct timer use_timer;
	struct gate_count told; /* to the api */
	struct deferred gone;
};

struct project {
	struct list node;
	struct gate *gate;
	char name[NAME_CAP];
	unsigned char public_key[GATE_PUBLIC_KEY], private_key[32];
	struct ca *ca;       /* leaf.h */
	struct list secrets; /* vault/secret.h: struct secret */
	char *cert;          /* of the authority, PEM */
	bool ready;          /* its keys are here */
	bool keys_wanted;    /* by the api */
};

struct gate {
	const struct conf *conf;
	struct loop loop;
	char door[NAME_CAP]; /* the project; "": all without one of their own */
	struct list boxes[GATE_BUCKETS], accounts[GATE_BUCKETS], projects;
	unsigned n_flows;
	bool full;             /* some sandbox waits until a flow of any ends */
	struct io api, keeper; /* -1: nobody is there */
	struct outbox to_api, to_keeper;
	struct io signals;
	struct recorder *record;
	struct resolver *resolver;
	struct leaves *leaves;
	struct tls_context *upstream_tls; /* verifies */
	const struct prices *prices;      /* prices.h; or NULL */
	uint64_t asks;                    /* number of the last one */
	uint64_t round;                   /* how often the api has come */
};

/* box.c */
struct box *box_find(struct gate *g, const char *id);
/* Of a table of GATE_BUCKETS, where this id belongs. */
struct list *gate_bucket(struct list *table, const char *id);
/* Puts a message into the api's connection; dropped while it is away. */
void gate_tell(struct gate *g, const struct gate_msg *m);
/* A box's policies, sockets or secrets changed: open connections are looked
 * at again (flow.c). Rulings of before must not be looked at after it: their
 * rules are freed. */
void flows_review(struct box *b);
/* All of them end. */
void flows_end(struct box *b);
