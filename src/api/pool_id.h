/*
 * Do the database and the pool belong together?
 *
 * Both halves have one id (random) and a generation (a counter). The api
 * compares them at every connection to the warden, before it removes anything:
 *
 * - The ids differ, or one half is new and the other is not: hold. Nothing is
 *   served or removed until a person decides.
 * - The database is older than the pool, or the pool older than the database:
 *   serve. An object without a row is kept as a stray, a row without an object
 *   stays.
 * - Both are of one generation: an object without a row was cut off by a crash
 *   of ours and is removed.
 *
 * The generation grows a moment after every change of rows, first in the
 * database, then in the pool: a restored backup, an older copy of the file and
 * a lost write-ahead log all have a smaller one than the pool.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>

#include "api/warden_link.h"
#include "base/loop.h"
#include "registry/pool.h"

struct api;

/* The code of an error: the database and the pool do not fit. */
enum { ERR_HELD = ENOTUNIQ };

struct pool_id {
	struct pool_row row;    /* the database's half */
	struct pool_spec found; /* the pool's */
	bool empty;             /* the database had no rows at our start */
	bool bad_rows;          /* some were not understood */
	bool current;           /* of one generation */
	bool sealed;            /* this connection's walk was complete */
	bool accept;            /* a person has decided to keep both */
	bool held;
	struct err why; /* while it is held */
	struct warden_call call;
	struct timer bump, again;
};

int pool_id_load(struct api *a, struct err *e) MUST_CHECK;
/* Asks the pool, then calls reconcile_walk(), or holds. */
void pool_id_check(struct api *a);
/* A walk is over; `complete`: it has seen all that the pool has. */
void pool_id_walked(struct api *a, bool complete);
/* Rows were added: the generation grows. */
void pool_id_touch(struct api *a);
/* Ends a hold: the pool is this database's from now on. */
void pool_id_accept(struct api *a);
