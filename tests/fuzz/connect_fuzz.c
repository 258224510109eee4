/* Messages of Connect: the first byte says whether it is an envelope. What is
 * taken is an object; what is not has a reason. */
#include <assert.h>
#include <stdint.h>

#include "../../src/api/e2b/connect.c"
#include "../../src/api/json_bounds.c"
#include "../../src/api/json_text.c"
#include "../../src/api/reply.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct err e = { 0 };
	json_t *j;

	if (n == 0)
		return 0;
	j = connect_parse(data[0] & 1, (const char *)data + 1, n - 1, &e);
	assert(j ? json_is_object(j) : e.code != 0);
	json_decref(j);
	return 0;
}
