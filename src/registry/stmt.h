/* Statements of the registry, for its own files. */
#pragma once

#include <string.h>

#include "base/err.h"
#include "registry/registry.h"

static inline void put_text(sqlite3_stmt *st, int i, const char *s)
{
	/* SQLITE_STATIC: the caller's strings outlive the step. */
	sqlite3_bind_text(st, i, s, (int)strlen(s), SQLITE_STATIC);
}

static inline void put_hash(sqlite3_stmt *st, int i, const unsigned char *hash)
{
	sqlite3_bind_blob(st, i, hash, REGISTRY_HASH, SQLITE_STATIC);
}

static inline void put_u64(sqlite3_stmt *st, int i, uint64_t v)
{
	sqlite3_bind_int64(st, i, v > INT64_MAX ? INT64_MAX : (int64_t)v);
}

static inline const char *get_text(sqlite3_stmt *st, int i)
{
	const char *s = (const char *)sqlite3_column_text(st, i);

	return s ? s : "";
}

static inline uint64_t get_u64(sqlite3_stmt *st, int i)
{
	return (uint64_t)sqlite3_column_int64(st, i);
}

/* All zero when the file has something else there. */
static inline void get_hash(sqlite3_stmt *st, int i,
			    unsigned char out[REGISTRY_HASH])
{
	memset(out, 0, REGISTRY_HASH);
	if (sqlite3_column_bytes(st, i) == REGISTRY_HASH)
		memcpy(out, sqlite3_column_blob(st, i), REGISTRY_HASH);
}

/* One statement that returns no rows; then ready for its next use. */
int stmt_run(struct registry *r, enum registry_stmt which, const char *what,
	     struct err *e) MUST_CHECK;
/* The next row of a statement: 1, 0 at the end, or -errno. */
int stmt_row(struct registry *r, enum registry_stmt which, const char *what,
	     struct err *e) MUST_CHECK;
/* stmt_run(), on disk when it returns. */
int stmt_run_durable(struct registry *r, enum registry_stmt which,
		     const char *what, struct err *e) MUST_CHECK;
/* Ready for its next use. */
void stmt_reset(struct registry *r, enum registry_stmt which);
/* Between the two commits wait for the disk. */
int stmt_durable(struct registry *r, struct err *e) MUST_CHECK;
void stmt_quick(struct registry *r);
