/*
 * The options of verbs that describe a sandbox, made from the table of
 * spec/spec.h. Values go to the daemon as they were typed: it knows
 * the bounds and says what is wrong with them.
 */
#pragma once

#include "cli/cli.h"
#include "spec/spec.h"

enum { SPEC_OPTS_MAX = 48 };

enum spec_rows {
	ROWS_CREATE,
	ROWS_RUN,   /* without those that the options of a process have too */
	ROWS_PATCH, /* only what may be changed while it lives */
};

/* Each by the number of the field in the table. */
struct spec_opts {
	enum spec_rows rows;
	const char *text[SPEC_OPTS_MAX]; /* NULL: not given */
	struct opt_list list[SPEC_OPTS_MAX];
	bool flag[SPEC_OPTS_MAX]; /* --NAME or --no-NAME of a bool */
	char off_name[SPEC_OPTS_MAX][32], off_help[SPEC_OPTS_MAX][64];
};

/* Writes the rows to `table`; returns their number. */
size_t spec_opts_rows(struct spec_opts *s, struct opt table[SPEC_OPTS_MAX],
		      enum spec_rows rows);
/*
 * Appends the JSON of what was given; `env` may be NULL. Exits when something
 * is not NAME=VALUE that must be, or a file cannot be read.
 */
void spec_opts_body(struct cli *cli, const struct spec_opts *s,
		    const struct opt_list *env, struct buf *b);
/*
 * Completes and checks a list of "K=V" and "K" in place: what remains is
 * "K=V", the last one of each K; "K" is our own K, or nothing when we have
 * none. Exits when one is malformed.
 */
void env_complete(struct cli *cli, struct opt_list *env);
