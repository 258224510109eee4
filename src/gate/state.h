/*
 * What a sandbox has that outlives this process: counters, the budgets of the
 * account that has its id, and the names behind its synthetic addresses. A file
 * that is mapped, so that a kill -9 loses nothing: there is no write to be
 * missed. The keeper opens it.
 */
#pragma once

#include "gate/gate.h"

enum {
	STATE_MAGIC = 0x43475331, /* "CGS1" */
	STATE_NAMES = 1024, /* names a sandbox may know at once; the one that
			       was not used for longest goes */
	STATE_BUDGETS = 16, /* of single hosts; [0] is that of all hosts */
};

struct state_name {
	char host[POLICY_HOST_CAP]; /* "": free */
	uint16_t zero;
	uint64_t used_ms; /* wall time */
};

/* Counters of a budget: see budget.h. */
struct state_budget {
	char host[POLICY_HOST_CAP]; /* "": all hosts */
	uint16_t zero;
	uint64_t window_ms;      /* start of the current window, wall time */
	uint64_t in_window;      /* requests in it */
	struct gate_count count; /* of all its life */
	uint64_t tokens_held, cost_held; /* reserved, not settled yet */
};

struct box_state {
	uint32_t magic, version;
	char id[ID_CAP];
	uint32_t zero;
	struct state_budget budgets[STATE_BUDGETS]; /* of the account */
	struct state_name names[STATE_NAMES];
	struct state_budget own; /* of this sandbox alone, without a limit */
};

/* Maps a file of this size (the keeper made it); NULL on failure. */
struct box_state *state_map(int fd, const char *id, struct err *e);
void state_unmap(struct box_state *s);
