/*
 * How much a sandbox may do. Reserved before a byte leaves, settled after; the
 * counters are those of its account (account.h).
 */
#pragma once

#include "gate/gate.h"

struct http_head;
struct model_use;

enum {
	HOLD_TALLIES = 16, /* budgets that one request can be part of */
	BUDGET_WHY = 224,
};

enum budget_answer {
	BUDGET_OK,
	BUDGET_DENY,  /* `e` says which limit, in words */
	BUDGET_ASK,   /* a person may let it pass */
	BUDGET_PAUSE, /* the sandbox stands still: told to the api here */
};

/* One request or connection. Zero-initialise. */
struct budget_hold {
	struct box *box;
	char host[POLICY_HOST_CAP];
	bool open;
	uint64_t up, down;
	struct model_use *model; /* model.c; NULL: the host is no model API */

	/* Private. */
	unsigned char slots[HOLD_TALLIES];
	unsigned n_slots;
	/* Limits that a person lifted for this request: a bit for each. */
	unsigned short granted[HOLD_TALLIES];
	unsigned asked_slot, asked_limit; /* of the last BUDGET_ASK */
	uint64_t tokens, cost;            /* reserved */
	char why[BUDGET_WHY];             /* the reason to stop it, or "" */
};

/* `head` NULL: a tunnel. On BUDGET_OK the hold is open. */
enum budget_answer budget_begin(struct budget_hold *h, struct box *b,
				const struct request *r,
				const struct http_head *head, struct err *e);
/* A person lets this one pass: beyond the limit that BUDGET_ASK was about, and
 * no other. */
void budget_grant(struct budget_hold *h);
/* Bytes that are about to go. False: over the limit, not one of them may. */
bool budget_up(struct budget_hold *h, uint64_t n);
bool budget_down(struct budget_hold *h, uint64_t n);
/* Which limit it was, in words, when one of the two was false; else "". */
const char *budget_why(const struct budget_hold *h);
/*
 * What was asked of a model, and what it says (content without its framing and
 * codings; ask it for none: no Accept-Encoding). A piece of the request is
 * shown before budget_up() is asked about it: what it asks for may be more
 * than there is.
 */
void budget_request_body(struct budget_hold *h, const void *p, size_t n);
void budget_answer_body(struct budget_hold *h, const void *p, size_t n);
/* The request has left, and nobody sees the end of its answer. */
void budget_cut(struct budget_hold *h);
/* Must the request's or the answer's content be shown to the two above? */
bool budget_wants_bodies(const struct budget_hold *h);
/* Is this a host whose answers are counted (so it must be inspected)? */
bool budget_needs_look(const struct box *b, const char *host, uint16_t port);
/* Settles; `status` is the answer's, or 0. Harmless when not open. */
void budget_end(struct budget_hold *h, int status);
void box_count(const struct box *b, struct gate_count *out);
/* One more that was denied. */
void budget_denied(struct box *b);
/* Its box goes, without a hold that is open. */
void budget_forget(struct box *b);
