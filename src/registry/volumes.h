/* Rows of volumes: disks of a project that sandboxes are launched with. */
#pragma once

#include "registry/registry.h"

struct volume_row {
	const char *id, *project, *name;
	uint64_t bytes; /* its limit; 0: it is being made */
	uint64_t created_ms;
};

/* On disk when it returns. EEXIST: the project has one of this name. */
int registry_volume_add(struct registry *r, const struct volume_row *row,
			struct err *e) MUST_CHECK;
/* It is made: its limit. On disk when it returns. */
int registry_volume_made(struct registry *r, const char *id, uint64_t bytes,
			 struct err *e) MUST_CHECK;
/* On disk when it returns. Removing what is not there is no error. */
int registry_volume_remove(struct registry *r, const char *id,
			   struct err *e) MUST_CHECK;
int registry_volume_each(struct registry *r,
			 int (*fn)(void *arg, const struct volume_row *row),
			 void *arg, struct err *e) MUST_CHECK;
