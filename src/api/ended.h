/*
 * What became of sandboxes: for a day, whoever asks for one that is gone hears
 * why. Kept in memory and in the registry; the oldest make room.
 *
 * Their ends are in the log once, whenever we are killed: which record of its
 * spool that is becomes part of the row, then the record is made. One that is
 * not there at the next start is made then.
 */
#pragma once

#include <errno.h>
#include <stdint.h>

#include "api/audit.h"
#include "api/call.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "registry/registry.h"
#include "spec/spec.h"

struct api;

enum {
	ENDED_MAX = 1000,
	ENDED_MS = 24 * 3600 * 1000,
	REASON_CAP = 128,
};

/* What is said of a sandbox that is gone: 410. */
enum { ERR_ENDED = ESTALE };

struct ended {
	struct list node;
	char id[ID_CAP];
	char name[NAME_CAP], project[NAME_CAP];
	char image[SPEC_IMAGE_CAP];
	char reason[REASON_CAP];
	uint64_t created_ms, ended_ms, record;
	bool late; /* the registry did not take it yet */
};

/* The oldest end first. */
struct ends {
	struct list all;
	unsigned n;
	struct timer retry;
};

void ends_init(struct api *a);
int ends_load(struct api *a, struct err *e) MUST_CHECK;
/* In the caller's transaction; a failure is logged. `row->record` is
 * audit_record(): ended_log() comes right behind the transaction. */
void ended_add(struct api *a, const struct ended_row *row);
/* That transaction failed: it is tried again, and the end is in the log when
 * it succeeds, so that a start in between does not log another one. */
void ended_retry(struct api *a, const char *id);
/* "sandbox.end"; `entry` says of which. */
void ended_log(struct api *a, struct audit entry, const char *reason);
/* What this one may see, by its id or an unambiguous start of it; or NULL. */
const struct ended *ended_find(struct api *a, const struct identity *who,
			       const char *ref);
/* ERR_ENDED with the reason. */
int ended_say(const struct ended *x, struct err *e);
