/*
 * Secrets of the projects (vault/secret.h). The api has all about them but
 * their values: those are sealed to the door of the project, by whoever set
 * them, and pass through here.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "vault/secret.h"

struct api;
struct spec;

enum {
	SECRETS_MAX = 4096,      /* of all projects */
	SECRETS_OF_PROJECT = 256 /* a door keeps that many open */
};

struct project_secret {
	struct list node;
	char project[NAME_CAP];
	struct secret secret;
	uint64_t created_ms, updated_ms;
};

struct secrets {
	struct list all; /* struct project_secret */
	unsigned n;
};

int secrets_load(struct api *a, struct err *e) MUST_CHECK;
/* NULL: there is none. */
struct project_secret *project_secret_find(struct api *a, const char *project,
					   const char *name);
/* How many the project has: with none it needs no door of its own. */
unsigned project_secrets(const struct api *a, const char *project);

/*
 * A new one or a change; on disk when it returns. `s` is taken when that
 * succeeds. The gate is told.
 */
int project_secret_put(struct api *a, const char *project, struct secret *s,
		       struct err *e) MUST_CHECK;
/* Out of registry and memory; the gate is told. */
int project_secret_drop(struct api *a, struct project_secret *p,
			struct err *e) MUST_CHECK;
/* GATE_SEALED: its door has renewed the value. Unknown ones are dropped. */
void project_secret_renewed(struct api *a, const char *project,
			    const char *name, const void *sealed, size_t n);

/*
 * Secrets that came with a sandbox and that nobody names: OWN_SECRET and as
 * many random bytes in hexadecimal. They go with the last sandbox that has
 * them.
 */
#define OWN_SECRET "own-"
enum {
	OWN_SECRET_BYTES = 16,
	/* Of a project: the rest is for those that people set. */
	OWN_SECRETS_MAX = SECRETS_OF_PROJECT * 3 / 4,
};
bool own_secret_is(const char *name);
/* May the project have one more? EMFILE. */
int own_secret_allowed(const struct api *a, const char *project,
		       struct err *e) MUST_CHECK;
void own_secret_drop(struct api *a, const char *project, const char *name);
/* The same a moment later, if no sandbox has it then: what was asked and given
 * up may have been done all the same. */
void own_secret_drop_late(struct api *a, const char *project, const char *name);
/* Those among `names` (of a spec, or NULL) that no sandbox has any more. */
void own_secrets_unused(struct api *a, const char *project,
			const json_t *names);
/* At the start, when all sandboxes are known: what a crash has left. */
void own_secrets_sweep(struct api *a);

/* Does the project have all that the spec names? EINVAL. */
int secrets_allow(struct api *a, const char *project, const struct spec *spec,
		  struct err *e) MUST_CHECK;
