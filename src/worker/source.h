/*
 * The archive as a stream of entries: libarchive behind an interface that
 * bounds what it does. Only tar, and only filters that are compiled into the
 * library: none starts a program. Content is always read block by block,
 * also of entries that are skipped, so that the checks see every byte.
 */
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct source {
	struct archive *a;
	int fd;
	uint64_t in_bytes; /* read from fd */
	bool open, bomb;
	char block[64 * 1024];
};

struct block {
	const void *p; /* libarchive's, until the next call */
	size_t n;
	uint64_t offset;
};

/*
 * Loads what libarchive and libc load when first used (converters of names).
 * To be called before the process loses sight of the host's files.
 */
int source_preload(struct err *e) MUST_CHECK;

int source_open(struct source *s, int fd, struct err *e) MUST_CHECK;
/* Accepts a zeroed or half-open one. Leaves the descriptor open. */
void source_done(struct source *s);
/* 1 and the entry (valid until the next call), 0 at the end, or an error. */
int source_next(struct source *s, struct archive_entry **entry,
		struct err *e) MUST_CHECK;
/* 1 and a block of the current entry's content, 0 at its end, or an error. */
int source_data(struct source *s, struct block *b, struct err *e) MUST_CHECK;
/* Reads what follows the end, so that the sender is not cut off. */
int source_drain(struct source *s, struct err *e) MUST_CHECK;
