/*
 * Where a snapshot comes from: two of the same tree share whatever was not
 * changed since the older one was made.
 */
#pragma once

#include <stdint.h>

struct store_origin {
	uint8_t tree[16]; /* which tree it is a snapshot of */
	uint64_t made_ns; /* when, wall time */
};

/* 0, or -errno where the file system does not know (-ENOTTY and the like). */
int store_origin(int tree_fd, struct store_origin *o);
