/*
 * Requests that take long: JSON lines that say how far it is, shown on stderr,
 * and one that says what came of it.
 */
#pragma once

#include "cli/progress.h"
#include "cli/server.h"

/* A step as the daemon calls it, and what people read. Ends at a NULL. */
struct long_phase {
	const char *step, *phase;
};

/* What the daemon made, by a POST; exits when it is nothing. */
json_t *long_ask(struct cli *cli, const char *target, const struct buf *body,
		 const struct long_phase *phases, struct progress *progress);
