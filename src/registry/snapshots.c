/* Snapshots of the disks of sandboxes. */
#include "registry/stmt.h"

int registry_snapshot_put(struct registry *r, const struct snapshot_row *row,
			  struct err *e)
{
	sqlite3_stmt *st = r->st[ST_SNAPSHOT_PUT];

	put_text(st, 1, row->id);
	put_text(st, 2, row->project);
	if (*row->name) /* NULL otherwise: not in the index of names */
		put_text(st, 3, row->name);
	put_text(st, 4, row->kind);
	put_text(st, 5, row->sandbox);
	put_text(st, 6, row->base);
	put_text(st, 7, row->image_id);
	put_text(st, 8, row->image);
	put_text(st, 9, row->spec);
	put_u64(st, 10, row->bytes);
	put_u64(st, 11, row->pause_us);
	put_u64(st, 12, row->event);
	put_u64(st, 13, row->created_ms);
	put_text(st, 14, row->account ? row->account : "");
	return stmt_run(r, ST_SNAPSHOT_PUT, "add a snapshot", e);
}

int registry_snapshot_remove(struct registry *r, const char *id, struct err *e)
{
	put_text(r->st[ST_SNAPSHOT_REMOVE], 1, id);
	return stmt_run(r, ST_SNAPSHOT_REMOVE, "remove a snapshot", e);
}

int registry_snapshot_each(struct registry *r,
			   int (*fn)(void *arg, const struct snapshot_row *row),
			   void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_SNAPSHOT_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_SNAPSHOT_LIST, "list snapshots", e)) == 1) {
		struct snapshot_row row = {
			.id = get_text(st, 0),
			.project = get_text(st, 1),
			.name = get_text(st, 2),
			.kind = get_text(st, 3),
			.sandbox = get_text(st, 4),
			.base = get_text(st, 5),
			.image_id = get_text(st, 6),
			.image = get_text(st, 7),
			.spec = get_text(st, 8),
			.bytes = get_u64(st, 9),
			.pause_us = get_u64(st, 10),
			.event = get_u64(st, 11),
			.created_ms = get_u64(st, 12),
			.account = get_text(st, 13),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_SNAPSHOT_LIST);
	return rc;
}
