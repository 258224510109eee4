/*
 * Layers take away what layers below them brought, by entries with special
 * names. They never take away what their own layer brings, in whatever order
 * the entries stand: so the paths of a layer's entries are remembered.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "worker/path.h"

/* A set of paths, by 64-bit hashes: a collision only spares a file. */
struct seen {
	uint64_t *slot;
	size_t n, cap; /* cap: a power of two */
};

/* The path and the directories that it is in. */
void seen_add(struct seen *s, const char *path);
bool seen_has(const struct seen *s, const char *path);
void seen_clear(struct seen *s);
void seen_done(struct seen *s);

/*
 * The entry `p` of a layer, whose directory is open: 1 when it was about
 * something that is gone, and was obeyed; 0 when it is an ordinary one.
 */
int whiteout_apply(struct seen *s, const struct path *p, int dir_fd,
		   struct err *e) MUST_CHECK;
