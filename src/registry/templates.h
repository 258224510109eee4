/*
 * Rows of templates and of their builds, on disk when they return; and of
 * steps, a cache.
 */
#pragma once

#include "registry/registry.h"

struct template_row {
	const char *id, *project, *name;
	const char *tags; /* JSON */
	uint64_t created_ms, updated_ms;
};

struct build_row {
	const char *id, *template_id, *state;
	const char *snapshot; /* "": none */
	const char *about;    /* JSON */
	uint64_t created_ms;
	uint64_t finished_ms; /* 0: not yet */
};

/* The disk behind a step of a build. */
struct step_row {
	const char *project, *key, *snapshot;
	const char *about; /* JSON */
	uint64_t used_ms;
};

/* Adds it, or changes its tags. EEXIST: its project has the name. */
int registry_template_put(struct registry *r, const struct template_row *row,
			  struct err *e) MUST_CHECK;
int registry_template_remove(struct registry *r, const char *id,
			     struct err *e) MUST_CHECK;
int registry_template_each(struct registry *r,
			   int (*fn)(void *arg, const struct template_row *row),
			   void *arg, struct err *e) MUST_CHECK;

int registry_build_put(struct registry *r, const struct build_row *row,
		       struct err *e) MUST_CHECK;
int registry_build_remove(struct registry *r, const char *id,
			  struct err *e) MUST_CHECK;
/* The oldest first. */
int registry_build_each(struct registry *r,
			int (*fn)(void *arg, const struct build_row *row),
			void *arg, struct err *e) MUST_CHECK;

int registry_step_put(struct registry *r, const struct step_row *row,
		      struct err *e) MUST_CHECK;
int registry_step_remove(struct registry *r, const char *project,
			 const char *key, struct err *e) MUST_CHECK;
/* The one that was used longest ago first. */
int registry_step_each(struct registry *r,
		       int (*fn)(void *arg, const struct step_row *row),
		       void *arg, struct err *e) MUST_CHECK;
