/*
 * Fair turns between keys. Handlers run on one thread, and some of them take a
 * while (a list of many sandboxes): a key that has had its slice of a turn of
 * the loop waits for the next turn, so that requests of other keys, which have
 * come meanwhile, are not behind all of its own.
 */
#pragma once

#include <stdbool.h>

#include "api/call.h"
#include "base/list.h"
#include "base/loop.h"

/* Zero-initialise. */
struct fair {
	struct list keys; /* that ran in this turn, or wait */
	struct timer next;
};

void fair_init(struct api *a);
/* Calls `fn`, now or, when the key has had its slice, in a later turn. */
void fair_run(struct api *a, struct http_conn *c, const struct call *call,
	      handler_fn *fn);
