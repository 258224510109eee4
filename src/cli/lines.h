/* The difference of two texts, line by line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/*
 * Appends the hunks of a unified diff with three lines of context, nothing
 * when both are equal. Where the texts have so little in common that the
 * shortest way would take too long, it is correct but longer.
 */
void lines_diff(struct buf *out, const char *a, size_t a_n, const char *b,
		size_t b_n);
