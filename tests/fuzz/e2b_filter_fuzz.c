/* A filter of metadata: whatever is taken is text, and fits itself. */
#include "../../src/api/e2b/filter.c"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 1);
	struct err e = { 0 };
	json_t *j;

	memcpy(text, data, n);
	text[n] = '\0';
	j = e2b_filter_parse(text, &e);
	assert(!j == (e.code != 0));
	if (j) {
		char *out = json_dumps(j, 0);

		assert(out && json_object_size(j) <= E2B_FILTER_MAX);
		assert(e2b_filter_fits(j, j));
		free(out);
	}
	json_decref(j);
	free(text);
	return 0;
}
