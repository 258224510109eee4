/* A tar on stdin, entry by entry. Every byte of it is a stranger's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/tar.h"

/* Zero-initialise. */
struct tar_in {
	struct tar_entry entry; /* the one that tar_in_next() found */
	struct buf pax;         /* its extended header, as it came */
	bool followed;          /* set it: something else is behind the archive,
				   which is not read with it */
	bool sparse;            /* it is stored in a form that we do not read */

	/* Private: a window on stdin, */
	char *p;
	size_t off, len;
	bool end, begun;
	uint64_t content; /* left of the entry, and its padding */
	size_t padding;
	struct tar_extra extra;
};

void tar_in_done(struct tar_in *in);
/* `n` bytes in front of the archive, or fewer at the end: the count. */
ssize_t tar_in_take(struct tar_in *in, void *to, size_t n,
		    struct err *e) MUST_CHECK;
/* The next entry; what was left of the one before is skipped. 1, or 0 when
 * the archive ends; what is behind its end was read, too. */
int tar_in_next(struct tar_in *in, struct err *e) MUST_CHECK;
/* The next piece of the entry's content: its size, 0 when that is all. */
ssize_t tar_in_piece(struct tar_in *in, const char **p,
		     struct err *e) MUST_CHECK;

/*
 * Brings a name of an archive into the form "a/b/c", "" for the directory
 * itself; one that is absolute or has a ".." is refused. `what` is for the
 * message.
 */
int tar_name_clean(char *path, const char *what, struct err *e) MUST_CHECK;
