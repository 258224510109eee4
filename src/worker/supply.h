/*
 * Where bytes come from: block by block, pulled by whoever needs them. An
 * archive's bytes come from a pipe, those of a layer from an entry of the
 * archive or from the spool, those of its tar out of the decompressor.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha.h"

enum { SUPPLY_BLOCK = 256 * 1024 };

struct block {
	const void *p; /* until the next call */
	size_t n;      /* not 0 */
	uint64_t offset;
};

struct supply {
	/* 1 and a block, 0 at the end, or an error. */
	int (*next)(struct supply *s, struct block *b, struct err *e);
};

/* A descriptor, read to its end. */
struct supply_fd {
	struct supply supply;
	int fd;
	uint64_t n; /* read so far */
	char block[SUPPLY_BLOCK];
};

/* `left` more bytes of a file that begin at `start`. */
struct supply_part {
	struct supply supply;
	int fd;
	uint64_t start, n, left; /* n: read so far */
	char block[SUPPLY_BLOCK];
};

/* Passes on what `from` has, hashed; holes in it are refused. */
struct supply_hashed {
	struct supply supply, *from;
	struct sha256 sum;
	uint64_t n;
};

void supply_fd_init(struct supply_fd *s, int fd);
void supply_part_init(struct supply_part *s, int fd, uint64_t start,
		      uint64_t size);
void supply_hashed_init(struct supply_hashed *s, struct supply *from);

static inline int supply_next(struct supply *s, struct block *b, struct err *e)
{
	return s->next(s, b, e);
}
