/* Connections that become frames (wire/frame.h): one HTTP upgrade each. */
#pragma once

#include "cli/server.h"

struct dial {
	struct cli *cli;
	const char *target;
	const struct buf *body; /* JSON, or NULL */
	const char *protocol;
};

/*
 * Posts the upgrade with `first` (may be NULL) right behind it, so that no
 * round trip is lost. 0: `fd` and the bytes that came with the answer are the
 * caller's. Else `why` says what happened: -EAGAIN when the daemon is not
 * there or not ready, which may change; -EPERM when it said no.
 * `timeout_ms` is for each step; 0 waits for ever.
 */
int dial(const struct dial *d, const struct buf *first, uint64_t timeout_ms,
	 int *fd, struct buf *leftover, char why[MESSAGE_CAP]);
