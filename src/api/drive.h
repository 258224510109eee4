/*
 * The drive: named files of a project that outlive every sandbox, each with
 * its versions.
 *
 *	drive.c		rows, shares of projects, what is no longer used
 *	drive_put.c	bytes on their way in: a file without a name until all
 *			of it is on disk, then a row
 *	drive_send.c	bytes on their way out, to a client
 *	drive_copy.c	between the drive and a sandbox
 *	drive_door.c	what a sandbox asks for itself
 *	h_drive.c	requests
 *
 * Contents are files state_dir/drive/PROJECT_SHA256 (a project's name has no
 * '_'): the same bytes are there once per project and count once. What no row
 * refers to is removed, at once or at the next start. A file that is removed
 * keeps its versions until they are purged, or pushed out by newer ones.
 */
#pragma once

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/audit.h"
#include "api/call.h"
#include "api/disk_sync.h"
#include "api/drive_door.h"
#include "base/err.h"
#include "base/list.h"
#include "base/sha.h"
#include "http/server.h"
#include "registry/drive.h"
#include "spec/grant.h"

struct api;

enum {
	DRIVE_ROWS_MAX = 100000, /* versions of a project, removals too */
	DRIVE_PUTS_MAX = 128,    /* on their way in, of all */
	DRIVE_LIST_MAX = 1000,   /* files in one answer */
	DRIVE_NAME = NAME_CAP + 1 + DRIVE_SHA,
};

/* The code of an error: the file is not the one that was meant. */
enum { ERR_VERSION = EREMCHG };

/* What a put may find: no condition, this version, anything, nothing. */
enum drive_if { DRIVE_ANY, DRIVE_VERSION, DRIVE_SOME, DRIVE_NONE };

struct drive {
	int dir_fd;
	struct list projects; /* struct drive_share */
	struct list puts;     /* struct drive_put */
};

int drive_start(struct api *a, struct err *e) MUST_CHECK;
/* Removes what no row needs; before the first put. */
int drive_sweep(struct api *a, struct err *e) MUST_CHECK;

/*
 * "dir/" and the last part of `source` become "dir/part"; "" is the top of the
 * drive. Checked.
 */
int drive_path_join(char out[DRIVE_PATH_CAP], const char *to,
		    const char *source, struct err *e) MUST_CHECK;

/* The newest version that is not removed, or this one; ENOENT. */
int drive_find(struct api *a, const char *project, const char *path,
	       uint64_t version, struct drive_row *out,
	       struct err *e) MUST_CHECK;
/* Its bytes; ENOENT when they are gone. */
int drive_open(struct api *a, const struct drive_row *row,
	       struct err *e) MUST_CHECK;
json_t *drive_row_json(const struct drive_row *row);

/* Who changes the drive, for its rows and the log. */
struct drive_who {
	struct identity who;
	char sandbox[ID_CAP]; /* that it is about, or "" */
	char request[HTTP_REQUEST_ID];
};

/* The last version says that there is none; `out` is that row. Is in the log.
 */
int drive_remove(struct api *a, const struct drive_who *by, const char *project,
		 const char *path, struct drive_row *out,
		 struct err *e) MUST_CHECK;
/* Forgets all versions, and the bytes that nothing else has. Is in the log. */
int drive_purge(struct api *a, const struct drive_who *by, const char *project,
		const char *path, struct err *e) MUST_CHECK;

/* --- bytes on their way in --- */

struct drive_put {
	struct api *api;
	char project[NAME_CAP];
	char path[DRIVE_PATH_CAP];
	enum drive_if condition;
	uint64_t version; /* of DRIVE_VERSION */
	struct drive_who by;
	void *owner;

	/* Private. */
	struct list node;
	struct share *place;
	int fd;
	char temp[48];
	struct sha256 sha;
	char sha_text[DRIVE_SHA];
	uint64_t size, started; /* bytes; those that the disk was told of */
	bool stored;            /* the content has its name */
	struct drive_row row;
	struct disk_sync sync;
	struct audit_wait wait;
	/* NULL: given up. */
	void (*done)(struct drive_put *p, const struct drive_row *row,
		     const struct err *e);
	struct deferred gone;
};

/*
 * A new one with the first members set from `want`; NULL with an error when
 * the condition does not hold now, or `size` (0: not known) is more than the
 * project has left.
 */
struct drive_put *drive_put_new(struct api *a, const struct drive_put *want,
				uint64_t size, struct err *e);
/* On an error it is still to be given up. */
int drive_put_add(struct drive_put *p, const void *data, size_t n,
		  struct err *e) MUST_CHECK;
/*
 * All has come. `done` is called once, from the loop: `row` when it is on disk
 * and in the log, else `e`. The put is gone then.
 */
void drive_put_end(struct drive_put *p,
		   void (*done)(struct drive_put *p,
				const struct drive_row *row,
				const struct err *e));
/* Nobody wants it any more; no callback follows. NULL is nothing. */
void drive_put_give_up(struct drive_put *p);

/* --- shares of projects, for drive_put.c --- */

/* What a project has, and what is on its way in. */
struct drive_share {
	struct list node;
	char project[NAME_CAP];
	uint64_t bytes, coming, rows;
};
struct drive_share *drive_share(struct api *a, const char *project,
				struct err *e);
/* "PROJECT_SHA256" */
void drive_object_name(const char *project, const char *sha256,
		       char out[DRIVE_NAME]);
/* Adds the row; old versions, and what only they had, go. */
int drive_row_add(struct api *a, const struct drive_row *row,
		  struct err *e) MUST_CHECK;
/*
 * The content goes unless a row or a put has it. `counted`: so many bytes less
 * in the share when no row has it.
 */
void drive_object_drop(struct api *a, const char *project, const char *sha256,
		       uint64_t counted);

/* --- out --- */

/* Answers with the bytes of a version, or with what `Range` asks for. */
void drive_send(struct api *a, struct http_conn *c,
		const struct drive_row *row);
