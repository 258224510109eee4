/*
 * The registry: what users were told. Sandboxes with spec, name and deadline;
 * images with their names. One SQLite file, used by the api role only.
 *
 * Sandboxes survive a crash of ours but not of the host (they do not either);
 * an image that was acknowledged survives both.
 */
#pragma once

#include <sqlite3.h>
#include <stdint.h>

#include "base/err.h"

enum registry_stmt {
	ST_BOX_ADD,
	ST_BOX_REMOVE,
	ST_BOX_CLEAR,
	ST_BOX_LIST,
	ST_IMAGE_PUT,
	ST_IMAGE_REMOVE,
	ST_IMAGE_LIST,
	ST_COUNT
};

struct registry {
	sqlite3 *db;
	sqlite3_stmt *st[ST_COUNT];
	unsigned wal_pages; /* waiting in the write-ahead log */
};

/* The strings of a row that is read are valid during the callback only. */
struct sandbox_row {
	const char *id;
	const char *name; /* "": none */
	const char *image_id, *image;
	const char *spec; /* JSON */
	uint64_t created_ms;
	/*
	 * The deadline, or all zero. The boot time counts while the boot is
	 * the one named; the wall time is for people, and after a reboot.
	 */
	const char *boot_id;
	uint64_t deadline_boot_ms, deadline_wall_ms;
};

struct image_row {
	const char *name, *id;
	uint64_t size, entries, created_ms;
};

/* Opens or makes the file; `path` ":memory:" is for tests. */
int registry_open(struct registry *r, const char *path,
		  struct err *e) MUST_CHECK;
void registry_close(struct registry *r);

/* EEXIST: the id or the name is taken. */
int registry_sandbox_add(struct registry *r, const struct sandbox_row *row,
			 struct err *e) MUST_CHECK;
/* Removing what is not there is no error. */
int registry_sandbox_remove(struct registry *r, const char *id,
			    struct err *e) MUST_CHECK;
int registry_sandbox_clear(struct registry *r, struct err *e) MUST_CHECK;
/* `fn` returns 0 to go on; anything else ends the loop and is returned. */
int registry_sandbox_each(struct registry *r,
			  int (*fn)(void *arg, const struct sandbox_row *row),
			  void *arg, struct err *e) MUST_CHECK;

/* Both are on disk when they return. A name that is taken is replaced. */
int registry_image_put(struct registry *r, const struct image_row *row,
		       struct err *e) MUST_CHECK;
int registry_image_remove(struct registry *r, const char *name,
			  struct err *e) MUST_CHECK;
int registry_image_each(struct registry *r,
			int (*fn)(void *arg, const struct image_row *row),
			void *arg, struct err *e) MUST_CHECK;

/*
 * Moves the write-ahead log into the file: waits for the disk, so it is called
 * when nobody is waiting, or when `wal_pages` has become large.
 */
int registry_checkpoint(struct registry *r, struct err *e) MUST_CHECK;
