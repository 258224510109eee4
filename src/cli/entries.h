/*
 * Entries of the log as they come from the daemon, one JSON object per line,
 * shown as lines for people or as they are.
 */
#pragma once

#include <stdint.h>

#include "cli/cli.h"

struct entries {
	struct cli *cli;
	bool json;     /* lines as they are */
	uint64_t last; /* keep only so many, shown at the end; 0: all at once */
	/* Gets each entry instead of standard output; may be NULL. */
	void (*take)(void *arg, const json_t *entry);
	void *arg;
	/*
	 * For so long after the end of a stream a daemon that is away or not
	 * ready is no error: entries_read returns false. 0: it is one.
	 */
	uint64_t patience_ms;

	/* Private. */
	uint64_t ended_ms; /* when the last stream ended; 0: none yet */
	uint64_t seq;      /* of the last one that came */
	struct buf rest;
	char **kept;
	uint64_t n_kept;
};

/* What is asked for, as parameters of a target. */
struct entries_query {
	const char *type;
	uint64_t after;
	bool has_after;
};
void entries_target(struct buf *out, const char *path,
		    const struct entries_query *q);

/*
 * Reads all of an answer. True: it came to its end; false: the connection was
 * lost, and e->seq says how far it came. A refusal exits.
 */
bool entries_read(struct entries *e, const char *target);
void entries_done(struct entries *e);
