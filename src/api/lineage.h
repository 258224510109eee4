/*
 * Where states of disks come from. A sandbox starts from its image or from a
 * snapshot, lives, and snapshots are taken of it: one such life is named by
 * the sandbox and what it started from, and its snapshots are points of it in
 * the order of time. (One that was rolled back starts another life.)
 */
#pragma once

#include "api/snapshots.h"
#include "base/err.h"

/*
 * Is this a path that every sandbox has of its own, whatever it came from (the
 * launch writes it)? It is no difference, and nothing to take over.
 */
bool state_path_is_own(const char *path);

/* What a held state started from: a snapshot, or its image. `r` is to be
 * released as after state_hold(). */
void state_hold_base(struct state_ref *r, const struct state_ref *of,
		     void (*ready)(struct state_ref *r, const struct err *e));
/*
 * The last state that a held one and a sandbox, as it is now, both come from:
 * a snapshot, or the image that both started from. EXDEV when there is none.
 */
int state_hold_ancestor(struct state_ref *r, const struct state_ref *one,
			const struct sandbox *other, struct err *e) MUST_CHECK;
