/*
 * The records of a worker that looks at states (wire/view.h). They are kept
 * until there are some, but never long: whoever reads sees it move, and a
 * reader that has gone is noticed.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/view.h"

struct say {
	int fd;
	struct buf b;
	uint64_t last_ms;
	uint64_t entries, bytes; /* looked at, for the progress */
	/* Of who tells it otherwise than by records; else NULL. */
	int (*alive)(struct say *s, struct err *e);
	/* What data goes through, or NULL. */
	int (*through)(struct say *s, const void *p, size_t n, struct err *e);
	void *through_arg;
};

int say_record(struct say *s, const struct view_record *r,
	       struct err *e) MUST_CHECK;
/* Bytes of a tar or a file, any number; through the hook if there is one. */
int say_data(struct say *s, const void *p, size_t n, struct err *e) MUST_CHECK;
/* To be called with every step: tells, now and then, how far it came. */
int say_alive(struct say *s, struct err *e) MUST_CHECK;
/* The last record: VIEW_DONE, or why not. */
int say_end(struct say *s, const struct err *why) MUST_CHECK;
