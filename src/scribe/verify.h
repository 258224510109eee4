/*
 * Checks a log: every entry by its hash, its number and the hash before it;
 * every signed entry by its signature; that files are missing only where a
 * signed entry says so, and that the end is there which was signed last.
 *
 * What it cannot see: entries behind the last signed one (at most some
 * seconds' worth) that somebody cut off or wrote anew. It says how many those
 * are. And whoever can write to the log and to its key.pub can replace both:
 * keep the key, or signed heads, somewhere else.
 */
#pragma once

#include <stdio.h>

#include "base/err.h"
#include "base/opt.h"

enum {
	VERIFY_GOOD = 0,
	VERIFY_BAD = 1,    /* the log is not what was written */
	VERIFY_FAILED = 2, /* it could not be read */
};

struct verify_options {
	const char *dir;
	struct opt_list keys; /* files; none: DIR/key.pub */
	const char *head;     /* file; NULL: DIR/head */

	/* Set by verify_open(). */
	int dir_fd;
	struct verify_keys *known;
	char *head_line;
};

/* Reads keys and head; the rest can be done behind a filter. */
int verify_open(struct verify_options *o, struct err *e) MUST_CHECK;
/* Prints what it finds; one of the codes above. */
int verify_run(const struct verify_options *o);
void verify_close(struct verify_options *o);
