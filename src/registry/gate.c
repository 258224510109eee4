#include "registry/gate.h"

#include <errno.h>

#include "registry/stmt.h"

/* --- grants --- */

int registry_grant_add(struct registry *r, struct grant_row *row, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_GRANT_ADD];
	int rc = stmt_durable(r, e);

	if (rc < 0)
		return rc;
	put_text(st, 1, row->sandbox);
	put_text(st, 2, row->rule);
	put_u64(st, 3, row->until_ms);
	put_text(st, 4, row->who);
	put_u64(st, 5, row->created_ms);
	rc = stmt_run(r, ST_GRANT_ADD, "add a grant", e);
	stmt_quick(r);
	if (rc == 0)
		row->id = (uint64_t)sqlite3_last_insert_rowid(r->db);
	return rc;
}

int registry_grant_remove(struct registry *r, uint64_t id, struct err *e)
{
	put_u64(r->st[ST_GRANT_REMOVE], 1, id);
	return stmt_run(r, ST_GRANT_REMOVE, "remove a grant", e);
}

int registry_grants_sweep(struct registry *r, struct err *e)
{
	return stmt_run(r, ST_GRANT_SWEEP, "sweep the grants", e);
}

int registry_grant_each(struct registry *r,
			int (*fn)(void *arg, const struct grant_row *row),
			void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_GRANT_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_GRANT_LIST, "list the grants", e)) == 1) {
		struct grant_row row = {
			.id = get_u64(st, 0),
			.sandbox = get_text(st, 1),
			.rule = get_text(st, 2),
			.until_ms = get_u64(st, 3),
			.who = get_text(st, 4),
			.created_ms = get_u64(st, 5),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_GRANT_LIST);
	return rc;
}

/* --- what went through --- */

int registry_egress_put(struct registry *r, const struct egress_row *row,
			struct err *e)
{
	sqlite3_stmt *st = r->st[ST_EGRESS_PUT];

	put_text(st, 1, row->sandbox);
	put_text(st, 2, row->project);
	put_u64(st, 3, row->requests);
	put_u64(st, 4, row->denied);
	put_u64(st, 5, row->up_bytes);
	put_u64(st, 6, row->down_bytes);
	put_u64(st, 7, row->tokens_in);
	put_u64(st, 8, row->tokens_out);
	put_u64(st, 9, row->cost_micro);
	put_u64(st, 10, row->updated_ms);
	return stmt_run(r, ST_EGRESS_PUT, "write what went out", e);
}

/* The numbers of a row, which begin at column `i`. */
static void get_numbers(sqlite3_stmt *st, int i, struct egress_row *row)
{
	row->requests = get_u64(st, i);
	row->denied = get_u64(st, i + 1);
	row->up_bytes = get_u64(st, i + 2);
	row->down_bytes = get_u64(st, i + 3);
	row->tokens_in = get_u64(st, i + 4);
	row->tokens_out = get_u64(st, i + 5);
	row->cost_micro = get_u64(st, i + 6);
}

int registry_egress_get(struct registry *r, const char *sandbox,
			struct egress_row *row, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_EGRESS_GET];
	int rc;

	*row = (struct egress_row){ 0 };
	put_text(st, 1, sandbox);
	rc = stmt_row(r, ST_EGRESS_GET, "read what went out", e);
	if (rc == 1)
		get_numbers(st, 0, row);
	stmt_reset(r, ST_EGRESS_GET);
	return rc;
}

int registry_egress_sums(struct registry *r, const struct usage_filter *f,
			 int (*fn)(void *arg, const struct egress_row *sum),
			 void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_EGRESS_SUM];
	int rc;

	put_text(st, 1, f->project);
	put_text(st, 2, f->sandbox);
	put_u64(st, 3, f->since_ms);
	put_u64(st, 4, f->until_ms);
	while ((rc = stmt_row(r, ST_EGRESS_SUM, "add up what went out", e)) ==
	       1) {
		struct egress_row sum = { .sandbox = "",
					  .project = get_text(st, 0) };

		get_numbers(st, 1, &sum);
		rc = fn(arg, &sum);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_EGRESS_SUM);
	return rc;
}

int registry_egress_prune(struct registry *r, struct err *e)
{
	return stmt_run(r, ST_EGRESS_PRUNE, "forget what went out", e);
}

/* --- numbers --- */

int registry_numbers(struct registry *r, const char *name, uint64_t n,
		     uint64_t *last, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_NUMBERS];
	int rc = stmt_durable(r, e);

	if (rc < 0)
		return rc;
	put_text(st, 1, name);
	put_u64(st, 2, n);
	rc = stmt_row(r, ST_NUMBERS, "take numbers", e);
	if (rc == 1)
		*last = get_u64(st, 0);
	stmt_reset(r, ST_NUMBERS);
	stmt_quick(r);
	return rc == 1 ? 0 : rc < 0 ? rc : err_set(e, EIO, "take numbers");
}
