/*
 * The first message of TLS with foreign bytes. Besides memory errors these are
 * failures: a verdict before all is there that more bytes change, and a name
 * that is not canonical.
 */
#include "../../src/gate/hello.c"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct hello *h)
{
	char again[POLICY_HOST_CAP];
	bool address;

	if (!h->sni[0])
		return;
	assert(host_read(h->sni, strlen(h->sni), again, &address) == 0);
	assert(!address && strcmp(again, h->sni) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hello whole, part;
	int want = hello_read(&whole, data, size), r = 0;
	size_t n;

	assert(want == 1 || want == 0 || want == -EPROTO || want == -EBADMSG);
	assert(want != 0 || size < HELLO_MAX);
	if (want == 1)
		check(&whole);
	for (n = 0; n <= size && r == 0; n += n < 128 ? 1 : 61)
		r = hello_read(&part, data, n);
	if (r == 0)
		return 0;
	assert(r == want);
	assert(r != 1 || memcmp(&part, &whole, sizeof(whole)) == 0);
	return 0;
}
