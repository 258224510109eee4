/* Where a file's content lies on the disk, as the file system tells it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Two files of `size` bytes whose extents are the very same, so that their
 * content is. False when the file system cannot say.
 */
bool extents_are_one(int a, int b, uint64_t size);
/* Adds up the extents of a file of `size` bytes, and those of them that others
 * have too. */
int extents_sum(int fd, uint64_t size, uint64_t *bytes, uint64_t *shared,
		struct err *e) MUST_CHECK;
