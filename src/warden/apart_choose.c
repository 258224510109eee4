/*
 * The decision, without the machine. Nothing may be lost by it: processors are
 * given to hogs only as far as hogs fill them, only to hogs that may not use
 * more than that, whatever they would do there, and only while the others do
 * not need them. (What a hog would use cannot be seen any more when it is kept
 * to some.) What is given stays so for a little less.
 */
#include <stdint.h>
#include <stdlib.h>

#include "warden/apart.h"

enum {
	CPU_MILLI = 1000,
	FULL_MILLI = 850,  /* of a processor: it is filled */
	STILL_MILLI = 600, /* ...it still is */
	ROOM_MILLI = 700,  /* of each that is left for the others */
	TIGHT_MILLI = 900, /* ...they need more */
};

/* Many small ones disturb more than one that is large. */
static int by_limit(const void *a, const void *b)
{
	const struct hog *x = a, *y = b;

	return (x->limit_milli > y->limit_milli) -
	       (x->limit_milli < y->limit_milli);
}

/* Processors that so much use fills, of at most `most`. */
static unsigned filled(unsigned use, unsigned now, unsigned most)
{
	unsigned n = (use + CPU_MILLI - FULL_MILLI) / CPU_MILLI;
	unsigned still = (use + CPU_MILLI - STILL_MILLI) / CPU_MILLI;

	if (still > now)
		still = now;
	if (n < still)
		n = still;
	return n < most ? n : most;
}

/* How many of the first have room on that many, and what they use. */
static size_t fitting(const struct hog *hogs, size_t n, unsigned cpus,
		      unsigned *use)
{
	uint64_t limits = 0;
	size_t i;

	*use = 0;
	for (i = 0; i < n; i++) {
		limits += hogs[i].limit_milli;
		if (limits > (uint64_t)cpus * CPU_MILLI)
			break;
		*use += hogs[i].use_milli;
	}
	return i;
}

unsigned apart_choose(struct hog *hogs, size_t n, const struct apart_load *l,
		      size_t *chosen)
{
	unsigned cpus = l->cpus > 0 ? l->cpus - 1 : 0, most, use, others;
	size_t k;

	*chosen = 0;
	qsort(hogs, n, sizeof(*hogs), by_limit);
	do {
		most = cpus;
		k = fitting(hogs, n, most, &use);
		cpus = filled(use, l->now, most);
	} while (cpus < most);
	others = l->all_milli > use ? l->all_milli - use : 0;
	if (cpus == 0 ||
	    others > (l->cpus - cpus) * (l->now ? TIGHT_MILLI : ROOM_MILLI))
		return 0;
	*chosen = k;
	return cpus;
}
