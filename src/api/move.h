/*
 * The same sandbox in the other tier: its processes end, id, name, project,
 * labels, policy, limits and deadline stay, and so does what it wrote to its
 * disk.
 *
 *	it is suspended, if it runs: row (suspended, disk = DISK, old tier)
 *	-> the sandbox is launched from its image in the new tier
 *	-> what DISK has over the image is laid over that one, before anything
 *	   else runs in it (host.lay, agent/file/lay.c)
 *	-> row (running, new tier), DISK goes
 *
 * Whoever dies on the way, the row says what there is: all of the old one,
 * until all of the new one is there. If a step fails, the old one goes on
 * where it was stopped.
 *
 * What DISK has is told as a layer (wire/view.h), of a container by a worker,
 * of a microVM by a machine of its own (LAUNCH_LOOK): the host does not open a
 * file system that a guest wrote. It is read inside of the new one, as its
 * root: whoever made it up has made up a disk of his own.
 */
#pragma once

#include <stdint.h>

#include "api/call.h"
#include "base/err.h"

struct api;
struct move;
struct sandbox;

/* Embedded in who waits for it; gone by move_leave(). */
struct move_client {
	/* Now and then: what is done, how much of the disk is there. */
	void (*progress)(struct move_client *c, const char *step,
			 uint64_t entries, uint64_t bytes);
	/* Once: `e->code` 0, it is so. */
	void (*done)(struct move_client *c, const struct err *e);
	struct move *move; /* private */
};

/* Under way, or -errno; EALREADY: it is in that tier. */
int move_start(struct sandbox *s, const char *tier, const struct identity *who,
	       const char *request_id, struct move_client *c,
	       struct err *e) MUST_CHECK;
/* It goes on without anybody who hears of it. */
void move_leave(struct move_client *c);

/* --- for restart.c --- */

/* Its agent is there, and nothing else: restart_laid() comes. */
void move_lay(struct move *m, struct sandbox *s);
/* It is to be of the new tier from the next row on, or cannot be. */
int move_settle(struct sandbox *s, struct err *e) MUST_CHECK;
void move_unsettle(struct sandbox *s);
/* Nothing of it goes on. */
void move_stop(struct move *m);
