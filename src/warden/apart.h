/* Whom to keep apart: see apart.c. */
#pragma once

#include <stddef.h>

/* One that uses what it may have. Processors are counted in thousandths. */
struct hog {
	unsigned use_milli;
	unsigned limit_milli; /* what it could use, if it were let */
	struct box *box;
};

struct apart_load {
	unsigned cpus;      /* of all sandboxes */
	unsigned all_milli; /* that they use */
	unsigned now;       /* processors that hogs have for themselves */
};

/*
 * How many processors they fill, and so should have for themselves: 0 when
 * that would take something away from somebody. Puts first the `*chosen` whom
 * it is about.
 */
unsigned apart_choose(struct hog *hogs, size_t n, const struct apart_load *l,
		      size_t *chosen);
