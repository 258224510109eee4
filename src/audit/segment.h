/*
 * The files of the log: NNNNNNNNNNNN.log in one directory, named after the
 * number of their first entry, one entry per line. Only the last one grows.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "audit/entry.h"
#include "base/err.h"

enum {
	SEGMENT_NAME = 32,
	SEGMENT_READ = 64 * 1024, /* at a time; holds every line */
};

void segment_name(uint64_t first, char out[SEGMENT_NAME]);
int segment_open(int dir_fd, uint64_t first, int flags) MUST_CHECK;

/* The numbers in the names, in order. Zero-initialise. */
struct segments {
	uint64_t *first;
	size_t n;
};
int segments_list(int dir_fd, struct segments *out, struct err *e) MUST_CHECK;
void segments_done(struct segments *s);

/* Reads a file from its start, line by line. */
struct line_reader {
	int fd;          /* the caller's */
	uint64_t at;     /* of the line that comes next */
	uint64_t number; /* of the line that came last, from 1 */
	char *p; /* what was read: `n` bytes, `used` of them given out */
	size_t n, used;
};
void lines_init(struct line_reader *r, int fd);
void lines_done(struct line_reader *r);
/*
 * A line without its newline, valid until the next call: 1; 0 when no whole
 * line is left; -EBADMSG when it is longer than any entry; -errno.
 */
int lines_next(struct line_reader *r, struct span *line) MUST_CHECK;

/*
 * The last entry that can be read and is the api's or the scribe's own, in
 * `line`: 1, or 0 when there is none. For who only wants to know how far the
 * log is: hashes are not checked.
 */
int segments_last(int dir_fd, char line[ENTRY_LINE_MAX], struct entry *out,
		  struct err *e) MUST_CHECK;
