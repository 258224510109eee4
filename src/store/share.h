/* The contents of one file in another. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/*
 * Shares the blocks where both lie on a file system that can, else copies what
 * is not empty; `to_fd` is empty, and becomes as long as `from_fd` is.
 */
int file_share(int from_fd, int to_fd, struct err *e) MUST_CHECK;
/* Is it in so few pieces that to share them is a moment's work? What is dirty
 * of it is written first. */
bool file_is_light(int fd);
/* Copies in any case; what is zero becomes a hole. */
int file_copy(int from_fd, int to_fd, struct err *e) MUST_CHECK;
