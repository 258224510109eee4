/*
 * A process in a sandbox as if it were ours: its bytes, our signals, its exit
 * code, over an upgraded connection (wire/frame.h).
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct stream_opts {
	bool input;  /* forward our stdin */
	bool tty;    /* the process has a terminal */
	bool detach; /* leave when it runs */
};

/*
 * Channel 1 of `fd`, on which our hello and FRAME_SPAWN were sent already;
 * `first` are bytes that have come. Returns the exit code for our own caller;
 * says on stderr what went wrong. Does not return when our stdout is closed:
 * it ends by SIGPIPE as the process itself would have.
 */
int stream_run(int fd, const struct buf *first, const struct stream_opts *o);
