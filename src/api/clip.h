/* The first and the last of a stream that may be long. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Zero-initialise, and set `half`. It takes up to three times that. */
struct clip {
	struct buf head, tail;
	size_t half; /* bytes to keep of each end */
	uint64_t total;
	uint64_t dropped; /* once it is closed */
};

static inline size_t clip_len(const struct clip *c)
{
	return buf_len(&c->head) + buf_len(&c->tail);
}
void clip_add(struct clip *c, const char *p, size_t n);
/* The same in the room that it has: something falls out of the middle. */
void clip_add_still(struct clip *c, const char *p, size_t n);
/*
 * Nothing more comes: `head` has it all then, cut at borders of characters,
 * with a line in between that says how much is missing.
 */
void clip_close(struct clip *c);
void clip_done(struct clip *c);
/* The last line so far that is not empty, at most `cap` - 1 bytes of it. */
void clip_last_line(const struct clip *c, char *out, size_t cap);
