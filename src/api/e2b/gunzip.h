/*
 * Bodies that come compressed (Content-Encoding: gzip), as they come. A call
 * makes a bounded piece of what a few bytes may blow up to, so whoever cannot
 * pass it on stops there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { GUNZIP_PIECE = 64 * 1024 };

struct gunzip;

/* NULL: out of memory. */
struct gunzip *gunzip_new(void);
void gunzip_free(struct gunzip *g);
/*
 * Takes `*used` of the `n` bytes and appends up to GUNZIP_PIECE to `out`. It
 * needs more when it neither took nor made anything. -EBADMSG: it is no gzip.
 */
int gunzip_next(struct gunzip *g, const void *p, size_t n, size_t *used,
		struct buf *out, struct err *e) MUST_CHECK;
/* Could it end here? */
bool gunzip_is_whole(const struct gunzip *g);
