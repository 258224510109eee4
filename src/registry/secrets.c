#include "registry/secrets.h"

#include <errno.h>

#include "registry/stmt.h"

static void put_sealed(sqlite3_stmt *st, int i, const struct secret_row *row)
{
	sqlite3_bind_blob(st, i, row->sealed, (int)row->sealed_n,
			  SQLITE_STATIC);
}

/* Pages that were are still in the write-ahead log. */
static int run(struct registry *r, enum registry_stmt which, const char *what,
	       struct err *e)
{
	int rc = stmt_run_durable(r, which, what, e);

	if (rc == 0 &&
	    sqlite3_wal_checkpoint_v2(r->db, NULL, SQLITE_CHECKPOINT_TRUNCATE,
				      NULL, NULL) != SQLITE_OK)
		return err_set(e, EIO, "%s: %s", what, sqlite3_errmsg(r->db));
	return rc;
}

int registry_secret_put(struct registry *r, const struct secret_row *row,
			struct err *e)
{
	sqlite3_stmt *st = r->st[ST_SECRET_PUT];

	put_text(st, 1, row->project);
	put_text(st, 2, row->name);
	put_text(st, 3, row->about);
	put_sealed(st, 4, row);
	put_u64(st, 5, row->created_ms);
	put_u64(st, 6, row->updated_ms);
	return run(r, ST_SECRET_PUT, "set a secret", e);
}

int registry_secret_sealed(struct registry *r, const struct secret_row *row,
			   struct err *e)
{
	sqlite3_stmt *st = r->st[ST_SECRET_SEALED];

	put_text(st, 1, row->project);
	put_text(st, 2, row->name);
	put_sealed(st, 3, row);
	return run(r, ST_SECRET_SEALED, "renew a secret", e);
}

int registry_secret_remove(struct registry *r, const char *project,
			   const char *name, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_SECRET_REMOVE];

	put_text(st, 1, project);
	put_text(st, 2, name);
	return run(r, ST_SECRET_REMOVE, "remove a secret", e);
}

int registry_secret_each(struct registry *r,
			 int (*fn)(void *arg, const struct secret_row *row),
			 void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_SECRET_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_SECRET_LIST, "list the secrets", e)) == 1) {
		struct secret_row row = {
			.project = get_text(st, 0),
			.name = get_text(st, 1),
			.about = get_text(st, 2),
			.sealed = sqlite3_column_blob(st, 3),
			.sealed_n = (size_t)sqlite3_column_bytes(st, 3),
			.created_ms = get_u64(st, 4),
			.updated_ms = get_u64(st, 5),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_SECRET_LIST);
	return rc;
}
