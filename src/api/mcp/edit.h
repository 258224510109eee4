/* An exact replacement in a text, and words that help when it cannot be. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/*
 * Appends the text with `from` replaced by `to`: at the only place where it
 * is, or with `all` at each. How often; 0 or several (without `all`) is no
 * success, `out` is empty and `why` has where it is, or what comes nearest.
 * `from` is not empty.
 */
size_t edit_text(const char *text, size_t n, const char *from, const char *to,
		 bool all, struct buf *out, struct buf *why);
