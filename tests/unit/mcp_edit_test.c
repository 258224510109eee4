/* Replacements, and what is said when there is none. */
#include <string.h>

#include "api/clip.h"
#include "api/mcp/content.h"
#include "api/mcp/edit.h"
#include "check.h"

static struct buf out, why;

static size_t edit(const char *text, const char *from, const char *to, bool all)
{
	const struct edit x = { text, strlen(text), from, to, all, 20 };

	buf_clear(&out);
	buf_clear(&why);
	return edit_text(&x, &out, &why);
}

static void test_edit(void)
{
	CHECK(edit("one two three", "two", "2", false) == 1);
	CHECK_STR(buf_str(&out), "one 2 three");
	CHECK(edit("aaa", "a", "", true) == 3);
	CHECK_STR(buf_str(&out), "");
	CHECK(edit("aaaa", "aa", "b", true) == 2);
	CHECK_STR(buf_str(&out), "bb");
	CHECK(edit("x", "x", "a long one", false) == 1);
	CHECK_STR(buf_str(&out), "a long one");
}

static void test_why(void)
{
	CHECK(edit("a\nb\na\n", "a", "c", false) == 2);
	CHECK(buf_len(&out) == 0);
	CHECK(strstr(buf_str(&why), "2 times, at lines 1, 3"));
	CHECK(edit("int main(void)\n\treturn 0;\n", "    return 0;", "x",
		   false) == 0);
	CHECK(strstr(buf_str(&why), "line 2: return 0;"));
	CHECK(edit("alpha\nthe quick brown fox\n", "the quick green fox", "x",
		   false) == 0);
	CHECK(strstr(buf_str(&why), "line 2: the quick brown fox"));
	CHECK(edit("alpha\n", "zzz zzz", "x", false) == 0);
	CHECK(!strstr(buf_str(&why), "line"));
	CHECK(edit("aaaaaaaaaa", "a", "bbb", true) == 10);
	CHECK(buf_len(&out) == 0);
	CHECK(strstr(buf_str(&why), "more than 20 bytes"));
	CHECK(edit("aaaaaaaaaa", "a", "bb", true) == 10);
	CHECK(buf_len(&out) == 20);
	CHECK(edit("", "x", "y", false) == 0);
	CHECK(edit("abc\n", "\n\n", "y", false) == 0);
}

static void test_kinds(void)
{
	static const char webp[] = "RIFF\1\2\3\4WEBPVP8 ";

	CHECK_STR(image_type("\x89PNG\r\n\x1a\nxxxx", 12), "image/png");
	CHECK_STR(image_type("\xff\xd8\xff\xe0", 4), "image/jpeg");
	CHECK_STR(image_type("GIF89a", 6), "image/gif");
	CHECK_STR(image_type(webp, 12), "image/webp");
	CHECK(!image_type(webp, 11));
	CHECK(!image_type("RIFF\1\2\3\4WAVE", 12));
	CHECK(!image_type("", 0));
	CHECK(!image_type("\x89PNG", 4));
	CHECK(is_binary("a\0b", 3));
	CHECK(is_binary("\xff\xfe", 2));
	CHECK(!is_binary("caf\xc3", 4)); /* cut */
	CHECK(!is_binary("caf\xc3\xa9", 5));
}

static void clip_all(struct clip *c, const char *s)
{
	for (; *s; s++)
		clip_add(c, s, 1);
	buf_clear(&out);
	clip_close(c);
	buf_add(&out, buf_data(&c->head), buf_len(&c->head));
}

static void test_clip(void)
{
	struct clip c = { .half = 4 };
	char line[8];

	clip_all(&c, "12345678");
	CHECK_STR(buf_str(&out), "12345678");
	clip_done(&c);
	c = (struct clip){ .half = 4 };
	clip_all(&c, "1234abcdefgh5678");
	CHECK_STR(buf_str(&out), "1234\n... 8 bytes left out ...\n5678");
	clip_done(&c);
	/* Characters are not cut. */
	c = (struct clip){ .half = 4 };
	clip_all(&c, "abc\xc3\xa9xxxxxxx\xc3\xa9"
		     "123");
	CHECK_STR(buf_str(&out), "abc\n... 11 bytes left out ...\n123");
	clip_done(&c);
	c = (struct clip){ .half = 100 };
	clip_last_line(&c, line, sizeof(line));
	CHECK_STR(line, "");
	clip_add(&c, "one\nlast line\n\n", 15);
	clip_last_line(&c, line, sizeof(line));
	CHECK_STR(line, "last li");
	clip_done(&c);
}

int main(void)
{
	test_edit();
	test_why();
	test_kinds();
	test_clip();
	buf_done(&out);
	buf_done(&why);
	return CHECK_DONE();
}
