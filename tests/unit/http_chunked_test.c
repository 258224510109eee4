/* The chunked decoder: each row whole, and byte by byte. */
#include "http/chunked.h"

#include <errno.h>

#include "base/auto.h"
#include "check.h"

enum { MORE = 1, BAD = 2, END = 3 };

static const struct {
	const char *in;
	int result;
	const char *content;
	size_t rest; /* bytes behind the end */
} rows[] = {
	{ "0\r\n\r\n", END, "", 0 },
	{ "5\r\nhello\r\n0\r\n\r\n", END, "hello", 0 },
	{ "5\r\nhello\r\n0\r\n\r\nGET", END, "hello", 3 },
	{ "1\r\na\r\n2\r\nbc\r\n00\r\n\r\n", END, "abc", 0 },
	{ "a\r\n0123456789\r\nA\r\nabcdefghij\r\n0\r\n\r\n", END,
	  "0123456789abcdefghij", 0 },
	{ "000000000000005\r\nhello\r\n0\r\n\r\n", END, "hello", 0 },
	{ "4\r\n\r\n\r\n\r\n0\r\n\r\n", END, "\r\n\r\n", 0 },
	{ "", MORE, "", 0 },
	{ "5\r\nhel", MORE, "hel", 0 },
	{ "5\r\nhello\r\n0\r\n\r", MORE, "hello", 0 },
	{ "fffffffffffffff\r\nx", MORE, "x", 0 },
	{ "\r\n", BAD, "", 0 },
	{ "5\nhello\r\n", BAD, "", 0 },
	{ "5\r\r\nhello", BAD, "", 0 },
	{ "5 \r\nhello", BAD, "", 0 },
	{ " 5\r\nhello", BAD, "", 0 },
	{ "+5\r\nhello", BAD, "", 0 },
	{ "-5\r\nhello", BAD, "", 0 },
	{ "0x5\r\nhello", BAD, "", 0 },
	{ "g\r\n", BAD, "", 0 },
	{ "5;ext=1\r\nhello", BAD, "", 0 },
	{ "5\r\nhello0\r\n\r\n", BAD, "hello", 0 },
	{ "5\r\nhello0\n0\r\n\r\n", BAD, "hello", 0 },
	{ "5\r\nhello\n0\r\n\r\n", BAD, "hello", 0 },
	{ "5\r\nhello\r0\r\n\r\n", BAD, "hello", 0 },
	{ "0\r\nTrailer: x\r\n\r\n", BAD, "", 0 },
	{ "0\r\n\n", BAD, "", 0 },
	{ "0000000000000005\r\nhello", BAD, "", 0 },
	{ "ffffffffffffffff\r\nx", BAD, "", 0 },
	{ "10000000000000005\r\nhello", BAD, "", 0 },
};

static int run(const char *in, size_t piece, struct buf *content, size_t *rest)
{
	struct http_chunked d = { 0 };
	size_t at = 0, n = strlen(in);

	*rest = 0;
	while (at < n) {
		size_t give = n - at < piece ? n - at : piece;
		size_t used = 0, data_n = 0;
		int r = http_chunked_next(&d, in + at, give, &used, &data_n);

		if (r == -EBADMSG) {
			/* Stays refused. */
			r = http_chunked_next(&d, "0\r\n\r\n", 5, &used,
					      &data_n);
			return r == -EBADMSG && used == 0 ? BAD : -1;
		}
		if (used > give || data_n > used)
			return -1;
		if (r == HTTP_CHUNK_MORE && (used != give || data_n > 0))
			return -1;
		buf_add(content, in + at + used - data_n, data_n);
		at += used;
		if (r == HTTP_CHUNK_END) {
			*rest = n - at;
			return END;
		}
	}
	return MORE;
}

int main(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	size_t i, piece, rest;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		printf("# row %zu\n", i);
		for (piece = 1; piece < 64; piece = piece * 2 + 1) {
			buf_clear(&b);
			CHECK(run(rows[i].in, piece, &b, &rest) ==
			      rows[i].result);
			CHECK(rest == rows[i].rest);
			CHECK_STR(buf_str(&b), rows[i].content);
		}
	}
	buf_clear(&b);
	http_chunk_add(&b, "hello", 5);
	http_chunk_add(&b, "", 0);
	http_chunk_add(&b, "0123456789abcdefXY", 18);
	buf_puts(&b, HTTP_LAST_CHUNK);
	CHECK_STR(buf_str(&b),
		  "5\r\nhello\r\n12\r\n0123456789abcdefXY\r\n0\r\n\r\n");
	return CHECK_DONE();
}
