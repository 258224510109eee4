/* Compressed bodies: in any pieces, several in one, broken ones. */
#include "api/e2b/gunzip.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "check.h"

static struct err why;

static void pack(struct buf *b, const char *text, size_t n)
{
	z_stream z = { 0 };

	if (deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return;
	z.next_in = (Bytef *)text;
	z.avail_in = (uInt)n;
	z.next_out = (Bytef *)buf_room(b, n + 1000);
	z.avail_out = (uInt)(n + 1000);
	CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
	buf_fill(b, n + 1000 - z.avail_out);
	deflateEnd(&z);
}

/* All of it in pieces; 1: whole, 0: cut, or -errno. */
static int unpack(const struct buf *in, size_t step, struct buf *out)
{
	struct gunzip *g = gunzip_new();
	size_t at = 0, used, n, had;
	int r = 0;

	err_clear(&why);
	for (;;) {
		n = buf_len(in) - at < step ? buf_len(in) - at : step;
		had = buf_len(out);
		r = gunzip_next(g, buf_data(in) + at, n, &used, out, &why);
		at += used;
		if (buf_len(out) - had > GUNZIP_PIECE)
			r = -ERANGE;
		if (r < 0 || (used == 0 && buf_len(out) == had))
			break;
	}
	if (r == 0)
		r = gunzip_is_whole(g);
	gunzip_free(g);
	return r;
}

static bool same(const struct buf *a, const struct buf *b)
{
	return buf_len(a) == buf_len(b) &&
	       memcmp(buf_data(a), buf_data(b), buf_len(a)) == 0;
}

int main(void)
{
	static const size_t steps[] = { 1, 7, 1000, 1 << 20 };
	static char zeros[3 << 20];
	struct buf in = { 0 }, out = { 0 }, want = { 0 };
	size_t i;

	pack(&in, "hello", 5);
	pack(&in, zeros, sizeof(zeros));
	buf_puts(&want, "hello");
	buf_add(&want, zeros, sizeof(zeros));
	for (i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		buf_clear(&out);
		CHECK(unpack(&in, steps[i], &out) == 1);
		CHECK(same(&out, &want));
	}
	in.len -= 4;
	buf_clear(&out);
	CHECK(unpack(&in, 100, &out) == 0);
	buf_clear(&in);
	CHECK(unpack(&in, 1, &out) == 0);
	buf_puts(&in, "no gzip at all");
	CHECK(unpack(&in, 3, &out) == -EBADMSG);
	buf_clear(&in);
	pack(&in, "x", 1);
	buf_puts(&in, "junk");
	CHECK(unpack(&in, 1, &out) == -EBADMSG);
	buf_done(&in);
	buf_done(&out);
	buf_done(&want);
	return CHECK_DONE();
}
