/* Policies that are asked here as a door asks them (gate/decide.c). */
#pragma once

#include <stddef.h>

#include "api/gate.h"
#include "base/err.h"
#include "policy/policy.h"

struct sandbox;

/* Zero-initialise. */
struct policy_parts {
	struct policy p[GATE_PARTS_MAX];
	const char *name[GATE_PARTS_MAX];
	size_t n, first; /* behind what people have granted */
	struct gate_msg msg;
	struct gate_parts hold;
};

void policy_parts_done(struct policy_parts *all);
/* All that a sandbox has, in its order. */
int policy_parts_load(struct policy_parts *all, const struct sandbox *s,
		      struct err *e) MUST_CHECK;
/* One more, as text or JSON; `name` must stay. */
int policy_parts_add(struct policy_parts *all, const char *name,
		     const char *text, size_t len, struct err *e) MUST_CHECK;
/* What they say, without what was granted; `part` has the name of the one that
 * decides, or NULL. */
struct decision policy_parts_try(const struct policy_parts *all,
				 const struct request *q, const char **part);
/* What a person let pass; it counts where the others say "ask". */
struct decision policy_parts_granted(const struct policy_parts *all,
				     const struct request *q);
