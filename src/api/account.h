/*
 * Accounts: what a family has used together. A sandbox that is made begins an
 * account with its own id; its forks, and theirs, draw on the same one, so a
 * fork has no budget that its relatives have spent. The gate counts requests,
 * bytes, tokens and money (gate/account.h), this file processor time.
 *
 * An account lives as long as a sandbox or a snapshot of the family does, also
 * without the sandbox that it is named after.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/str.h"

struct api;
struct sandbox;

struct account {
	struct api *api;
	struct list node;
	char id[ID_CAP], project[NAME_CAP];
	unsigned refs;    /* of sandboxes and snapshots */
	unsigned n_boxes; /* of the sandboxes among them */
	bool counted;     /* `cpu_us` has what the registry knows */
	bool kept;        /* the gate may have counters under this id */
	uint64_t cpu_us;  /* of all members, also of those that ended */
};

enum { ACCOUNT_BUCKETS = 1024 };

void accounts_init(struct api *a);
/* Found or made; account_release() is the caller's. */
struct account *account_hold(struct api *a, const char *id,
			     const char *project);
/* NULL is nobody's. The last one has the gate forget the counters. */
void account_release(struct account *x);
/* Does anybody but the sandbox of this id need the account of this id? */
bool account_is_needed(struct api *a, const char *id);
/* The sandbox draws on this account from now on. */
void box_set_account(struct sandbox *s, const char *id);
/* Takes what the registry knows about an account that was loaded from it. */
void account_resume(struct account *x);
/* Does it share its account, or may it? */
bool account_is_shared(const struct sandbox *s);
