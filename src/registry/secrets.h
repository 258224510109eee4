/* Rows of secrets: what is known of them, and values that nobody here reads. */
#pragma once

#include "registry/registry.h"

struct secret_row {
	const char *project, *name;
	const char *about; /* JSON */
	const void *sealed;
	size_t sealed_n;
	uint64_t created_ms, updated_ms;
};

/*
 * On disk when they return. What was there before is overwritten in the file,
 * and not left in its log.
 */
int registry_secret_put(struct registry *r, const struct secret_row *row,
			struct err *e) MUST_CHECK;
int registry_secret_sealed(struct registry *r, const struct secret_row *row,
			   struct err *e) MUST_CHECK;
int registry_secret_remove(struct registry *r, const char *project,
			   const char *name, struct err *e) MUST_CHECK;
int registry_secret_each(struct registry *r,
			 int (*fn)(void *arg, const struct secret_row *row),
			 void *arg, struct err *e) MUST_CHECK;
