#include "registry/templates.h"

#include "registry/stmt.h"

int registry_template_put(struct registry *r, const struct template_row *row,
			  struct err *e)
{
	sqlite3_stmt *st = r->st[ST_TEMPLATE_PUT];

	put_text(st, 1, row->id);
	put_text(st, 2, row->project);
	put_text(st, 3, row->name);
	put_text(st, 4, row->tags);
	put_u64(st, 5, row->created_ms);
	put_u64(st, 6, row->updated_ms);
	return stmt_run_durable(r, ST_TEMPLATE_PUT, "write a template", e);
}

int registry_template_remove(struct registry *r, const char *id, struct err *e)
{
	put_text(r->st[ST_TEMPLATE_REMOVE], 1, id);
	return stmt_run_durable(r, ST_TEMPLATE_REMOVE, "remove a template", e);
}

int registry_template_each(struct registry *r,
			   int (*fn)(void *arg, const struct template_row *row),
			   void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_TEMPLATE_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_TEMPLATE_LIST, "list the templates", e)) ==
	       1) {
		struct template_row row = {
			.id = get_text(st, 0),
			.project = get_text(st, 1),
			.name = get_text(st, 2),
			.tags = get_text(st, 3),
			.created_ms = get_u64(st, 4),
			.updated_ms = get_u64(st, 5),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_TEMPLATE_LIST);
	return rc;
}

int registry_build_put(struct registry *r, const struct build_row *row,
		       struct err *e)
{
	sqlite3_stmt *st = r->st[ST_BUILD_PUT];

	put_text(st, 1, row->id);
	put_text(st, 2, row->template_id);
	put_text(st, 3, row->state);
	put_text(st, 4, row->snapshot);
	put_text(st, 5, row->about);
	put_u64(st, 6, row->created_ms);
	put_u64(st, 7, row->finished_ms);
	return stmt_run_durable(r, ST_BUILD_PUT, "write a build", e);
}

int registry_build_remove(struct registry *r, const char *id, struct err *e)
{
	put_text(r->st[ST_BUILD_REMOVE], 1, id);
	return stmt_run_durable(r, ST_BUILD_REMOVE, "remove a build", e);
}

int registry_build_each(struct registry *r,
			int (*fn)(void *arg, const struct build_row *row),
			void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_BUILD_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_BUILD_LIST, "list the builds", e)) == 1) {
		struct build_row row = {
			.id = get_text(st, 0),
			.template_id = get_text(st, 1),
			.state = get_text(st, 2),
			.snapshot = get_text(st, 3),
			.about = get_text(st, 4),
			.created_ms = get_u64(st, 5),
			.finished_ms = get_u64(st, 6),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_BUILD_LIST);
	return rc;
}

int registry_step_put(struct registry *r, const struct step_row *row,
		      struct err *e)
{
	sqlite3_stmt *st = r->st[ST_STEP_PUT];

	put_text(st, 1, row->project);
	put_text(st, 2, row->key);
	put_text(st, 3, row->snapshot);
	put_text(st, 4, row->about);
	put_u64(st, 5, row->used_ms);
	return stmt_run(r, ST_STEP_PUT, "write a step", e);
}

int registry_step_remove(struct registry *r, const char *project,
			 const char *key, struct err *e)
{
	put_text(r->st[ST_STEP_REMOVE], 1, project);
	put_text(r->st[ST_STEP_REMOVE], 2, key);
	return stmt_run(r, ST_STEP_REMOVE, "remove a step", e);
}

int registry_step_each(struct registry *r,
		       int (*fn)(void *arg, const struct step_row *row),
		       void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_STEP_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_STEP_LIST, "list the steps", e)) == 1) {
		struct step_row row = {
			.project = get_text(st, 0),
			.key = get_text(st, 1),
			.snapshot = get_text(st, 2),
			.about = get_text(st, 3),
			.used_ms = get_u64(st, 4),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_STEP_LIST);
	return rc;
}
