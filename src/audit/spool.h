/*
 * The spool: a file in which the api leaves entries for the scribe. An entry
 * is safe from the death of any process once write(2) has returned, and
 * nobody waits for the scribe.
 *
 * A head with the number of the first record, then records: length, checksum,
 * number, body. Numbers grow by one and are never used again; the log has
 * them, so a record is taken once whatever died in between. The end of the
 * file may be half a record: its writer was killed, and promised nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	SPOOL_HEAD = 32,
	SPOOL_RECORD_HEAD = 16,
	SPOOL_BODY_MAX = 16 * 1024,
	SPOOL_RECORD_MAX = SPOOL_RECORD_HEAD + SPOOL_BODY_MAX,
};
/* Numbers are JSON integers later. */
#define SPOOL_NUMBER_MAX (1ULL << 53)

struct spool_record {
	uint64_t number;
	const char *body;
	size_t n;
	size_t size; /* of the record in the file */
};

void spool_head_put(unsigned char out[SPOOL_HEAD], uint64_t first);
/* 0, or -EBADMSG. */
int spool_head_get(const void *p, size_t n, uint64_t *first) MUST_CHECK;
void spool_put(struct buf *b, uint64_t number, const void *body, size_t n);
/* The record at `p`: 1, 0 when bytes are missing, or -EBADMSG. */
int spool_get(const void *p, size_t n, struct spool_record *r) MUST_CHECK;
