/*
 * The last WIRE_WINDOW bytes of a stream, each at its offset modulo the size.
 * Memory is taken with the first byte and, but for the pages in use, by name
 * only; a stream that ended with little in it is moved to the heap.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"

struct ring {
	uint8_t *p;  /* NULL: there is none */
	size_t size; /* WIRE_WINDOW, or less when it was shrunk */
};

/* Harmless when it is there. */
int ring_make(struct ring *r) MUST_CHECK;
/* [from, from + n) as one or two pieces: how many. */
int ring_iov(const struct ring *r, uint64_t from, size_t n, struct iovec *v);
/* Nothing is added to the stream any more, of which `end` bytes came. */
void ring_shrink(struct ring *r, uint64_t end);
/* How much memory it takes. */
size_t ring_bytes(const struct ring *r, uint64_t end);
void ring_free(struct ring *r);
