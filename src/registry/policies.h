/* Rows of policies: what sandboxes of a project may reach, by name. */
#pragma once

#include "registry/registry.h"

struct policy_row {
	const char *project, *name, *text;
	uint64_t updated_ms;
};

/* A new one, or another text. On disk when it returns. */
int registry_policy_put(struct registry *r, const struct policy_row *row,
			struct err *e) MUST_CHECK;
/* On disk when it returns. Removing what is not there is no error. */
int registry_policy_remove(struct registry *r, const char *project,
			   const char *name, struct err *e) MUST_CHECK;
int registry_policy_each(struct registry *r,
			 int (*fn)(void *arg, const struct policy_row *row),
			 void *arg, struct err *e) MUST_CHECK;
