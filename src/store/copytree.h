/* Copies of directories. Internal to src/store/. */
#pragma once

#include "store/ops.h"

/*
 * All that is in `from_fd` into the empty directory `name` of `dir_fd`, which
 * gets the facts of `from_fd` too. 0 or -errno; what it made is left to a
 * discard of `dir_fd`.
 */
int copy_tree(const struct store_ops *ops, int from_fd, int dir_fd,
	      const char *name) MUST_CHECK;
