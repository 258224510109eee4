/*
 * SQLite in WAL mode with the file locked exclusively: api is the only user,
 * and without the shared index a commit costs one write(2). synchronous is
 * NORMAL, so that a create does not wait for the disk; changes of images, keys
 * and of what is to survive the host switch to FULL for their own commit.
 * Checkpoints wait for the disk too and are therefore never automatic.
 */
#include "registry/registry.h"

#include <errno.h>

#include "base/auto.h"
#include "registry/migrate.h"
#include "registry/stmt.h"

enum { BUSY_MS = 3000 }; /* a dying predecessor may still hold the lock */

static int on_commit(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct registry *r = arg;

	(void)db;
	(void)name;
	r->wal_pages = pages > 0 ? (unsigned)pages : 0;
	return SQLITE_OK;
}

static int pragma(struct registry *r, const char *sql, struct err *e)
{
	if (sqlite3_exec(r->db, sql, NULL, NULL, NULL))
		return sqlite_err(r->db, e, sql);
	return 0;
}

static int set_up(struct registry *r, const char *path, struct err *e)
{
	static const char *const pragmas[] = {
		"PRAGMA locking_mode = EXCLUSIVE",
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = NORMAL",
		"PRAGMA wal_autocheckpoint = 0",
		/* The log shrinks to this size after a checkpoint. */
		"PRAGMA journal_size_limit = 4194304",
		"PRAGMA temp_store = MEMORY",
		"PRAGMA secure_delete = ON",
		"PRAGMA trusted_schema = OFF",
	};
	size_t i;
	int rc;

	sqlite3_busy_timeout(r->db, BUSY_MS);
	for (i = 0; i < ARRAY_LEN(pragmas); i++) {
		rc = pragma(r, pragmas[i], e);
		if (rc < 0)
			return rc;
	}
	rc = migrate(r->db, path, registry_steps, REGISTRY_VERSION, e);
	if (rc < 0)
		return rc;
	/* A hook replaces the automatic checkpoints. */
	sqlite3_wal_hook(r->db, on_commit, r);
	for (i = 0; i < ST_COUNT; i++)
		if (sqlite3_prepare_v3(r->db, registry_statements[i], -1,
				       SQLITE_PREPARE_PERSISTENT, &r->st[i],
				       NULL))
			return sqlite_err(r->db, e, registry_statements[i]);
	return 0;
}

int registry_open(struct registry *r, const char *path, struct err *e)
{
	int rc;

	*r = (struct registry){ 0 };
	if (sqlite3_open_v2(path, &r->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
				    SQLITE_OPEN_NOMUTEX,
			    NULL)) {
		rc = r->db ? sqlite_err(r->db, e, "open")
			   : err_set(e, ENOMEM, "registry: no memory");
	} else {
		rc = set_up(r, path, e);
	}
	if (rc < 0) {
		registry_close(r);
		return err_wrap(e, "%s", path);
	}
	return 0;
}

void registry_close(struct registry *r)
{
	size_t i;

	for (i = 0; i < ST_COUNT; i++)
		sqlite3_finalize(r->st[i]);
	sqlite3_close(r->db);
	*r = (struct registry){ 0 };
}

void stmt_reset(struct registry *r, enum registry_stmt which)
{
	sqlite3_reset(r->st[which]);
	sqlite3_clear_bindings(r->st[which]);
}

int stmt_row(struct registry *r, enum registry_stmt which, const char *what,
	     struct err *e)
{
	int rc = sqlite3_step(r->st[which]);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc == SQLITE_DONE)
		return 0;
	r->failed = true;
	return sqlite_err(r->db, e, what);
}

int stmt_run(struct registry *r, enum registry_stmt which, const char *what,
	     struct err *e)
{
	int rc = stmt_row(r, which, what, e);

	stmt_reset(r, which);
	return rc < 0 ? rc : 0;
}

int stmt_durable(struct registry *r, struct err *e)
{
	return pragma(r, "PRAGMA synchronous = FULL", e);
}

void stmt_quick(struct registry *r)
{
	struct err ignored = { 0 };

	/* Cannot fail outside of a transaction; FULL would only be slower. */
	(void)pragma(r, "PRAGMA synchronous = NORMAL", &ignored);
}

int stmt_run_durable(struct registry *r, enum registry_stmt which,
		     const char *what, struct err *e)
{
	int rc = stmt_durable(r, e);

	if (rc < 0) {
		stmt_reset(r, which);
		return rc;
	}
	rc = stmt_run(r, which, what, e);
	stmt_quick(r);
	return rc;
}

/*
 * A copy belongs to no pool: the host that restores it may have another pool,
 * and this pool changes after the copy.
 */
int registry_copy(struct registry *r, const char *path, struct err *e)
{
	sqlite3 *copy = NULL;
	int rc = sqlite_copy(r->db, path, e);

	if (rc < 0)
		return rc;
	if (sqlite3_open_v2(path, &copy, SQLITE_OPEN_READWRITE, NULL) ||
	    sqlite3_exec(copy, "DELETE FROM pool; DELETE FROM strays", NULL,
			 NULL, NULL))
		rc = sqlite_err(copy, e, "finish the copy");
	sqlite3_close(copy);
	return rc;
}

int registry_begin(struct registry *r, struct err *e)
{
	int rc = 0;

	if (r->depth == 0)
		rc = stmt_run(r, ST_BEGIN, "begin", e);
	if (rc < 0)
		return rc;
	if (r->depth++ == 0)
		r->failed = false;
	return 0;
}

int registry_begin_durable(struct registry *r, struct err *e)
{
	int rc = stmt_durable(r, e);

	if (rc < 0)
		return rc;
	rc = registry_begin(r, e);
	if (rc < 0)
		stmt_quick(r);
	r->durable = rc == 0;
	return rc;
}

int registry_end(struct registry *r, int rc, struct err *e)
{
	if (rc < 0)
		r->failed = true;
	if (--r->depth > 0)
		return rc;
	if (!r->failed)
		rc = stmt_run(r, ST_COMMIT, "commit", e);
	else if (rc == 0)
		rc = err_set(e, EIO, "registry: some of it failed");
	/* A full disk may have rolled it back already. */
	if (rc < 0 && !sqlite3_get_autocommit(r->db))
		sqlite3_exec(r->db, "ROLLBACK", NULL, NULL, NULL);
	if (r->durable)
		stmt_quick(r);
	r->durable = false;
	return rc;
}

int registry_sandbox_add(struct registry *r, const struct sandbox_row *row,
			 struct err *e)
{
	sqlite3_stmt *st = r->st[ST_BOX_ADD];

	put_text(st, 1, row->id);
	if (*row->name) /* NULL otherwise: not in the index of names */
		put_text(st, 2, row->name);
	put_text(st, 3, row->image_id);
	put_text(st, 4, row->image);
	put_text(st, 5, row->spec);
	put_u64(st, 6, row->created_ms);
	put_text(st, 7, row->boot_id);
	put_u64(st, 8, row->deadline_boot_ms);
	put_u64(st, 9, row->deadline_wall_ms);
	put_text(st, 10, row->project);
	put_text(st, 11, row->state);
	put_text(st, 12, row->disk);
	put_text(st, 13, row->base);
	put_text(st, 14, row->parent);
	put_text(st, 15, row->account ? row->account : "");
	return stmt_run(r, ST_BOX_ADD, "add a sandbox", e);
}

int registry_sandbox_update(struct registry *r, const struct sandbox_row *row,
			    struct err *e)
{
	sqlite3_stmt *st = r->st[ST_BOX_UPDATE];

	put_text(st, 1, row->id);
	put_text(st, 2, row->spec);
	put_u64(st, 3, row->deadline_boot_ms);
	put_u64(st, 4, row->deadline_wall_ms);
	put_text(st, 5, row->boot_id);
	put_text(st, 6, row->state);
	put_text(st, 7, row->disk);
	put_text(st, 8, row->base);
	return stmt_run(r, ST_BOX_UPDATE, "change a sandbox", e);
}

int registry_sandbox_remove(struct registry *r, const char *id, struct err *e)
{
	put_text(r->st[ST_BOX_REMOVE], 1, id);
	return stmt_run(r, ST_BOX_REMOVE, "remove a sandbox", e);
}

int registry_sandbox_each(struct registry *r,
			  int (*fn)(void *arg, const struct sandbox_row *row),
			  void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_BOX_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_BOX_LIST, "list the sandboxes", e)) == 1) {
		struct sandbox_row row = {
			.id = get_text(st, 0),
			.name = get_text(st, 1),
			.image_id = get_text(st, 2),
			.image = get_text(st, 3),
			.spec = get_text(st, 4),
			.created_ms = get_u64(st, 5),
			.boot_id = get_text(st, 6),
			.deadline_boot_ms = get_u64(st, 7),
			.deadline_wall_ms = get_u64(st, 8),
			.project = get_text(st, 9),
			.state = get_text(st, 10),
			.disk = get_text(st, 11),
			.base = get_text(st, 12),
			.parent = get_text(st, 13),
			.account = get_text(st, 14),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_BOX_LIST);
	return rc;
}

/* A commit that waits for the disk. */
static int run_durable(struct registry *r, enum registry_stmt which,
		       const char *what, struct err *e)
{
	int rc = stmt_durable(r, e);

	if (rc < 0) {
		stmt_reset(r, which);
		return rc;
	}
	rc = stmt_run(r, which, what, e);
	stmt_quick(r);
	return rc;
}

int registry_image_put(struct registry *r, const struct image_row *row,
		       struct err *e)
{
	sqlite3_stmt *st = r->st[ST_IMAGE_PUT];

	put_text(st, 1, row->name);
	put_text(st, 2, row->id);
	put_u64(st, 3, row->size);
	put_u64(st, 4, row->entries);
	put_u64(st, 5, row->created_ms);
	put_text(st, 6, row->config);
	put_text(st, 7, row->cache);
	return run_durable(r, ST_IMAGE_PUT, "add an image", e);
}

int registry_image_remove(struct registry *r, const char *name, struct err *e)
{
	put_text(r->st[ST_IMAGE_REMOVE], 1, name);
	return run_durable(r, ST_IMAGE_REMOVE, "remove an image", e);
}

int registry_image_each(struct registry *r,
			int (*fn)(void *arg, const struct image_row *row),
			void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_IMAGE_LIST];
	int rc;

	while ((rc = stmt_row(r, ST_IMAGE_LIST, "list the images", e)) == 1) {
		struct image_row row = {
			.name = get_text(st, 0),
			.id = get_text(st, 1),
			.size = get_u64(st, 2),
			.entries = get_u64(st, 3),
			.created_ms = get_u64(st, 4),
			.config = get_text(st, 5),
			.cache = get_text(st, 6),
		};

		rc = fn(arg, &row);
		if (rc != 0)
			break;
	}
	stmt_reset(r, ST_IMAGE_LIST);
	return rc;
}

int registry_checkpoint(struct registry *r, struct err *e)
{
	if (sqlite3_wal_checkpoint_v2(r->db, NULL, SQLITE_CHECKPOINT_PASSIVE,
				      NULL, NULL))
		return sqlite_err(r->db, e, "checkpoint");
	r->wal_pages = 0;
	return 0;
}
