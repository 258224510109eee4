/*
 * The spool: a file in which a writer leaves entries for the scribe. An entry
 * is safe from the death of any process once write(2) has returned, and
 * nobody waits for the scribe.
 *
 * A head with the number of the first record and where it begins (what is in
 * front of it is in the log, and may be a hole), then records: length,
 * checksum, number, body. Numbers grow by one and are never used again; the log
 * has them, so a record is taken once whatever died in between. The end of the
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
};
/* Numbers are JSON integers later. */
#define SPOOL_NUMBER_MAX (1ULL << 53)
/* Its length is a file offset. */
#define SPOOL_OFFSET_MAX (1ULL << 60)

struct spool_record {
	uint64_t number;
	const char *body;
	size_t n;
	size_t size; /* of the record in the file */
};

struct spool_head {
	uint64_t first, start;
};
void spool_head_put(unsigned char out[SPOOL_HEAD], const struct spool_head *h);
/* 0, or -EBADMSG. */
int spool_head_get(const void *p, size_t n, struct spool_head *h) MUST_CHECK;
void spool_put(struct buf *b, uint64_t number, const void *body, size_t n);
/* The record at `p`: 1, 0 when bytes are missing, or -EBADMSG. */
int spool_get(const void *p, size_t n, struct spool_record *r) MUST_CHECK;
