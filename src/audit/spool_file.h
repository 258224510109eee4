/*
 * The writing end of a spool (audit/spool.h): one file, which its owner has
 * opened. What a killed writer left at its end is cut off at the next start.
 * Records that are on disk in the log make room: the head moves on behind
 * them, and what was there becomes a hole.
 *
 * Numbers must never be used twice, or the scribe would take a new record for
 * one that it has: they go on behind the spool's and behind the log's, of
 * which a loss of power may have kept either.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Set what comes first. */
struct spool_file {
	int fd;            /* read and written; ours from spool_file_open() */
	int read_fd;       /* for the scribe; -1: `fd` itself */
	const char *name;  /* in messages; the owner's */
	uint64_t size_max; /* bytes that may wait */
	uint64_t reserve;  /* bytes that a full disk cannot take; 0: none */

	unsigned char head[32]; /* as it is in the file: SPOOL_HEAD */
	uint64_t start, end;    /* of the records */
	uint64_t next;          /* number of the next one */
	uint64_t mark, mark_at; /* a record and where it begins; 0: none */
	uint64_t floor;    /* records below it were in the log at the start */
	uint64_t reserved; /* up to here the disk is ours */
};

/*
 * `in_log`: number of the last record that the log is known to have. An empty
 * file gets its head. EBADMSG: it is something else; nothing was changed.
 */
int spool_file_open(struct spool_file *f, uint64_t in_log,
		    struct err *e) MUST_CHECK;
void spool_file_close(struct spool_file *f);

/* The record's number, or -errno. It is in the kernel's hands then. */
int64_t spool_file_add(struct spool_file *f, const char *body,
		       size_t n) MUST_CHECK;
static inline uint64_t spool_file_bytes(const struct spool_file *f)
{
	return f->end - f->start;
}
/*
 * Is the reserve there behind the last record? Makes it where it can. Who asks
 * before beginning something has room for the record of its end.
 */
bool spool_file_roomy(struct spool_file *f);
/*
 * 0 when the file takes writes now, or -errno. Writes the head again as it is:
 * a file system that went read-only after an I/O error refuses only writes, and
 * a caller that acts before it writes the record would act without a record.
 */
int spool_file_probe(const struct spool_file *f) MUST_CHECK;
/* Remembers the end, for spool_file_cut(). */
void spool_file_mark(struct spool_file *f);
/* Without what is in front of the mark. */
int spool_file_cut(struct spool_file *f) MUST_CHECK;
/* Without any record; the next one is `next`. */
int spool_file_empty(struct spool_file *f, uint64_t next) MUST_CHECK;
/* Cuts off what is no record. */
int spool_file_check(struct spool_file *f, struct err *e) MUST_CHECK;
