/*
 * Paths of the drive, and what a sandbox may do with them: "PREFIX",
 * "PREFIX:ro" or "PREFIX:rw" of its spec.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { DRIVE_PATH_MAX = 1024, DRIVE_PART_MAX = 255 };

/*
 * UTF-8 of at most DRIVE_PATH_MAX bytes, parts between single slashes, none of
 * them empty, "." or "..", no control bytes. `prefix`: may be empty or end in
 * a slash.
 */
int drive_path_check(const char *path, bool prefix, struct err *e) MUST_CHECK;

struct drive_grant {
	const char *prefix; /* `n` bytes, without a slash at the end */
	size_t n;           /* 0: everything */
	bool write;
};

/* Points into `text`. 0 or -EINVAL. */
int drive_grant_parse(const char *text, struct drive_grant *g) MUST_CHECK;
/* Is it "reports", or below it? */
bool drive_grant_covers(const struct drive_grant *g, const char *path);
