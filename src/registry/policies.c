#include "registry/policies.h"

#include "registry/stmt.h"

int registry_policy_put(struct registry *r, const struct policy_row *row,
			struct err *e)
{
	sqlite3_stmt *st = r->st[ST_POLICY_PUT];

	put_text(st, 1, row->project);
	put_text(st, 2, row->name);
	put_text(st, 3, row->text);
	put_u64(st, 4, row->updated_ms);
	return stmt_run_durable(r, ST_POLICY_PUT, "keep a policy", e);
}

int registry_policy_remove(struct registry *r, const char *project,
			   const char *name, struct err *e)
{
	put_text(r->st[ST_POLICY_REMOVE], 1, project);
	put_text(r->st[ST_POLICY_REMOVE], 2, name);
	return stmt_run_durable(r, ST_POLICY_REMOVE, "remove a policy", e);
}

int registry_policy_each(struct registry *r,
			 int (*fn)(void *arg, const struct policy_row *row),
			 void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_POLICY_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_POLICY_LIST, "list the policies", e)) ==
	       1) {
		struct policy_row row = {
			.project = get_text(st, 0),
			.name = get_text(st, 1),
			.text = get_text(st, 2),
			.updated_ms = get_u64(st, 3),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_POLICY_LIST);
	return rc;
}
