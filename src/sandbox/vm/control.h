/*
 * The host's side of wire/guest.h. Everything here waits, each call with its
 * own limit: it is for children of the warden, never for its loop.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "wire/guest.h"

/* To the machine whose run directory is `id` below `box_fd`. */
int control_open(int box_fd, const char *id, struct err *e) MUST_CHECK;
/* Until its agent listens. ETIMEDOUT, ECONNRESET: it ended. */
int control_ask(int fd, uint64_t most_ms, struct err *e) MUST_CHECK;
/* Until what is dirty is on its disk; it runs meanwhile. */
int control_sync(int fd, uint64_t most_ms, struct err *e) MUST_CHECK;
/* Until it has done its piece of work, base/work.h. */
int control_work(int fd, uint64_t most_ms, struct err *e) MUST_CHECK;
/* Until agent and users stand still, and what was dirty is on its disk. */
int control_hold(int fd, uint64_t most_ms, struct err *e) MUST_CHECK;

struct control_name {
	const char *id, *hostname;
	uint32_t flags; /* GUEST_COPIED */
};
/* They go on, with this name, fresh randomness and the time of the host. */
int control_wake(int fd, const struct control_name *n, uint64_t most_ms,
		 struct err *e) MUST_CHECK;

/* Is this an answer to that? The guest's own error is one, too. Pure. */
int control_check(const struct guest_req *q, const struct guest_rep *p,
		  struct err *e) MUST_CHECK;
