/* The parts of budgets, for the files budget*.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gate/account.h"
#include "gate/budget.h"
#include "gate/gate.h"
#include "gate/state.h"
#include "policy/policy.h"

enum limit {
	LIMIT_CONNECTIONS,
	LIMIT_RATE,
	LIMIT_WINDOW,
	LIMIT_REQUESTS,
	LIMIT_UP,
	LIMIT_DOWN,
	LIMIT_TOKENS,
	LIMIT_COST,
	LIMITS,
};

struct tally {
	bool used;                /* by the policies of now */
	struct host_pattern host; /* of all but the first */
	struct budget limit;      /* `requests` in `per_ms`, 0: no such */
	uint64_t requests;        /* in all; 0: no limit */
	unsigned told;            /* bits of enum limit: this is in the log */
};

struct budgets {
	uint64_t generation;
	bool built, too_many;
	enum over over;
	uint64_t pause_ms; /* when the api was told last; 0: never */
	struct tally v[STATE_BUDGETS];
};

static inline uint64_t tokens_of(const struct state_budget *s)
{
	return s->count.tokens_in + s->count.tokens_out + s->tokens_held;
}

static inline bool is_granted(const struct budget_hold *h, unsigned slot,
			      enum limit l)
{
	return h->granted[slot] & 1U << l;
}

static inline bool has_tokens(const struct tally *t)
{
	return t->limit.tokens || t->limit.cost_micro;
}

/* The counters that a request is part of, and behind them the sandbox's own. */
static inline struct state_budget *counter(const struct budget_hold *h,
					   unsigned i)
{
	return i < h->n_slots ? &h->box->account->state->budgets[h->slots[i]]
			      : &h->box->state->own;
}

/* The limit was met: says so once, with the first reason. Always false. */
bool budget_stop(struct budget_hold *h, unsigned slot, enum limit l);
/* budget_tokens.c: what was held becomes what the answer used. */
void budget_settle(struct budget_hold *h, int status);
