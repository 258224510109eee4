#include "registry/pool.h"

#include <errno.h>

#include "base/str.h"
#include "registry/stmt.h"

int registry_pool_get(struct registry *r, struct pool_row *row, bool *empty,
		      struct err *e)
{
	sqlite3_stmt *st = r->st[ST_POOL_GET];
	int rc = stmt_row(r, ST_POOL_GET, "read the pool's id", e);

	*row = (struct pool_row){ 0 };
	*empty = false;
	if (rc == 1) {
		if (str_copy(row->id, sizeof(row->id), get_text(st, 0)) < 0)
			rc = err_set(e, EBADMSG,
				     "the id of the pool is damaged");
		row->generation = get_u64(st, 1);
		row->confirmed = get_u64(st, 2);
	}
	stmt_reset(r, ST_POOL_GET);
	if (rc < 0)
		return rc;
	rc = stmt_row(r, ST_POOL_EMPTY, "look for rows", e);
	*empty = rc == 1 && get_u64(r->st[ST_POOL_EMPTY], 0) == 0;
	stmt_reset(r, ST_POOL_EMPTY);
	return rc < 0 ? rc : 0;
}

int registry_pool_put(struct registry *r, const struct pool_row *row,
		      bool durable, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_POOL_PUT];

	put_text(st, 1, row->id);
	put_u64(st, 2, row->generation);
	put_u64(st, 3, row->confirmed);
	return durable ? stmt_run_durable(r, ST_POOL_PUT, "write the pool's id",
					  e)
		       : stmt_run(r, ST_POOL_PUT, "write the pool's id", e);
}

int registry_stray_add(struct registry *r, const struct stray_row *row,
		       struct err *e)
{
	sqlite3_stmt *st = r->st[ST_STRAY_ADD];

	put_text(st, 1, row->kind);
	put_text(st, 2, row->id);
	put_u64(st, 3, row->since_ms);
	return stmt_run_durable(r, ST_STRAY_ADD, "add a stray", e);
}

int registry_stray_remove(struct registry *r, const char *kind, const char *id,
			  struct err *e)
{
	put_text(r->st[ST_STRAY_REMOVE], 1, kind);
	put_text(r->st[ST_STRAY_REMOVE], 2, id);
	return stmt_run(r, ST_STRAY_REMOVE, "remove a stray", e);
}

int registry_strays_age(struct registry *r, struct err *e)
{
	return stmt_run(r, ST_STRAY_AGE, "count the hours of strays", e);
}

int registry_stray_each(struct registry *r,
			int (*fn)(void *arg, const struct stray_row *row),
			void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_STRAY_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_STRAY_LIST, "list the strays", e)) == 1) {
		struct stray_row row = {
			.kind = get_text(st, 0),
			.id = get_text(st, 1),
			.since_ms = get_u64(st, 2),
			.hours = get_u64(st, 3),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_STRAY_LIST);
	return rc;
}
