/*
 * Packs what is said, for those who send it far: gzip, fast rather than small.
 * The sum of what went in is told at the end: an image names its layers by it.
 */
#pragma once

#include <archive.h>
#include <stddef.h>

#include "base/err.h"
#include "base/sha.h"

struct say;

struct zip {
	struct say *say;
	struct archive *a;
	struct sha256 sha;
	struct err failed; /* of the writing inside */
};

/* From here on all data goes through it. */
int zip_open(struct zip *z, struct say *s, struct err *e) MUST_CHECK;
/* The last bytes, and VIEW_SUM. */
int zip_end(struct zip *z, struct err *e) MUST_CHECK;
