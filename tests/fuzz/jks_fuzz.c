/*
 * Java's store with foreign bytes, sealed as it should be. Besides memory
 * errors these are failures: a store that was written and is not read again,
 * or that changes when the same is put into it twice.
 */
#include "../../src/agent/file/jks.c"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf store = { 0 }, out = { 0 }, again = { 0 };
	uint8_t sum[SHA1_LEN];
	int r;

	buf_add(&store, data, size);
	seal(data, size, sum);
	buf_add(&store, sum, sizeof(sum));
	r = jks_put(buf_data(&store), buf_len(&store), "carrel", "der", 3,
		    &out);
	assert(r == 1 || (buf_len(&out) == 0 && (r == 0 || r == -EBADMSG)));
	if (r == 1) {
		r = jks_put(buf_data(&out), buf_len(&out), "carrel", "der", 3,
			    &again);
		assert(r == 0 || buf_len(&out) > JKS_MAX);
		buf_clear(&again);
		r = jks_put(buf_data(&out), buf_len(&out), "carrel", "other", 5,
			    &again);
		assert(r == 1 || buf_len(&out) > JKS_MAX);
	}
	buf_done(&store);
	buf_done(&out);
	buf_done(&again);
	return 0;
}
