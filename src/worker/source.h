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
#include "worker/supply.h"

enum source_format {
	SOURCE_TAR,       /* compressed or not */
	SOURCE_PLAIN_TAR, /* not compressed */
	SOURCE_RAW,       /* anything compressed, or not: one entry */
};

struct source {
	struct archive *a;
	struct supply *from;
	struct err why;    /* of `from`, when it failed */
	uint64_t in_bytes; /* taken from it */
	/*
	 * A bomb is what expands too much: the bytes that came out, those of
	 * `before` included, against those in `paid`.
	 */
	const uint64_t *paid; /* in_bytes, unless changed after the open */
	uint64_t before;
	bool open, bomb;
};

/*
 * Loads what libarchive and libc load when first used (converters of names).
 * To be called before the process loses sight of the host's files.
 */
int source_preload(struct err *e) MUST_CHECK;

int source_open(struct source *s, struct supply *from,
		enum source_format format, struct err *e) MUST_CHECK;
/* Accepts a zeroed or half-open one. */
void source_done(struct source *s);
/* 1 and the entry (valid until the next call), 0 at the end, or an error. */
int source_next(struct source *s, struct archive_entry **entry,
		struct err *e) MUST_CHECK;
/* 1 and a block of the current entry's content, 0 at its end, or an error. */
int source_data(struct source *s, struct block *b, struct err *e) MUST_CHECK;
/* Bytes that came out of the decompressor. */
uint64_t source_out(const struct source *s);
/* Was it compressed at all? Known from the first entry on. */
bool source_is_packed(const struct source *s);
/* Reads what follows the end, so that the sender is not cut off. */
int supply_drain(struct supply *from, struct err *e) MUST_CHECK;
