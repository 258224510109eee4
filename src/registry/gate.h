/* Rows about the ways out of sandboxes: what people have granted, what went
 * through, and numbers that are given once. */
#pragma once

#include "registry/registry.h"

struct grant_row {
	uint64_t id; /* set by registry_grant_add() */
	const char *sandbox, *rule, *who;
	uint64_t until_ms; /* wall time; 0: as long as the sandbox lives */
	uint64_t created_ms;
};

/* On disk when it returns. */
int registry_grant_add(struct registry *r, struct grant_row *row,
		       struct err *e) MUST_CHECK;
int registry_grant_remove(struct registry *r, uint64_t id,
			  struct err *e) MUST_CHECK;
/* Those of sandboxes that are no more. */
int registry_grants_sweep(struct registry *r, struct err *e) MUST_CHECK;
/* The oldest first. */
int registry_grant_each(struct registry *r,
			int (*fn)(void *arg, const struct grant_row *row),
			void *arg, struct err *e) MUST_CHECK;

struct egress_row {
	const char *sandbox, *project;
	uint64_t requests, denied, up_bytes, down_bytes;
	uint64_t tokens_in, tokens_out, cost_micro;
	uint64_t updated_ms;
};

/* Replaces the row of that sandbox. */
int registry_egress_put(struct registry *r, const struct egress_row *row,
			struct err *e) MUST_CHECK;
/* 1 when there is one: its numbers are in `row`, its strings are not. */
int registry_egress_get(struct registry *r, const char *sandbox,
			struct egress_row *row, struct err *e) MUST_CHECK;
/* Of the sandboxes that registry_usage_sums() adds up, by project. */
int registry_egress_sums(struct registry *r, const struct usage_filter *f,
			 int (*fn)(void *arg, const struct egress_row *sum),
			 void *arg, struct err *e) MUST_CHECK;
/* Rows whose sandbox has no row of usage any more. */
int registry_egress_prune(struct registry *r, struct err *e) MUST_CHECK;

/* `n` numbers that nobody got before: the last of them is in `last`. */
int registry_numbers(struct registry *r, const char *name, uint64_t n,
		     uint64_t *last, struct err *e) MUST_CHECK;
