/*
 * A process in a sandbox as if it were ours: its bytes, our signals, its exit
 * code, over an upgraded connection (wire/frame.h).
 *
 * The process outlives the connection. When the daemon goes (killed, or
 * upgraded), we come back to the process as soon as there is a daemon again,
 * say which bytes we have, send again what it had not got, and go on.
 */
#pragma once

#include <stdbool.h>

#include "cli/cli.h"
#include "wire/frame.h"

struct stream_opts {
	struct cli *cli;
	const char *target;        /* of the upgrade */
	const struct buf *body;    /* of that request, or NULL */
	const struct spawn *spawn; /* what to start; NULL: it runs already */
	/*
	 * By what it is found again. Neither number nor tag: never, it ends
	 * with the connection. `at.out` are 0 (all that is kept) or
	 * OFFSET_NOW, for a process that runs already.
	 */
	struct attach at;
	bool named;  /* the tag is the user's: another process may have it */
	bool input;  /* forward our stdin */
	bool tty;    /* the process has a terminal; attaching finds out */
	bool detach; /* print its number and leave when it runs */
	bool keys;   /* Ctrl-P Ctrl-Q leaves a terminal */
	bool aside;  /* our signals are our own, not the process's */
	bool look;   /* exit code 0, however it ends */
	/* The process is ended after that time; 0: it may take any time. */
	uint64_t timeout_ms;
	/* Leave when its output was read up to there. */
	bool bounded;
	uint64_t until[2];
};

/*
 * Returns the exit code for our own caller; says on stderr what went wrong.
 * Does not return when our stdout is closed: it ends by SIGPIPE as the
 * process itself would have.
 */
int stream_run(const struct stream_opts *o);
