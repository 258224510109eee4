/*
 * Volumes: disks of a project, by name, that sandboxes are launched with.
 *
 *	make:   row without a size, the warden's volume, row with its size
 *	remove: the warden's volume, row
 *
 * A crash in between leaves a row without a size or without a volume, which
 * the next reconciliation finishes or forgets. A volume without a row cannot
 * come from us: somebody restored an older registry, perhaps, and wants it
 * back. It is left alone, and the log says so.
 *
 * A volume that a sandbox may write is that sandbox's alone while it has it;
 * any number may read one, or share it when all of them say so. A sandbox that
 * is suspended has none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

struct api;
struct launch_spec;
struct sandbox;
struct spec;

enum { VOLUMES_MAX = 1024 /* of all projects */ };

struct volume {
	struct list node;
	char id[ID_CAP];
	char project[NAME_CAP], name[NAME_CAP];
	uint64_t bytes; /* its limit; 0: it is being made */
	uint64_t created_ms;
	bool making, removing;
	bool missing;  /* the pool has it not */
	uint64_t seen; /* last reconciliation that found it */
};

struct volumes {
	struct list all;
	unsigned n;
};

int volumes_load(struct api *a, struct err *e) MUST_CHECK;
struct volume *volume_by_id(struct api *a, const char *id);
/* By name, in its own project or (the operator) any, or by id; ENOENT. */
struct volume *volume_find(struct api *a, const struct identity *who,
			   const char *ref, struct err *e);
/* In the table and the registry; `v` is freed by volume_drop(). */
struct volume *volume_add(struct api *a, const char *project, const char *name,
			  struct err *e);
/* Adds a row for a volume that is in the pool already. */
struct volume_row;
int volume_take_over(struct api *a, const struct volume_row *row,
		     struct err *e) MUST_CHECK;
/* Out of both. */
void volume_drop(struct api *a, struct volume *v);
/*
 * Removes a volume without a size. Its row goes once the warden has confirmed
 * that the pool does not have it; if that fails, the next reconciliation tries
 * again.
 */
void volume_discard(struct api *a, struct volume *v);
/* Clients see the volume: it is complete, and nobody removes it. */
bool volume_ready(const struct volume *v);

/*
 * May a sandbox be launched with the volumes of this spec? `self`: that one
 * (NULL: a new one). ENOENT, EBUSY.
 */
int volumes_allow(struct api *a, const char *project, const struct spec *spec,
		  const struct sandbox *self, struct err *e) MUST_CHECK;
void volumes_fill(const struct sandbox *s, struct launch_spec *l);
/* It has them from now on, or not any more: for the log. */
void volumes_attached(struct sandbox *s);
void volumes_detached(struct sandbox *s);
/* Has it, or would if it ran. */
bool volume_has(const struct sandbox *s, const struct volume *v);
/* A sandbox that has it; NULL: none. */
struct sandbox *volume_user(struct api *a, const struct volume *v);

/* Reconciliation: the pool has this one; the walk is over. */
void volume_found(struct api *a, const char *id, uint64_t bytes);
void volumes_settle(struct api *a);
