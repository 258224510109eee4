/*
 * The decision, without the machine. Nothing may be lost by it: processors are
 * given to hogs only as far as hogs fill them, and only while the others do not
 * need them. What is given stays so for a little less.
 */
#include <stdlib.h>

#include "warden/apart.h"

enum {
	CPU_MILLI = 1000,
	FULL_MILLI = 850,  /* of a processor: it is filled */
	STILL_MILLI = 600, /* ...it still is */
	ROOM_MILLI = 700,  /* of each that is left for the others */
	TIGHT_MILLI = 900, /* ...they need more */
};

static int by_use(const void *a, const void *b)
{
	const struct hog *x = a, *y = b;

	return (x->use_milli > y->use_milli) - (x->use_milli < y->use_milli);
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

unsigned apart_choose(struct hog *hogs, size_t n, const struct apart_load *l,
		      size_t *chosen)
{
	unsigned most = l->cpus > 0 ? l->cpus - 1 : 0, sum = 0, cpus, others;
	size_t i;

	*chosen = 0;
	for (i = 0; i < n; i++)
		sum += hogs[i].use_milli;
	cpus = filled(sum, l->now, most);
	/* Many small ones disturb more than one that is large. */
	qsort(hogs, n, sizeof(*hogs), by_use);
	for (i = 0, sum = 0; i < n; i++) {
		if (sum + hogs[i].use_milli >
		    cpus * CPU_MILLI + CPU_MILLI - FULL_MILLI)
			break;
		sum += hogs[i].use_milli;
	}
	cpus = filled(sum, l->now, cpus);
	others = l->all_milli > sum ? l->all_milli - sum : 0;
	if (cpus == 0 ||
	    others > (l->cpus - cpus) * (l->now ? TIGHT_MILLI : ROOM_MILLI))
		return 0;
	*chosen = i;
	return cpus;
}
