/* What `run` and `exec` have in common: a command and how to attach to it. */
#pragma once

#include "cli/cli.h"

struct process_opts {
	bool input, no_input, tty, detach;
	const char *user, *workdir;
	struct opt_list env;
};

enum { PROCESS_ROWS = 6 };
/* Writes the rows (without --detach) to `table`; returns their number. */
size_t process_rows(struct process_opts *p, struct opt table[PROCESS_ROWS]);
/*
 * Posts to `target` with an upgrade, our hello and the spawn request in one
 * write, then is the command: returns the exit code. `argv` is its words.
 */
int process_run(struct cli *cli, struct process_opts *p, const char *target,
		const struct buf *body, char **argv);
