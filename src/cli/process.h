/*
 * What the verbs that start a command have in common: `run`, `exec`, `shell`.
 */
#pragma once

#include "cli/cli.h"

struct process_opts {
	bool input, no_input, tty, detach;
	const char *user, *workdir;
	const char *tag; /* of the user; NULL: a random one where it helps */
	const char *env_file;
	uint64_t timeout_ms; /* 0: none */
	struct opt_list env;
};

enum { PROCESS_ROWS = 7 };
/* Writes the rows (without --detach) to `table`; returns their number. */
size_t process_rows(struct process_opts *p, struct opt table[PROCESS_ROWS]);
/*
 * Is the command with the words `argv`: returns its exit code. It is started
 * in the sandbox `ref`, where it goes on when the connection is lost, and is
 * come back to; or, with `ref` NULL, in a new one of the spec `body`.
 */
int process_run(struct cli *cli, struct process_opts *p, const char *ref,
		const struct buf *body, char **argv);

/* "3" or "tag:TAG" of the command line; exits when it is neither. */
struct attach;
void process_ref(struct cli *cli, const char *word, struct attach *at);

/* The target for frames of a sandbox: "/v1/sandboxes/work/exec". */
enum { EXEC_TARGET_CAP = 520 };
void process_target(struct cli *cli, const char *ref,
		    char out[EXEC_TARGET_CAP]);
