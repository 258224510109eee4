/* "Did you mean": the name of a table that is nearest to a mistyped word. */
#pragma once

#include <stddef.h>

/*
 * Inserted, left out, replaced and swapped neighbouring bytes between the
 * first `n` bytes of `word` and `name`; SIZE_MAX when they are too long.
 */
size_t edit_distance(const char *word, size_t n, const char *name);

struct nearest {
	const char *word;
	size_t n;
	const char *name; /* the best so far, or NULL: none is near */
	size_t distance;
};
void nearest_try(struct nearest *x, const char *name);
