#include "registry/volumes.h"

#include "registry/stmt.h"

int registry_volume_add(struct registry *r, const struct volume_row *row,
			struct err *e)
{
	sqlite3_stmt *st = r->st[ST_VOLUME_ADD];

	put_text(st, 1, row->id);
	put_text(st, 2, row->project);
	put_text(st, 3, row->name);
	put_u64(st, 4, row->bytes);
	put_u64(st, 5, row->created_ms);
	return stmt_run_durable(r, ST_VOLUME_ADD, "add a volume", e);
}

int registry_volume_made(struct registry *r, const char *id, uint64_t bytes,
			 struct err *e)
{
	put_text(r->st[ST_VOLUME_MADE], 1, id);
	put_u64(r->st[ST_VOLUME_MADE], 2, bytes);
	return stmt_run_durable(r, ST_VOLUME_MADE, "change a volume", e);
}

int registry_volume_remove(struct registry *r, const char *id, struct err *e)
{
	put_text(r->st[ST_VOLUME_REMOVE], 1, id);
	return stmt_run_durable(r, ST_VOLUME_REMOVE, "remove a volume", e);
}

int registry_volume_each(struct registry *r,
			 int (*fn)(void *arg, const struct volume_row *row),
			 void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_VOLUME_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_VOLUME_LIST, "list the volumes", e)) == 1) {
		struct volume_row row = {
			.id = get_text(st, 0),
			.project = get_text(st, 1),
			.name = get_text(st, 2),
			.bytes = get_u64(st, 3),
			.created_ms = get_u64(st, 4),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_VOLUME_LIST);
	return rc;
}
