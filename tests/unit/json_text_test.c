#include "api/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "http/target.h"

static void check_base64(const char *in, const char *want)
{
	struct buf b = { 0 };

	base64_add(&b, in, strlen(in));
	CHECK_STR(buf_str(&b), want);
	buf_done(&b);
}

static void check_text(const char *in, size_t n)
{
	struct buf b = { 0 };
	json_t *j;

	buf_puts(&b, "[\"");
	json_text_add(&b, in, n);
	buf_puts(&b, "\"]");
	j = json_loadb(buf_data(&b), buf_len(&b), JSON_ALLOW_NUL, NULL);
	CHECK(json_string_length(json_array_get(j, 0)) == n);
	CHECK(memcmp(json_string_value(json_array_get(j, 0)), in, n) == 0);
	json_decref(j);
	buf_done(&b);
}

static void check_lossy(const char *in, const char *want)
{
	json_t *j = json_lossy(in, strlen(in));

	CHECK_STR(json_string_value(j), want);
	json_decref(j);
}

/* Every way to cut a text into two, and in pieces of one byte. */
static void check_cuts(const char *s)
{
	size_t n = strlen(s), i, held = 0;

	for (i = 0; i <= n; i++) {
		size_t whole = utf8_whole(s, i);

		CHECK(http_is_utf8(s, whole) && i - whole <= 3);
		CHECK(http_is_utf8(s + i + utf8_rest(s + i, n - i),
				   n - i - utf8_rest(s + i, n - i)));
	}
	for (i = 1; i <= n; i++)
		held += utf8_whole(s + held, i - held);
	CHECK(held == n);
}

int main(void)
{
	char all[256];
	int i;

	check_base64("", "");
	check_base64("f", "Zg==");
	check_base64("fo", "Zm8=");
	check_base64("foo", "Zm9v");
	check_base64("foob", "Zm9vYg==");
	check_base64("\xff\xfe\xfd\xfc", "//79/A==");

	for (i = 0; i < 128; i++)
		all[i] = (char)i;
	check_text(all, 128);
	check_text("", 0);
	check_text("\xc3\xa4 \"quoted\" \\ \xf0\x9f\x99\x82\n", 19);

	check_cuts("plain");
	check_cuts("\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82z\xc3\xa4");
	/* Not text anyway: nothing is held back for ever. */
	CHECK(utf8_whole("\xff", 1) == 1);
	CHECK(utf8_whole("a\x80", 2) == 2);
	CHECK(utf8_whole("\x80\x80\x80\x80\x80", 5) == 5);
	CHECK(utf8_whole("\xc3\xa4\xa4", 3) == 3);
	CHECK(utf8_whole("a\xc0", 2) == 2);
	CHECK(utf8_rest("\x80\x80\x80\x80", 4) == 3);

	check_lossy("fine", "fine");
	check_lossy("a\xff"
		    "b",
		    "a\xef\xbf\xbd"
		    "b");
	check_lossy("\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd");
	check_lossy("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	return CHECK_DONE();
}
