/*
 * Accounts: the counters that the members of a family share. A sandbox and its
 * forks draw on one account, which has the id of the sandbox that the family
 * began with; the api decides who belongs to it. The counters are in the state
 * file of that id and outlive this process and that sandbox.
 */
#pragma once

#include "gate/gate.h"
#include "gate/state.h"

/* What must not outlive this process, of one budget. */
struct account_live {
	unsigned open; /* connections */
	uint64_t rate_ms, in_rate;
	bool timed;        /* the next one is known */
	int64_t window_ms; /* start of the window, in time since the boot */
	bool down_spent; /* an answer had no room: there is none for another */
};

struct account {
	struct list node;  /* gate->accounts */
	struct list boxes; /* members, by box->in_account */
	char id[ID_CAP];
	struct box_state *state; /* NULL: the keeper has not opened it yet */
	bool settled;            /* the reservations of a killed gate worker */
	struct account_live live[STATE_BUDGETS];
};

/* Makes the sandbox a member; asks the keeper for counters that are not here.
 */
void account_join(struct box *b, const char *id);
/* The account goes with its last member in this process. */
void account_leave(struct box *b);
struct account *account_find(struct gate *g, const char *id);
/* The keeper's answer. -1: the counters cannot be opened, and the members'
 * sockets stay shut. */
void account_state_came(struct account *x, int fd);
