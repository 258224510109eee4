/* Answers of token endpoints: read within their bounds, and what is taken can
 * stand in a field. */
#include <assert.h>
#include <string.h>

#include "vault/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct token t = { 0 };
	const char *s;

	if (token_read(&t, (const char *)data, n) == 0)
		for (s = buf_str(&t.access); *s; s++)
			assert(*s > ' ' && *s <= '~');
	token_done(&t);
	return 0;
}
