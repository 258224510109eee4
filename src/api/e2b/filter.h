/* What a list of sandboxes is asked for. Pure: bytes of a client. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

enum { E2B_FILTER_MAX = 64 }; /* pairs */

/*
 * "k=v&k=v", whose keys and values were encoded twice, as an object of
 * strings; the caller's. NULL: it is not that, `e` says why.
 */
json_t *e2b_filter_parse(const char *text, struct err *e);
/* Does `metadata` (or NULL) have all pairs of `filter`? */
bool e2b_filter_fits(const json_t *filter, const json_t *metadata);
