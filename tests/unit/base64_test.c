#include "base/base64.h"

#include <errno.h>
#include <string.h>

#include "check.h"

static void round_trip(const char *bytes, size_t n, const char *text)
{
	struct buf b = { 0 }, back = { 0 };

	base64_add(&b, bytes, n);
	CHECK(buf_len(&b) == strlen(text));
	CHECK(memcmp(buf_data(&b), text, strlen(text)) == 0);
	CHECK(base64_get(&back, text, strlen(text)) == 0);
	CHECK(buf_len(&back) == n && memcmp(buf_data(&back), bytes, n) == 0);
	buf_done(&b);
	buf_done(&back);
}

int main(void)
{
	static const char *const bad[] = { "A",     "AA",   "AAA",  "A===",
					   "AA=A",  "AB==", "AAB=", "AAAA=AAA",
					   "AA\nA", "AA-_", "====" };
	struct buf b = { 0 };
	char all[256];
	size_t i;

	round_trip("", 0, "");
	round_trip("f", 1, "Zg==");
	round_trip("fo", 2, "Zm8=");
	round_trip("foo", 3, "Zm9v");
	round_trip("foobar", 6, "Zm9vYmFy");
	round_trip("\xff\xfe\x00\x3f", 4, "//4APw==");
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(base64_get(&b, bad[i], strlen(bad[i])) == -EINVAL);
	CHECK(base64_get(&b, "A\0A=", 4) == -EINVAL);
	for (i = 0; i < sizeof(all); i++)
		all[i] = (char)i;
	for (i = 0; i <= sizeof(all); i++) {
		struct buf back = { 0 };

		buf_clear(&b);
		base64_add(&b, all, i);
		if (base64_get(&back, buf_data(&b), buf_len(&b)) < 0 ||
		    buf_len(&back) != i || memcmp(buf_data(&back), all, i) != 0)
			CHECK(!"every length comes back");
		buf_done(&back);
	}
	buf_done(&b);
	return CHECK_DONE();
}
