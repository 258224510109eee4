/* An exact replacement in a text, and words that help when it cannot be. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct edit {
	const char *text;
	size_t n;
	const char *from, *to; /* `from` is not empty */
	bool all;
	size_t max; /* bytes of what comes out */
};

/*
 * Appends the text with `from` replaced by `to`: at the only place where it
 * is, or with `all` at each. How often; 0 or several (without `all`) is no
 * success, nor is too much: `out` is empty then, and `why` has where it is, or
 * what comes nearest.
 */
size_t edit_text(const struct edit *x, struct buf *out, struct buf *why);
