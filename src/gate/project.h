/* The projects that a door serves: their keys and secrets. */
#pragma once

#include "gate/gate.h"
#include "gate/within.h"

/* A door of one project serves no other. */
bool project_is_ours(const struct gate *g, const char *name);
struct project *project_get(struct gate *g, const char *name);
/* GATE_PROJECT: GATE_KEYS is told when the keeper has answered. */
void project_want_keys(struct project *p);
/* WITHIN_KEYS. */
void project_keys_came(struct project *p, const struct within_msg *m);
/* GATE_SECRET, GATE_SECRET_GONE. */
int project_secret(struct project *p, uint64_t set, const void *packed,
		   size_t n) MUST_CHECK;
/* The api is to keep what its door has made of it. */
void project_tell_sealed(struct project *p, const struct secret *s);
void project_secret_gone(struct project *p, const char *name);
/* The api has told all that there is: what it knew before and did not tell
 * again was removed while it was away. */
void projects_settle(struct gate *g);
void projects_done(struct gate *g);
