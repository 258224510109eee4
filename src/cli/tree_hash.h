/*
 * What a file or directory is, as far as a copy of it goes: names, kinds,
 * permissions, contents; not times and owners.
 */
#pragma once

#include "base/err.h"
#include "base/sha.h"

/* Added to `h`. Directories are read in the order of their names. */
int tree_hash(const char *path, struct sha256 *h, struct err *e) MUST_CHECK;
