#include "registry/drive.h"

#include <errno.h>
#include <stdio.h>

#include "registry/stmt.h"

static void take_row(sqlite3_stmt *st, struct drive_row *out)
{
	*out = (struct drive_row){
		.version = get_u64(st, 2),
		.removed = get_u64(st, 3),
		.size = get_u64(st, 5),
		.created_ms = get_u64(st, 8),
	};
	snprintf(out->project, sizeof(out->project), "%s", get_text(st, 0));
	snprintf(out->path, sizeof(out->path), "%s", get_text(st, 1));
	snprintf(out->sha256, sizeof(out->sha256), "%s", get_text(st, 4));
	snprintf(out->who, sizeof(out->who), "%s", get_text(st, 6));
	snprintf(out->sandbox, sizeof(out->sandbox), "%s", get_text(st, 7));
}

static int insert(struct registry *r, const struct drive_row *row,
		  struct err *e)
{
	sqlite3_stmt *st = r->st[ST_DRIVE_ADD];

	put_text(st, 1, row->project);
	put_text(st, 2, row->path);
	put_u64(st, 3, row->version);
	put_u64(st, 4, row->removed);
	put_text(st, 5, row->sha256);
	put_u64(st, 6, row->size);
	put_text(st, 7, row->who);
	put_text(st, 8, row->sandbox);
	put_u64(st, 9, row->created_ms);
	return stmt_run(r, ST_DRIVE_ADD, "add a file of the drive", e);
}

static void put_range(struct registry *r, enum registry_stmt which,
		      const char *project, const char *path, uint64_t last)
{
	put_text(r->st[which], 1, project);
	put_text(r->st[which], 2, path);
	put_u64(r->st[which], 3, last);
}

static int forget_rows(struct registry *r, const struct drive_row *of,
		       uint64_t last, drive_object_fn *gone, void *arg,
		       struct err *e)
{
	const enum registry_stmt old = ST_DRIVE_OLD;
	int rc;

	put_range(r, old, of->project, of->path, last);
	while ((rc = stmt_row(r, old, "look for old versions", e)) == 1)
		if (gone(arg, get_text(r->st[old], 0), get_u64(r->st[old], 1)))
			break;
	stmt_reset(r, old);
	if (rc < 0)
		return rc;
	put_range(r, ST_DRIVE_FORGET, of->project, of->path, last);
	return stmt_run(r, ST_DRIVE_FORGET, "forget old versions", e);
}

int registry_drive_add(struct registry *r, const struct drive_row *row,
		       uint64_t forget, drive_object_fn *gone, void *arg,
		       struct err *e)
{
	int rc = stmt_durable(r, e);

	if (rc < 0)
		return rc;
	rc = registry_begin(r, e);
	if (rc == 0) {
		rc = insert(r, row, e);
		if (rc == 0 && forget > 0)
			rc = forget_rows(r, row, forget, gone, arg, e);
		rc = registry_end(r, rc, e);
	}
	stmt_quick(r);
	return rc;
}

int registry_drive_forget(struct registry *r, const struct drive_row *last,
			  drive_object_fn *gone, void *arg, struct err *e)
{
	int rc = stmt_durable(r, e);

	if (rc < 0)
		return rc;
	rc = registry_begin(r, e);
	if (rc == 0) {
		rc = forget_rows(r, last, last->version, gone, arg, e);
		rc = registry_end(r, rc, e);
	}
	stmt_quick(r);
	return rc;
}

static int one_row(struct registry *r, enum registry_stmt which,
		   struct drive_row *out, struct err *e)
{
	int rc = stmt_row(r, which, "look for a file of the drive", e);

	if (rc == 1)
		take_row(r->st[which], out);
	stmt_reset(r, which);
	return rc;
}

int registry_drive_get(struct registry *r, const char *project,
		       const char *path, uint64_t version,
		       struct drive_row *out, struct err *e)
{
	put_range(r, ST_DRIVE_GET, project, path, version);
	return one_row(r, ST_DRIVE_GET, out, e);
}

int registry_drive_next(struct registry *r, const struct drive_range *range,
			struct drive_row *out, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_DRIVE_NEXT];
	const char *prefix = range->prefix, *from = range->from;

	put_text(st, 1, range->project);
	put_text(st, 2, strcmp(prefix, from) > 0 ? prefix : from);
	put_text(st, 3, prefix);
	put_u64(st, 4, range->removed);
	return one_row(r, ST_DRIVE_NEXT, out, e);
}

int registry_drive_versions(struct registry *r, const char *project,
			    const char *path,
			    int (*fn)(void *arg, const struct drive_row *row),
			    void *arg, struct err *e)
{
	const enum registry_stmt which = ST_DRIVE_VERSIONS;
	struct drive_row row;
	int rc;

	put_text(r->st[which], 1, project);
	put_text(r->st[which], 2, path);
	while ((rc = stmt_row(r, which, "list versions", e)) == 1) {
		take_row(r->st[which], &row);
		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, which);
	return rc;
}

int registry_drive_usage(struct registry *r, const char *project,
			 uint64_t *bytes, uint64_t *rows, struct err *e)
{
	const enum registry_stmt which = ST_DRIVE_USAGE;
	int rc;

	put_text(r->st[which], 1, project);
	rc = stmt_row(r, which, "sum up the drive", e);
	if (rc == 1) {
		*bytes = get_u64(r->st[which], 0);
		*rows = get_u64(r->st[which], 1);
	}
	stmt_reset(r, which);
	return rc < 0 ? rc : 0;
}

int registry_drive_refers(struct registry *r, const char *project,
			  const char *sha256, struct err *e)
{
	const enum registry_stmt which = ST_DRIVE_REFERS;
	int rc;

	put_text(r->st[which], 1, project);
	put_text(r->st[which], 2, sha256);
	rc = stmt_row(r, which, "look for a content of the drive", e);
	stmt_reset(r, which);
	return rc;
}
