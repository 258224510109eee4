/*
 * Command-line options as tables. One table serves parsing, --help and shell
 * completion. Options end at "--" or at the first word that is not one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum opt_kind {
	OPT_FLAG,   /* bool */
	OPT_TEXT,   /* const char *, points into argv */
	OPT_NUMBER, /* uint64_t */
	OPT_SIZE,   /* uint64_t, bytes */
	OPT_TIME,   /* uint64_t, ms */
	OPT_MILLI,  /* uint64_t, thousandths */
	OPT_LIST    /* struct opt_list, may be given several times */
};

enum { OPT_LIST_MAX = 64 };
struct opt_list {
	const char *v[OPT_LIST_MAX];
	size_t n;
};

struct opt {
	const char *name; /* without the dashes; the table ends at NULL */
	char letter;      /* 0: none */
	enum opt_kind kind;
	void *to;
	const char *arg;  /* what --help calls the value; NULL for flags */
	const char *help; /* NULL: not shown */
};

/* Index of the first operand in argv, or -errno with a message. */
int opt_parse(const struct opt *table, int argc, char **argv,
	      struct err *e) MUST_CHECK;
void opt_help(const struct opt *table);
