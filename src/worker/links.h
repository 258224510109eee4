/*
 * Files with several names, by what makes an inode one of its own: its number
 * and its times. (A number alone does not: a view has files of two trees.) The
 * memory is bounded; a file that does not fit counts as one of its own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct links {
	char *text; /* records, one after another */
	size_t len, cap;
	uint32_t *slot; /* of records; 0: free, else where it starts, + 1 */
	size_t n, n_slots;
};

/* The name under which it was seen first; else NULL, and this one is kept. */
const char *links_first(struct links *l, const struct statx *sx,
			const char *path);
void links_done(struct links *l);
