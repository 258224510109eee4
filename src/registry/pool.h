/*
 * Which pool this database belongs to, and what the pool has that no row
 * knows. See api/pool_id.h and api/strays.h.
 */
#pragma once

#include "registry/registry.h"

struct pool_row {
	char id[33]; /* hexadecimal; "": of none yet */
	uint64_t generation;
	/* The last generation that the pool has written to its disk. */
	uint64_t confirmed;
};

/* `row` is all zero for a database without a pool. `empty`: the database has no
 * row about the pool or the contents of the drive, and no key. */
int registry_pool_get(struct registry *r, struct pool_row *row, bool *empty,
		      struct err *e) MUST_CHECK;
/* `durable`: on disk when it returns. */
int registry_pool_put(struct registry *r, const struct pool_row *row,
		      bool durable, struct err *e) MUST_CHECK;

struct stray_row {
	const char *kind, *id;
	uint64_t since_ms;
	uint64_t hours; /* of running daemons since then */
};

/* Does not change an existing row. The row is on disk on return. */
int registry_stray_add(struct registry *r, const struct stray_row *row,
		       struct err *e) MUST_CHECK;
int registry_stray_remove(struct registry *r, const char *kind, const char *id,
			  struct err *e) MUST_CHECK;
/* Another hour has passed for all of them. */
int registry_strays_age(struct registry *r, struct err *e) MUST_CHECK;
int registry_stray_each(struct registry *r,
			int (*fn)(void *arg, const struct stray_row *row),
			void *arg, struct err *e) MUST_CHECK;
