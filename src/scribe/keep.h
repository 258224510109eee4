/*
 * How much of the log is kept: everything, so many bytes, or so many days.
 * Whole files go, the oldest first, never the one that grows. A signed entry
 * (log.prune) says so before they go: files that are missing without one were
 * taken by somebody else.
 */
#pragma once

#include "scribe/chain.h"

struct keep {
	uint64_t bytes; /* 0: no limit */
	uint64_t ms;    /* 0: no limit */
};

/* "0", "10G", "90d", "12h". */
int keep_parse(const char *text, struct keep *k, struct err *e) MUST_CHECK;
int keep_apply(const struct keep *k, struct chain *c, struct err *e) MUST_CHECK;
