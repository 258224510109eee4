/*
 * Merges: what was changed in one state since its common ancestor with a
 * sandbox is taken over into that sandbox.
 *
 *	h_merge.c	the request and its answer
 *	merge.c		the work, from the first pause to the last word
 *	merge_plan.c	what is to be done, path by path
 *	merge_scope.c	where to look
 *
 * What theirs changed since the ancestor is found out first. Then no update is
 * lost in silence, because nothing else moves: the processes of users stand
 * still from before the snapshot that "ours" is compared by until
 * the last name has changed. Only the agent works, and one child of it that
 * is apart from them (agent/file/merge.c). It has everything on the disk
 * before it changes the first name, so that whoever dies or runs out of space
 * before that, nothing was changed; if it still fails half-way, the snapshot
 * becomes one that users see.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"
#include "api/path_list.h"
#include "api/process.h"
#include "api/snapshots.h"
#include "api/view_job.h"
#include "base/buf.h"
#include "base/loop.h"
#include "http/server.h"

struct api;
struct merge;

enum merge_prefer { PREFER_NONE, PREFER_OURS, PREFER_THEIRS };

/* More than MERGE_PATHS_MAX (wire/file.h). */
#define MERGE_TOO_MUCH "more than 200000 changes: merge some paths at a time"

enum { MERGE_LISTED_MAX = 1000 }; /* changes that an answer lists */

/* --- the plan --- */

struct merge_plan {
	enum merge_prefer prefer;
	struct buf list; /* for the builtin, without its end */
	unsigned n_paths;
	uint64_t put, removed, same, kept, conflicts;
	json_t *changes; /* the first of them */
	json_t *clashes; /* conflicts, the same */
};

void merge_plan_init(struct merge_plan *p, enum merge_prefer prefer);
void merge_plan_done(struct merge_plan *p);
/* One step that a worker said; -E2BIG: that is too much. */
int merge_plan_add(struct merge_plan *p, const struct view_record *r,
		   struct err *e) MUST_CHECK;
/* {"put", "removed", "same", "kept", "conflicts"} */
json_t *merge_plan_counts(const struct merge_plan *p);

/* --- where to look --- */

/* Paths, at most as many as a question may have. Zero-initialise. */
struct merge_scope {
	char **v;
	size_t n, bytes;
	bool widened; /* directories stand for what is in them */
};

void merge_scope_add(struct merge_scope *s, const char *path);
void merge_scope_done(struct merge_scope *s);

/* --- the work --- */

struct merge {
	/* Set before merge_start(). */
	struct api *api;
	char box_id[ID_CAP];
	struct identity who;
	char request_id[HTTP_REQUEST_ID];
	char from[192]; /* a state */
	struct path_list paths;
	bool dry_run; /* only the plan; nothing stands still */
	/* The last word, once; `e->code` 0: done, or with conflicts that
	 * nobody wants to lose (merge_refused()). */
	void (*done)(struct merge *m, const struct err *e);

	struct merge_plan plan;
	uint64_t pause_us; /* how long the processes stood still */
	json_t *notes;     /* what the builtin said */

	/* Private. */
	struct list node; /* in api.merges */
	struct state_ref theirs, ours, base;
	struct merge_scope scope; /* what theirs changed */
	unsigned n_changed;
	struct warden_call hold;
	struct view_job view;
	struct process proc;
	struct timer limit;
	uint64_t began_us;
	bool holding;       /* user processes stand still, or soon */
	bool fed;           /* it has all of it: no way back */
	struct buf pending; /* input that it has not taken */
	struct buf words, why;
	struct err result;
};

/* EBUSY while another one of this sandbox is under way. */
int merge_start(struct merge *m, struct err *e) MUST_CHECK;
/* Are there conflicts, and nobody said what to do with them? */
bool merge_refused(const struct merge *m);
/* Its client left: if nothing was changed yet, it ends; done() comes. */
void merge_give_up(struct merge *m);
