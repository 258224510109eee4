/*
 * How much JSON there is in a text, looked at before a parser sees a byte:
 * jansson's is recursive, with a bound of its own (2048) on nesting, and makes
 * a multiple of the text of many small values.
 */
#pragma once

#include <stddef.h>

/*
 * NULL: it may be parsed, and has about `*values` values. Else what is wrong
 * with it, in words.
 */
const char *json_beyond(const char *p, size_t n, unsigned depth_max,
			size_t values_max, size_t *values);
