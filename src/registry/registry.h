/*
 * The registry: what users were told. Projects with their keys; sandboxes with
 * spec, name and deadline, and for a while how they ended; what they have
 * used; images with their names. One SQLite file, used by the api role only.
 *
 * Sandboxes survive a crash of ours but not of the host (they do not either);
 * a key or an image that was acknowledged survives both.
 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "registry/schema.h"

struct registry {
	sqlite3 *db;
	sqlite3_stmt *st[ST_COUNT];
	unsigned wal_pages; /* waiting in the write-ahead log */
	unsigned depth;     /* of registry_begin() */
	bool failed;        /* something since then */
	bool durable;       /* the commit waits for the disk */
};

enum { REGISTRY_HASH = 32 };

/* The strings of a row that is read are valid during the callback only. */
struct sandbox_row {
	const char *id, *project;
	const char *name; /* "": none */
	const char *image_id, *image;
	const char *spec; /* JSON */
	uint64_t created_ms;
	/*
	 * The deadline, or all zero, counts in the boot that is named. The
	 * wall time is for people.
	 */
	const char *boot_id;
	uint64_t deadline_boot_ms, deadline_wall_ms;
	const char *state;         /* "running", "paused" or "suspended" */
	const char *disk;          /* snapshot that its disk is; "": its own */
	const char *base, *parent; /* where it comes from; "": the image */
	const char *account;       /* that it draws on; "" or NULL: its own */
};

struct snapshot_row {
	const char *id, *project;
	const char *name; /* "": none */
	const char *kind, *sandbox, *base, *image_id, *image;
	const char *account; /* of its sandbox; "": the one with its id */
	const char *spec;    /* JSON */
	uint64_t bytes, pause_us, event, created_ms;
};

struct image_row {
	const char *name, *id;
	uint64_t size, entries, created_ms;
	const char *config; /* JSON, or "": what it wants of its processes */
	const char *cache;  /* the build step that made it, or "" */
};

struct key_row {
	const char *id, *name;
	const char *project; /* "": of all */
	unsigned char hash[REGISTRY_HASH];
	unsigned scope;
	uint64_t created_ms;
	uint64_t used_ms; /* 0: never */
};

struct ended_row {
	const char *id, *name, *project, *image, *reason;
	uint64_t created_ms, ended_ms;
	uint64_t record; /* of the log's spool that says so, or is to */
};

struct usage_row {
	const char *sandbox, *project;
	uint64_t cpu_us, mem_byte_s, disk_byte_s, output_bytes;
	uint64_t started_ms, updated_ms;
	uint64_t ended_ms;   /* 0: it lives */
	const char *account; /* that it draws on; set when it is written */
};

struct usage_sum {
	const char *project;
	uint64_t sandboxes;
	double cpu_us, mem_byte_s, disk_byte_s, output_bytes;
};

/* Which rows of the usage: those that overlap the time; "": all. */
struct usage_filter {
	const char *project, *sandbox;
	uint64_t since_ms, until_ms;
	unsigned limit; /* the newest ones */
};

/* The answer to a create that a client may ask for once more. */
struct replay_row {
	const char *project, *key;
	unsigned char digest[REGISTRY_HASH]; /* of the request's body */
	const char *answer;
	uint64_t created_ms;
};

/* Opens or makes the file; `path` ":memory:" is for tests. */
int registry_open(struct registry *r, const char *path,
		  struct err *e) MUST_CHECK;
void registry_close(struct registry *r);
/* A consistent copy in a new file; one that is there is replaced. */
int registry_copy(struct registry *r, const char *path,
		  struct err *e) MUST_CHECK;

/*
 * What is done between the two is one commit, or undone when any of it failed.
 * They nest; the outermost counts. `rc` is what the work returned; when it is
 * 0, the result of the commit is returned instead.
 */
int registry_begin(struct registry *r, struct err *e) MUST_CHECK;
/* The same; all of it is on disk when registry_end() returns. Outermost. */
int registry_begin_durable(struct registry *r, struct err *e) MUST_CHECK;
int registry_end(struct registry *r, int rc, struct err *e) MUST_CHECK;

/* EEXIST: the id is taken, or the name in its project. */
int registry_sandbox_add(struct registry *r, const struct sandbox_row *row,
			 struct err *e) MUST_CHECK;
/* What may change of the row with this id: spec, deadline, state, disk, base.
 */
int registry_sandbox_update(struct registry *r, const struct sandbox_row *row,
			    struct err *e) MUST_CHECK;
/* Removing what is not there is no error. */
int registry_sandbox_remove(struct registry *r, const char *id,
			    struct err *e) MUST_CHECK;
/* `fn` returns 0 to go on; anything else ends the loop and is returned. */
int registry_sandbox_each(struct registry *r,
			  int (*fn)(void *arg, const struct sandbox_row *row),
			  void *arg, struct err *e) MUST_CHECK;

/* Adds it, or changes name, kind and base. EEXIST: its project has the name. */
int registry_snapshot_put(struct registry *r, const struct snapshot_row *row,
			  struct err *e) MUST_CHECK;
/* Removing what is not there is no error. */
int registry_snapshot_remove(struct registry *r, const char *id,
			     struct err *e) MUST_CHECK;
/* The oldest first. */
int registry_snapshot_each(struct registry *r,
			   int (*fn)(void *arg, const struct snapshot_row *row),
			   void *arg, struct err *e) MUST_CHECK;

/* Both are on disk when they return. A name that is taken is replaced. */
int registry_image_put(struct registry *r, const struct image_row *row,
		       struct err *e) MUST_CHECK;
int registry_image_remove(struct registry *r, const char *name,
			  struct err *e) MUST_CHECK;
int registry_image_each(struct registry *r,
			int (*fn)(void *arg, const struct image_row *row),
			void *arg, struct err *e) MUST_CHECK;

/* On disk when it returns. The project is made if it is new; EEXIST. */
int registry_key_add(struct registry *r, const struct key_row *row,
		     struct err *e) MUST_CHECK;
/* On disk when it returns. */
int registry_key_remove(struct registry *r, const char *id,
			struct err *e) MUST_CHECK;
int registry_key_used(struct registry *r, const char *id, uint64_t used_ms,
		      struct err *e) MUST_CHECK;
int registry_key_each(struct registry *r,
		      int (*fn)(void *arg, const struct key_row *row),
		      void *arg, struct err *e) MUST_CHECK;
int registry_project_each(struct registry *r,
			  int (*fn)(void *arg, const char *name,
				    uint64_t created_ms),
			  void *arg, struct err *e) MUST_CHECK;

int registry_ended_add(struct registry *r, const struct ended_row *row,
		       struct err *e) MUST_CHECK;
int registry_ended_remove(struct registry *r, const char *id,
			  struct err *e) MUST_CHECK;
/* The oldest end first. */
int registry_ended_each(struct registry *r,
			int (*fn)(void *arg, const struct ended_row *row),
			void *arg, struct err *e) MUST_CHECK;

/* Replaces the row of that sandbox. Numbers end at 2^63 - 1. */
int registry_usage_put(struct registry *r, const struct usage_row *row,
		       struct err *e) MUST_CHECK;
/* 1 when there is one: its numbers are in `row`, its strings are not. */
int registry_usage_get(struct registry *r, const char *sandbox,
		       struct usage_row *row, struct err *e) MUST_CHECK;
/* Processor time of the sandbox with this id, and of all who drew on its
 * account. */
int registry_usage_family(struct registry *r, const char *account,
			  uint64_t *cpu_us, struct err *e) MUST_CHECK;
int registry_usage_each(struct registry *r, const struct usage_filter *f,
			int (*fn)(void *arg, const struct usage_row *row),
			void *arg, struct err *e) MUST_CHECK;
/* One per project that has any. */
int registry_usage_sums(struct registry *r, const struct usage_filter *f,
			int (*fn)(void *arg, const struct usage_sum *sum),
			void *arg, struct err *e) MUST_CHECK;
/* Rows of ended sandboxes beyond the newest `keep` become sums per day. */
int registry_usage_fold(struct registry *r, unsigned keep,
			struct err *e) MUST_CHECK;
/* Ends the rows whose sandbox is gone: those of a crash. */
int registry_usage_close(struct registry *r, struct err *e) MUST_CHECK;

int registry_replay_add(struct registry *r, const struct replay_row *row,
			struct err *e) MUST_CHECK;
/*
 * 1 when there is one: `fn` was called with it. 0: there is none, or it is
 * older than `after_ms`.
 */
int registry_replay_get(struct registry *r, const char *project,
			const char *key, uint64_t after_ms,
			void (*fn)(void *arg, const struct replay_row *row),
			void *arg, struct err *e) MUST_CHECK;
/* Drops what is older, and beyond the newest `keep` of a project. */
int registry_replay_prune(struct registry *r, uint64_t before_ms, unsigned keep,
			  struct err *e) MUST_CHECK;

/*
 * Moves the write-ahead log into the file: waits for the disk, so it is called
 * when nobody is waiting, or when `wal_pages` has become large.
 */
int registry_checkpoint(struct registry *r, struct err *e) MUST_CHECK;
