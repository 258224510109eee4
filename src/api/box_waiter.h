/*
 * Embedded in who waits for a sandbox to end, or to have another life;
 * `e->code` 0: it has.
 */
#pragma once

#include "base/err.h"
#include "base/list.h"

struct box_waiter {
	struct list node;
	void (*fn)(struct box_waiter *w, const struct err *e);
};
