/* What the api packs for a door: taken as it is or refused, and what is taken
 * packs the same and binds no request that it should not. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vault/secret.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct request r = { SCHEME_HTTPS, "a.test", 443, "GET", "/x" };
	struct buf b = { 0 };
	struct secret s, t;

	if (secret_unpack(&s, data, n) < 0)
		return 0;
	secret_pack(&b, &s);
	assert(buf_len(&b) == n && memcmp(buf_data(&b), data, n) == 0);
	assert(secret_unpack(&t, buf_data(&b), buf_len(&b)) == 0);
	assert(secret_binds(&s, &r) == secret_binds(&t, &r));
	secret_done(&s);
	secret_done(&t);
	buf_done(&b);
	return 0;
}
