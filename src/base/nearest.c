#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

enum { WORD_MAX = 32 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t edit_distance(const char *word, size_t n, const char *name)
{
	size_t m = strlen(name), i, k;
	size_t d[WORD_MAX + 1][WORD_MAX + 1];

	if (n > WORD_MAX || m > WORD_MAX)
		return SIZE_MAX;
	for (i = 0; i <= n; i++)
		d[i][0] = i;
	for (k = 0; k <= m; k++)
		d[0][k] = k;
	for (i = 1; i <= n; i++) {
		for (k = 1; k <= m; k++) {
			size_t other = word[i - 1] != name[k - 1];

			d[i][k] = least(least(d[i - 1][k], d[i][k - 1]) + 1,
					d[i - 1][k - 1] + other);
			if (i > 1 && k > 1 && word[i - 1] == name[k - 2] &&
			    word[i - 2] == name[k - 1])
				d[i][k] = least(d[i][k], d[i - 2][k - 2] + 1);
		}
	}
	return d[n][m];
}

/* Near: at most a third of the word is wrong, and never all of it. */
void nearest_try(struct nearest *x, const char *name)
{
	size_t d = edit_distance(x->word, x->n, name);
	size_t allowed = (x->n + 2) / 3;

	if (d > allowed || d >= x->n || (x->name && d >= x->distance))
		return;
	x->name = name;
	x->distance = d;
}
