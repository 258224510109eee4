/* The base of an image: its tree as one file with a file system. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/*
 * What is in `root_fd` to the file `out_fd`, which is empty: names, modes,
 * owners, times, links, devices, attributes of users. At most `max` bytes of
 * disk are taken.
 */
int base_make(int root_fd, int out_fd, uint64_t max, uint64_t *entries,
	      uint64_t *bytes, struct err *e) MUST_CHECK;
