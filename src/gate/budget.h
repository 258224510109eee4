/*
 * How much a sandbox may do. Reserved before a byte leaves, settled after; the
 * counters are in the sandbox's state file.
 */
#pragma once

#include "gate/gate.h"

struct http_head;

enum budget_answer {
	BUDGET_OK,
	BUDGET_DENY,  /* `e` says which limit, in words */
	BUDGET_ASK,   /* a person may let it pass */
	BUDGET_PAUSE, /* the sandbox stands still: told to the api here */
};

/* One request or connection. Zero-initialise. */
struct budget_hold {
	struct box *box;
	bool granted; /* a person let it pass, beyond the limit: BUDGET_OK */
	char host[POLICY_HOST_CAP];
	bool open;
	uint64_t up, down;
	struct model_use *model; /* model.c; NULL: the host is no model API */
};

/* `head` NULL: a tunnel. On BUDGET_OK the hold is open. */
enum budget_answer budget_begin(struct budget_hold *h, struct box *b,
				const struct request *r,
				const struct http_head *head, struct err *e);
/* Bytes that are about to go. False: over the limit, not one of them may. */
bool budget_up(struct budget_hold *h, uint64_t n);
bool budget_down(struct budget_hold *h, uint64_t n);
/* What an answer of a model says (decoded content); and what was asked. */
void budget_request_body(struct budget_hold *h, const void *p, size_t n);
void budget_answer_body(struct budget_hold *h, const void *p, size_t n);
/* Must the request's or the answer's content be shown to the two above? */
bool budget_wants_bodies(const struct budget_hold *h);
/* Is this a host whose answers are counted (so it must be inspected)? */
bool budget_needs_look(const struct box *b, const char *host, uint16_t port);
/* Settles; harmless when not open. */
void budget_end(struct budget_hold *h);
void box_count(const struct box *b, struct gate_count *out);
