/*
 * The plan of a merge: what taking over theirs (side 1), as it differs from
 * the ancestor (side 0), means for ours (side 2). See enum merge_step.
 */
#pragma once

#include "base/err.h"
#include "worker/walk.h"

/* What becomes of the plan: one call per path, in the order of the steps. */
typedef int (*merge_fn)(struct walk *w, const struct visit *v,
			enum merge_step step, struct err *e);

int merge_plan(struct look *l, merge_fn fn, struct err *e) MUST_CHECK;
