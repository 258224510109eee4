/*
 * Strays: objects of the pool or of the drive's directory without a row, while
 * the database cannot be trusted to be complete (pool_id.h). A stray stays
 * where it is until it is adopted, pruned, or stray_days have passed; a running
 * sandbox goes on, but clients cannot use it.
 *
 * The other way round, rows whose object is not in the pool are `missing`:
 * they are kept until the object is back or the user removes them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/warden_link.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "registry/drive.h"
#include "wire/warden.h"

struct api;

enum stray_kind {
	STRAY_IMAGE,
	STRAY_VOLUME,
	STRAY_SNAPSHOT, /* also the disk of a sandbox that has ended */
	STRAY_SANDBOX,
	STRAY_DRIVE, /* a content: PROJECT_SHA256 */
	STRAY_MISSING,
	STRAY_KINDS
};

enum { STRAY_ID_CAP = NAME_CAP + 1 + DRIVE_SHA };

struct stray {
	struct list node;
	enum stray_kind kind;
	char id[STRAY_ID_CAP];
	uint64_t since_ms, hours;
	uint64_t bytes; /* 0: not known */
	uint64_t seen;  /* last reconciliation that found it */
	/* Of sandboxes and snapshots: what the warden knows about it. */
	struct launch_spec launch;
	/* A volume that is being removed, once its sandbox has ended. */
	struct api *api;
	struct warden_call call;
	struct timer again;
};

struct strays {
	struct list all;
	unsigned n;
	struct timer hourly;
};

int strays_load(struct api *a, struct err *e) MUST_CHECK;
struct stray *stray_find(struct api *a, enum stray_kind kind, const char *id);
/* An object without a row was found. Returns its stray, a new one if needed;
 * NULL: the object is a leftover, and the caller removes it. */
struct stray *stray_keep(struct api *a, enum stray_kind kind, const char *id);
/* The row of this object is kept, although the pool does not have it. */
bool stray_missing(struct api *a, const char *id);
/* An object that a row knows was found. */
void stray_found(struct api *a, const char *id);
/* Removes the stray from the list and the database, and frees it. */
void stray_forget(struct api *a, struct stray *s);
/* A walk is complete: those that it has not found are gone. */
void strays_settle(struct api *a);
/* Removes the object; `s` may be freed. EBUSY: something uses it. */
int stray_remove(struct api *a, struct stray *s, struct err *e) MUST_CHECK;
const char *stray_kind_name(enum stray_kind k);
json_t *stray_json(const struct stray *s);
/* For GET /v1/host: id, generation, how many there are, why it is held. */
json_t *strays_summary(struct api *a);

/* --- adopt.c --- */

struct adopt_ask {
	const char *name, *project; /* "": default */
	const char *image;          /* of a snapshot that does not say; "" */
};
/* Gives it a row; frees `s`. The new name in `out`. */
int stray_adopt(struct api *a, struct stray *s, const struct adopt_ask *ask,
		char out[DRIVE_PATH_CAP], struct err *e) MUST_CHECK;
