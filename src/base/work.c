#include "base/work.h"

#include <stddef.h>

enum { WORDS = 32768 };

static uint32_t words[WORDS];

/* The heap from `i` on is one again, of `n` words. */
static void sift(size_t i, size_t n)
{
	size_t child;

	while ((child = 2 * i + 1) < n) {
		uint32_t was = words[i];

		if (child + 1 < n && words[child + 1] > words[child])
			child++;
		if (was >= words[child])
			return;
		words[i] = words[child];
		words[child] = was;
		i = child;
	}
}

uint32_t work_do(void)
{
	uint32_t next = 1, sum = 0;
	size_t i;

	for (i = 0; i < WORDS; i++)
		words[i] = next = next * 1664525 + 1013904223;
	for (i = WORDS / 2; i-- > 0;)
		sift(i, WORDS);
	for (i = WORDS - 1; i > 0; i--) {
		uint32_t top = words[0];

		words[0] = words[i];
		words[i] = top;
		sift(0, i);
	}
	for (i = 0; i < WORDS; i++)
		sum = sum * 31 + words[i];
	return sum;
}
