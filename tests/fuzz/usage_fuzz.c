/*
 * What a model's request and answer say, from any bytes in any pieces. The
 * first byte says where they are cut: what is found does not depend on it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/gate/model.c"
#include "../../src/gate/usage.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void feed(void (*fn)(struct model_use *, const void *, size_t),
		 struct model_use *m, const uint8_t *p, size_t n, size_t step)
{
	size_t at;

	for (at = 0; at < n; at += step)
		fn(m, p + at, n - at < step ? n - at : step);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_use whole = { 0 }, cut = { 0 };
	struct model_tokens a, b;
	size_t step;

	if (size == 0)
		return 0;
	step = (size_t)data[0] + 1;
	whole.shape = cut.shape = data[0] & 1 ? MODEL_OPENAI : MODEL_ANTHROPIC;
	data++;
	size--;
	feed(model_request, &whole, data, size, size + 1);
	feed(model_request, &cut, data, size, step);
	feed(model_answer, &whole, data, size, size + 1);
	feed(model_answer, &cut, data, size, step);
	require(memcmp(&whole, &cut, sizeof(whole)) == 0);
	a = model_most(&whole);
	b = model_used(&whole, 200);
	require(a.in <= 1 << 30 && a.out <= 1 << 30);
	require(b.in <= 1 << 30 && b.out <= 1 << 30);
	require(memchr(whole.request.found.model, '\0', USAGE_WORD) != NULL);
	return 0;
}
