/*
 * Schema versions of a SQLite file: a table of steps, each of which takes the
 * schema from version i to i + 1. The file's version is its user_version.
 */
#pragma once

#include <sqlite3.h>
#include <stddef.h>

#include "base/err.h"

/*
 * Brings `db` to version `n` in one transaction. A file that already holds
 * something is copied to PATH.vN first. A file of a newer version is refused
 * (ENOTSUP) and not touched. `path` NULL: no copy (a database in memory).
 */
int migrate(sqlite3 *db, const char *path, const char *const *steps, size_t n,
	    struct err *e) MUST_CHECK;

/* VACUUM INTO a new file; one that is there is replaced. */
int sqlite_copy(sqlite3 *db, const char *path, struct err *e) MUST_CHECK;

/* -errno and SQLite's message for the last failure of `db`. */
int sqlite_err(sqlite3 *db, struct err *e, const char *what);
