/*
 * The host's side of wire/guest.h. Everything here waits, each call with its
 * own limit: it is for children of the warden, never for its loop.
 *
 * What is asked may be asked more than once: the word that somebody came can
 * be lost on its way into a machine that was just restored, which then cannot
 * answer. So a line without an answer is closed and opened again, after a
 * while that doubles each time.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "wire/guest.h"

struct control_line {
	int fd; /* -1: closed */
	int box_fd;
	char id[ID_CAP];
};

/* To the machine whose run directory is `id` below `box_fd`. */
int control_open(struct control_line *l, int box_fd, const char *id,
		 struct err *e) MUST_CHECK;
/* Harmless when it is closed. */
void control_close(struct control_line *l);
/* Until its agent listens. ETIMEDOUT, ECONNRESET: it ended. */
int control_ask(struct control_line *l, uint64_t most_ms,
		struct err *e) MUST_CHECK;
/* Until what is dirty is on its disk; it runs meanwhile. */
int control_sync(struct control_line *l, uint64_t most_ms,
		 struct err *e) MUST_CHECK;
/* Until it has done its piece of work, base/work.h. */
int control_work(struct control_line *l, uint64_t most_ms,
		 struct err *e) MUST_CHECK;
/* Until agent and users stand still, and what was dirty is on its disk. */
int control_hold(struct control_line *l, uint64_t most_ms,
		 struct err *e) MUST_CHECK;

struct control_name {
	const char *id, *hostname;
};
/* They go on, with this name, fresh randomness and the time of the host. */
int control_wake(struct control_line *l, const struct control_name *n,
		 uint64_t most_ms, struct err *e) MUST_CHECK;

/* Is this an answer to that? The guest's own error is one, too. Pure. */
int control_check(const struct guest_req *q, const struct guest_rep *p,
		  struct err *e) MUST_CHECK;
