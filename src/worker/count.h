/* How many entries a tree has, and how many bytes of content. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "worker/report.h"

/* Holes and second names count nothing. */
int count_tree(int root_fd, struct report *report, uint64_t *entries,
	       uint64_t *bytes, struct err *e) MUST_CHECK;
