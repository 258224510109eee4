/*
 * SQLite in WAL mode with the file locked exclusively: api is the only user,
 * and without the shared index a commit costs one write(2). synchronous is
 * NORMAL, so that a create does not wait for the disk; changes of images
 * switch to FULL for their own commit. Checkpoints wait for the disk too and
 * are therefore never automatic.
 */
#include "registry/registry.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "registry/migrate.h"

enum { BUSY_MS = 3000 }; /* a dying predecessor may still hold the lock */

static const char *const steps[] = {
	"CREATE TABLE sandboxes ("
	" id TEXT PRIMARY KEY NOT NULL, name TEXT,"
	" image_id TEXT NOT NULL, image TEXT NOT NULL, spec TEXT NOT NULL,"
	" created_ms INTEGER NOT NULL, boot_id TEXT NOT NULL,"
	" deadline_boot_ms INTEGER NOT NULL,"
	" deadline_wall_ms INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE UNIQUE INDEX sandbox_names ON sandboxes (name)"
	" WHERE name IS NOT NULL;"
	"CREATE TABLE images ("
	" name TEXT PRIMARY KEY NOT NULL, id TEXT NOT NULL UNIQUE,"
	" size INTEGER NOT NULL, entries INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL) WITHOUT ROWID;",
};

static const char *const statements[] = {
	[ST_BOX_ADD] =
		"INSERT INTO sandboxes (id, name, image_id, image, spec,"
		" created_ms, boot_id, deadline_boot_ms, deadline_wall_ms)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
	[ST_BOX_REMOVE] = "DELETE FROM sandboxes WHERE id = ?1",
	[ST_BOX_CLEAR] = "DELETE FROM sandboxes",
	[ST_BOX_LIST] =
		"SELECT id, coalesce(name, ''), image_id, image, spec,"
		" created_ms, boot_id, deadline_boot_ms, deadline_wall_ms"
		" FROM sandboxes ORDER BY created_ms, id",
	[ST_IMAGE_PUT] = "REPLACE INTO images (name, id, size, entries,"
			 " created_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
	[ST_IMAGE_REMOVE] = "DELETE FROM images WHERE name = ?1",
	[ST_IMAGE_LIST] = "SELECT name, id, size, entries, created_ms"
			  " FROM images ORDER BY name",
};
static_assert(ARRAY_LEN(statements) == ST_COUNT, "a text for each statement");

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
		"PRAGMA temp_store = MEMORY",
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
	rc = migrate(r->db, path, steps, ARRAY_LEN(steps), e);
	if (rc < 0)
		return rc;
	/* A hook replaces the automatic checkpoints. */
	sqlite3_wal_hook(r->db, on_commit, r);
	for (i = 0; i < ARRAY_LEN(statements); i++)
		if (sqlite3_prepare_v3(r->db, statements[i], -1,
				       SQLITE_PREPARE_PERSISTENT, &r->st[i],
				       NULL))
			return sqlite_err(r->db, e, statements[i]);
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

static void put_text(sqlite3_stmt *st, int i, const char *s)
{
	/* SQLITE_STATIC: the caller's strings outlive the step. */
	sqlite3_bind_text(st, i, s, (int)strlen(s), SQLITE_STATIC);
}

static void put_u64(sqlite3_stmt *st, int i, uint64_t v)
{
	sqlite3_bind_int64(st, i, (sqlite3_int64)v);
}

static const char *get_text(sqlite3_stmt *st, int i)
{
	const char *s = (const char *)sqlite3_column_text(st, i);

	return s ? s : "";
}

static uint64_t get_u64(sqlite3_stmt *st, int i)
{
	return (uint64_t)sqlite3_column_int64(st, i);
}

/* One statement that returns no rows; then ready for its next use. */
static int run(struct registry *r, enum registry_stmt which, const char *what,
	       struct err *e)
{
	int rc = 0;

	if (sqlite3_step(r->st[which]) != SQLITE_DONE)
		rc = sqlite_err(r->db, e, what);
	sqlite3_reset(r->st[which]);
	sqlite3_clear_bindings(r->st[which]);
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
	return run(r, ST_BOX_ADD, "add a sandbox", e);
}

int registry_sandbox_remove(struct registry *r, const char *id, struct err *e)
{
	put_text(r->st[ST_BOX_REMOVE], 1, id);
	return run(r, ST_BOX_REMOVE, "remove a sandbox", e);
}

int registry_sandbox_clear(struct registry *r, struct err *e)
{
	return run(r, ST_BOX_CLEAR, "remove all sandboxes", e);
}

int registry_sandbox_each(struct registry *r,
			  int (*fn)(void *arg, const struct sandbox_row *row),
			  void *arg, struct err *e)
{
	sqlite3_stmt *st = r->st[ST_BOX_LIST];
	int rc, stop = 0;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW && stop == 0) {
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
		};

		stop = fn(arg, &row);
	}
	if (stop == 0 && rc != SQLITE_DONE)
		stop = sqlite_err(r->db, e, "list the sandboxes");
	sqlite3_reset(st);
	return stop;
}

/* A commit that waits for the disk. */
static int run_durable(struct registry *r, enum registry_stmt which,
		       const char *what, struct err *e)
{
	struct err ignored = { 0 };
	int rc = pragma(r, "PRAGMA synchronous = FULL", e);

	if (rc < 0)
		return rc;
	rc = run(r, which, what, e);
	/* Cannot fail outside of a transaction; FULL would only be slower. */
	(void)pragma(r, "PRAGMA synchronous = NORMAL", &ignored);
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
	int rc, stop = 0;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW && stop == 0) {
		struct image_row row = {
			.name = get_text(st, 0),
			.id = get_text(st, 1),
			.size = get_u64(st, 2),
			.entries = get_u64(st, 3),
			.created_ms = get_u64(st, 4),
		};

		stop = fn(arg, &row);
	}
	if (stop == 0 && rc != SQLITE_DONE)
		stop = sqlite_err(r->db, e, "list the images");
	sqlite3_reset(st);
	return stop;
}

int registry_checkpoint(struct registry *r, struct err *e)
{
	if (sqlite3_wal_checkpoint_v2(r->db, NULL, SQLITE_CHECKPOINT_PASSIVE,
				      NULL, NULL))
		return sqlite_err(r->db, e, "checkpoint");
	r->wal_pages = 0;
	return 0;
}
