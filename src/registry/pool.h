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

/* All zero when there is none. `empty`: no row refers to the pool or to the
 * contents of the drive, and there is no key. */
int registry_pool_get(struct registry *r, struct pool_row *row, bool *empty,
		      struct err *e) MUST_CHECK;
/* `durable`: on disk when it returns. */
int registry_pool_put(struct registry *r, const struct pool_row *row,
		      bool durable, struct err *e) MUST_CHECK;

struct stray_row {
	const char *kind, *id;
	uint64_t since_ms;
	uint64_t hours; /* that a daemon has run since */
};

/* One that is there stays as it is. On disk when it returns. */
int registry_stray_add(struct registry *r, const struct stray_row *row,
		       struct err *e) MUST_CHECK;
int registry_stray_remove(struct registry *r, const char *kind, const char *id,
			  struct err *e) MUST_CHECK;
/* Another hour has passed for all of them. */
int registry_strays_age(struct registry *r, struct err *e) MUST_CHECK;
int registry_stray_each(struct registry *r,
			int (*fn)(void *arg, const struct stray_row *row),
			void *arg, struct err *e) MUST_CHECK;
