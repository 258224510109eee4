/*
 * Forward migrations. The copy is made with VACUUM INTO: it is a consistent
 * snapshot even when a crash left a write-ahead log beside the file. It is
 * written under a temporary name and renamed, so that a copy with the final
 * name is always whole.
 */
#include "registry/migrate.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int sqlite_err(sqlite3 *db, struct err *e, const char *what)
{
	int code = EIO;

	switch (sqlite3_errcode(db)) {
	case SQLITE_FULL:
		code = ENOSPC;
		break;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		code = EBUSY;
		break;
	case SQLITE_CONSTRAINT:
		code = EEXIST;
		break;
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_AUTH:
		code = EACCES;
		break;
	default:
		break;
	}
	return err_set(e, code, "registry: %s: %s", what, sqlite3_errmsg(db));
}

static int version_of(sqlite3 *db, size_t *out, struct err *e)
{
	sqlite3_stmt *st;
	int r;

	if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &st, NULL))
		return sqlite_err(db, e, "read its version");
	r = sqlite3_step(st);
	*out = (size_t)sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return r == SQLITE_ROW ? 0 : sqlite_err(db, e, "read its version");
}

int sqlite_copy(sqlite3 *db, const char *path, struct err *e)
{
	char *sql;
	int r;

	if (unlink(path) < 0 && errno != ENOENT)
		return err_sys(e, "registry: remove %s", path);
	sql = sqlite3_mprintf("VACUUM INTO %Q", path);
	if (!sql)
		return err_set(e, ENOMEM, "registry: no memory");
	r = sqlite3_exec(db, sql, NULL, NULL, NULL);
	sqlite3_free(sql);
	return r ? sqlite_err(db, e, "copy it") : 0;
}

static int copy_aside(sqlite3 *db, const char *path, size_t version,
		      struct err *e)
{
	char tmp[512], final[512];
	int r;

	if (snprintf(final, sizeof(final), "%s.v%zu", path, version) >=
		    (int)sizeof(final) ||
	    snprintf(tmp, sizeof(tmp), "%s.copy", path) >= (int)sizeof(tmp))
		return err_set(e, ENAMETOOLONG, "registry: path too long");
	r = sqlite_copy(db, tmp, e);
	if (r < 0)
		return r;
	if (rename(tmp, final) < 0)
		return err_sys(e, "registry: rename %s", tmp);
	return 0;
}

static int apply(sqlite3 *db, const char *const *steps, size_t from, size_t n,
		 struct err *e)
{
	char sql[48];
	size_t i;

	for (i = from; i < n; i++)
		if (sqlite3_exec(db, steps[i], NULL, NULL, NULL)) {
			sqlite_err(db, e, "migrate");
			return err_wrap(e, "to version %zu", i + 1);
		}
	snprintf(sql, sizeof(sql), "PRAGMA user_version = %zu", n);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL))
		return sqlite_err(db, e, "set its version");
	return 0;
}

int migrate(sqlite3 *db, const char *path, const char *const *steps, size_t n,
	    struct err *e)
{
	size_t have = 0;
	int r = version_of(db, &have, e);

	if (r < 0 || have == n)
		return r;
	if (have > n)
		return err_set(e, ENOTSUP,
			       "registry: its schema is version %zu, this "
			       "program knows up to %zu: install a newer one",
			       have, n);
	if (have > 0 && path) {
		r = copy_aside(db, path, have, e);
		if (r < 0)
			return r;
	}
	if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL))
		return sqlite_err(db, e, "begin a migration");
	r = apply(db, steps, have, n, e);
	if (r == 0 && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL))
		r = sqlite_err(db, e, "commit a migration");
	if (r < 0)
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}
