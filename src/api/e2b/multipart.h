/*
 * multipart/form-data (RFC 7578), as it comes and in any pieces. What is held
 * is one piece and the head of one part, whatever the body's size.
 *
 * Nothing may stand in front of the first boundary, and no part may be encoded
 * once more; no client does either.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	MULTIPART_BOUNDARY_MAX = 70,
	MULTIPART_HEAD_MAX = 16 * 1024, /* of a part */
};

/* Zero-initialise. */
struct multipart {
	/* Of the part at hand, decoded; any bytes but NUL. */
	struct buf name, filename;
	bool has_filename;
	/* Bytes of its content that are there: see MULTIPART_DATA. */
	const char *data;
	size_t n;

	struct buf in; /* what was fed and not told yet */

	/* Private. */
	char mark[MULTIPART_BOUNDARY_MAX + 8]; /* CRLF, "--" and boundary */
	size_t mark_n;
	unsigned state;
};

enum multipart_next {
	MULTIPART_MORE,     /* feed it */
	MULTIPART_PART,     /* a part begins: name, filename */
	MULTIPART_DATA,     /* `n` (> 0) bytes at `data`: multipart_eat() */
	MULTIPART_PART_END, /* it was complete */
	MULTIPART_END,      /* of all; what follows is ignored */
};

/* `type` is the Content-Type; EINVAL when it has no boundary. */
int multipart_init(struct multipart *m, const char *type,
		   struct err *e) MUST_CHECK;
void multipart_done(struct multipart *m);
/* The caller bounds what is held: buf_len(&m->in). */
void multipart_feed(struct multipart *m, const void *p, size_t n);
/* An enum multipart_next; -EBADMSG, which stays. */
int multipart_next(struct multipart *m, struct err *e) MUST_CHECK;
/* Of the bytes at `data` so many are done with; the rest comes again. */
void multipart_eat(struct multipart *m, size_t n);
