/*
 * One output stream of the process inside on its way to our stdout or stderr.
 *
 * A reader that is slow must slow the process inside, not us: we still have
 * signals to forward. So nothing here blocks. What cannot be written at once
 * waits in `pending`, which the wire's window bounds, and only bytes that were
 * written are acknowledged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct sink {
	int fd;       /* STDOUT_FILENO or STDERR_FILENO */
	int out_fd;   /* what is written to; -1 before the first byte */
	size_t chunk; /* most that one write() may take without blocking */
	struct buf pending;
	/* Offsets in the stream. `acked` is also what was acknowledged by
	 * coming back with `received`, so it may be ahead of `written`. */
	uint64_t received, written, acked;
	bool eof;
};

/*
 * Writes or keeps `n` bytes that start at `offset` of the stream: 0, -EBADMSG
 * when they do not follow or are beyond the window, or -errno of write().
 */
int sink_take(struct sink *s, uint64_t offset, const void *p,
	      size_t n) MUST_CHECK;
/* The next `n` bytes of the stream will never come. */
void sink_skip(struct sink *s, uint64_t n);
/* Writes some of what is pending, after poll() said that it is possible. */
int sink_flush(struct sink *s) MUST_CHECK;
/* The stream has ended and is written: whoever reads our stdout learns it. */
void sink_close(struct sink *s);
void sink_done(struct sink *s);
