/*
 * Other lives of a sandbox: the processes end, id, name, project, labels and
 * deadline stay, and it starts again from a snapshot of a disk.
 *
 *	rollback: row (suspended, disk = SNAP), kill, launch, row (running)
 *	suspend:  snapshot DISK, row (suspended, disk = DISK), kill
 *	resume:   launch from DISK, row (running), DISK goes
 *	move:     a resume in the other tier, from the image, with DISK laid
 *		  over it before anything runs: see move.h
 *
 * Whatever dies in between: a row that says suspended is true as soon as what
 * still runs has been killed, which is what the next reconciliation does. If
 * a launch fails, the sandbox stays suspended on its disk. Files and start
 * commands of the spec belong to the first start alone.
 */
#pragma once

#include <stdbool.h>

#include "api/gate.h"
#include "api/snapshots.h"
#include "base/err.h"
#include "base/list.h"

struct api;
struct box_waiter;
struct move;
struct sandbox;

/* Part of every sandbox. */
struct restart {
	bool busy;
	bool resuming; /* more may wait for it */
	struct list waiters;
	struct snapshot_take take; /* of the disk, to suspend it */
	struct snapshot *held;     /* the disk to start from */
	struct move *move;         /* to the other tier, or NULL */
	const char *said;          /* to clients, when it is suspended */
	struct gate_up door;
};

void restart_init(struct restart *r);
/* The sandbox is gone: whoever waits is told so. */
void restart_abort(struct sandbox *s);

/*
 * Each returns 0 when it is under way; `w` (may be NULL, may leave by
 * list_del) hears of the end. EBUSY: it is in no state for that.
 */

/*
 * Back to a snapshot of its own, or one that it comes from. It runs then; one
 * that is suspended stays so.
 */
int may_rollback(const struct sandbox *s, const struct snapshot *to,
		 struct err *e) MUST_CHECK;
int box_rollback(struct sandbox *s, struct snapshot *to, struct box_waiter *w,
		 struct err *e) MUST_CHECK;
/* Only its disk is left, and unless `disk_only` the memory of a microVM. */
int box_suspend(struct sandbox *s, bool disk_only, struct box_waiter *w,
		struct err *e) MUST_CHECK;
/* One that is suspended runs again; several may wait for it. */
int box_resume(struct sandbox *s, struct box_waiter *w,
	       struct err *e) MUST_CHECK;
/* Is it in a state for another life? */
int may_restart(const struct sandbox *s, struct err *e) MUST_CHECK;
/* One that is suspended runs again in the other tier. */
int box_resume_moved(struct sandbox *s, struct move *m, struct box_waiter *w,
		     struct err *e) MUST_CHECK;
/* For move.c: its disk is laid, or (`e`) cannot be. */
void restart_laid(struct sandbox *s, const struct err *e);

/*
 * One that is persistent ended otherwise than by us: the pool has its disk as
 * the snapshot of the sandbox's own id. `last` may be NULL. -errno: it could
 * not be written down.
 */
int box_keep_disk(struct sandbox *s, const char *why,
		  const struct sandbox_use *last, struct err *e) MUST_CHECK;
