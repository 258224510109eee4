/* `carrel X ls`: what the daemon has of a kind. */
#pragma once

#include "cli/cli.h"

struct table;

struct listing {
	const char *target; /* that is asked for */
	const char *key;    /* of the answer, that has the list */
	const char *const *titles;
	size_t n_titles;
	void (*row)(struct table *t, const json_t *one);
	bool numbered; /* --quiet prints numbers, not names */
};

/* A table, names or numbers alone (--quiet), or JSON: the whole verb. */
int listing_verb(struct cli *cli, int argc, char **argv,
		 const struct listing *l);
