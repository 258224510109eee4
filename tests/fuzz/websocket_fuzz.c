/*
 * The WebSocket decoder with foreign bytes. Besides memory errors these are
 * failures: another result when the bytes come in pieces, and a message that
 * breaks what the header promises.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "http/target.h"
#include "http/wsframe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGE_MAX = 512 };

static void check_message(int op, const char *p, size_t n)
{
	assert(op == WS_TEXT || op == WS_BINARY || op == WS_CLOSE ||
	       op == WS_PING || op == WS_PONG);
	assert(n <= (op >= WS_CLOSE ? WS_CONTROL_MAX : MESSAGE_MAX));
	assert(p[n] == '\0');
	assert(op != WS_TEXT || http_is_utf8(p, n));
	assert(op != WS_CLOSE || n != 1);
}

/* Everything that was decoded, and how it ended. */
static int decode(const char *p, size_t n, size_t piece, struct buf *out)
{
	struct ws_decoder d = { .max = MESSAGE_MAX };
	size_t at = 0;
	int r = 0;

	while (at < n && r >= 0) {
		size_t give = n - at < piece ? n - at : piece;
		size_t used, data_n = 0;
		char *data = NULL;

		r = ws_decode(&d, p + at, give, &used, &data, &data_n);
		assert(used <= give && (used > 0 || r != 0));
		assert(r != 0 || used == give);
		at += used;
		if (r <= 0)
			continue;
		check_message(r, data, data_n);
		buf_printf(out, "%d:%zu:", r, data_n);
		buf_add(out, data, data_n);
	}
	ws_decoder_done(&d);
	return r < 0 ? r : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t pieces[] = { 1, 3, 17 };
	struct buf whole = { 0 }, part = { 0 };
	const char *p = (const char *)data;
	int want = decode(p, size, size, &whole);
	size_t i;

	for (i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		int r = decode(p, size, pieces[i], &part);

		assert(r == want && buf_len(&part) == buf_len(&whole));
		assert(memcmp(buf_data(&part), buf_data(&whole),
			      buf_len(&whole)) == 0);
		buf_clear(&part);
	}
	buf_done(&whole);
	buf_done(&part);
	return 0;
}
