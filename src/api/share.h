/*
 * Pools that all projects take from, such as places for drive puts, and the
 * share of a pool that each project holds.
 *
 * A project gets more only while it holds no more than what then stays free.
 * A project alone has half of a pool, the next one half of the rest, and a
 * newcomer finds a place: no project can starve the others, and nothing is set
 * aside for projects that are not there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

/* Set `max` and `what`; the rest starts as zero. */
struct pool {
	uint64_t max;
	const char *what; /* of which there are `max`, as "drive puts" */
	uint64_t used;
	struct list shares; /* of the projects that hold something */
};

/* Part of one project; gone when it holds nothing. */
struct share {
	struct list node;
	struct pool *pool;
	char project[NAME_CAP]; /* "": operators without a project */
	uint64_t n;
};

/*
 * Takes `n`; the share is valid until all that was taken is given back.
 * NULL with EUSERS: the project has its share. EAGAIN: the pool is empty.
 */
struct share *share_take(struct pool *p, const char *project, uint64_t n,
			 struct err *e) MUST_CHECK;
/* Gives back `n` of what was taken. NULL is harmless. */
void share_give(struct share *s, uint64_t n);
