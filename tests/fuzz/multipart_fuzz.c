/*
 * Bodies of forms: read in pieces of one size and of another, they say the
 * same, and what is held stays within its bounds. The first byte is the size
 * of the pieces.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The program's files are not in the library. */
#include "api/e2b/multipart.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_all(const char *p, size_t n, size_t step, struct buf *out)
{
	struct multipart m = { 0 };
	struct err e = { 0 };
	size_t at = 0, k;
	int r = 0;

	if (multipart_init(&m, "multipart/form-data; boundary=X", &e) < 0)
		abort();
	while (r >= 0 && r != MULTIPART_END) {
		r = multipart_next(&m, &e);
		assert(buf_len(&m.in) <= MULTIPART_HEAD_MAX + step + 16);
		if (r == MULTIPART_MORE) {
			k = n - at < step ? n - at : step;
			if (k == 0)
				break;
			multipart_feed(&m, p + at, k);
			at += k;
		} else if (r == MULTIPART_PART) {
			buf_printf(out, "[%s|%s]", buf_str(&m.name),
				   buf_str(&m.filename));
		} else if (r == MULTIPART_DATA) {
			assert(m.n > 0);
			buf_add(out, m.data, m.n);
			multipart_eat(&m, m.n);
		} else if (r == MULTIPART_PART_END) {
			buf_puts(out, ";");
		}
	}
	/* What could be the start of a boundary is held back when it ends. */
	if (r == MULTIPART_MORE)
		buf_clear(out);
	multipart_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct buf one = { 0 }, other = { 0 };

	if (n < 2)
		return 0;
	read_all((const char *)data + 1, n - 1, (size_t)data[0] + 1, &one);
	read_all((const char *)data + 1, n - 1, 4096, &other);
	if (buf_len(&one) != buf_len(&other) ||
	    memcmp(buf_data(&one), buf_data(&other), buf_len(&one)) != 0)
		abort();
	buf_done(&one);
	buf_done(&other);
	return 0;
}
