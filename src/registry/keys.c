/* Projects, and the keys that open them. A key itself is never stored. */
#include "registry/stmt.h"

static int add_key(struct registry *r, const struct key_row *row, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_KEY_ADD];
	int rc = 0;

	if (*row->project) {
		put_text(r->st[ST_PROJECT_ADD], 1, row->project);
		put_u64(r->st[ST_PROJECT_ADD], 2, row->created_ms);
		rc = stmt_run(r, ST_PROJECT_ADD, "add a project", e);
	}
	if (rc < 0)
		return rc;
	put_text(st, 1, row->id);
	put_hash(st, 2, row->hash);
	put_text(st, 3, row->name);
	put_text(st, 4, row->project);
	put_u64(st, 5, row->scope);
	put_u64(st, 6, row->created_ms);
	put_u64(st, 7, row->used_ms);
	return stmt_run(r, ST_KEY_ADD, "add a key", e);
}

int registry_key_add(struct registry *r, const struct key_row *row,
		     struct err *e)
{
	int rc = stmt_durable(r, e);

	if (rc < 0)
		return rc;
	rc = registry_begin(r, e);
	if (rc == 0)
		rc = registry_end(r, add_key(r, row, e), e);
	stmt_quick(r);
	return rc;
}

int registry_key_remove(struct registry *r, const char *id, struct err *e)
{
	int rc = stmt_durable(r, e);

	if (rc < 0)
		return rc;
	put_text(r->st[ST_KEY_REMOVE], 1, id);
	rc = stmt_run(r, ST_KEY_REMOVE, "remove a key", e);
	stmt_quick(r);
	return rc;
}

int registry_key_used(struct registry *r, const char *id, uint64_t used_ms,
		      struct err *e)
{
	put_text(r->st[ST_KEY_USED], 1, id);
	put_u64(r->st[ST_KEY_USED], 2, used_ms);
	return stmt_run(r, ST_KEY_USED, "note the use of a key", e);
}

int registry_key_each(struct registry *r,
		      int (*fn)(void *arg, const struct key_row *row),
		      void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_KEY_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_KEY_LIST, "list the keys", e)) == 1) {
		struct key_row row = {
			.id = get_text(st, 0),
			.name = get_text(st, 2),
			.project = get_text(st, 3),
			.scope = (unsigned)get_u64(st, 4),
			.created_ms = get_u64(st, 5),
			.used_ms = get_u64(st, 6),
		};

		get_hash(st, 1, row.hash);
		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_KEY_LIST);
	return rc;
}

int registry_project_each(struct registry *r,
			  int (*fn)(void *arg, const char *name,
				    uint64_t created_ms),
			  void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_PROJECT_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_PROJECT_LIST, "list projects", e)) == 1) {
		rc = fn(arg, get_text(st, 0), get_u64(st, 1));
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_PROJECT_LIST);
	return rc;
}
