/*
 * What tools do with bytes that may be anything (api/mcp/edit.c, content.c):
 * a replacement puts `to` in the place of `from` and changes nothing else; the
 * ends that are kept of a stream are its ends. The first two bytes say how
 * much of the rest is `from`, and how much is kept.
 */
#include "../../src/api/clip.c"
#include "../../src/api/json_text.c"
#include "../../src/api/mcp/content.c"
#include "../../src/api/mcp/edit.c"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char to[] = "<to>";

static void try_edit(const char *text, size_t n, const char *from, bool all)
{
	struct buf out = { 0 }, why = { 0 };
	const struct edit x = { text, n, from, to, all, 300 };
	size_t count = edit_text(&x, &out, &why), len = strlen(from);

	if (buf_len(&why) > 0) {
		assert(buf_len(&out) == 0);
	} else {
		assert(count == 1 || (count > 1 && all));
		assert(buf_len(&out) == n - count * len + count * strlen(to));
	}
	buf_done(&out);
	buf_done(&why);
}

static void try_clip(const char *p, size_t n, size_t half)
{
	struct clip c = { .half = half };
	const struct buf *out = &c.head;
	char line[16];
	size_t at;

	for (at = 0; at < n; at += 7)
		clip_add(&c, p + at, n - at < 7 ? n - at : 7);
	clip_last_line(&c, line, sizeof(line));
	assert(c.total == n);
	clip_close(&c);
	if (n <= 2 * half)
		assert(buf_len(out) == n && memcmp(buf_data(out), p, n) == 0);
	else
		assert(buf_len(out) <= 2 * half + 64);
	clip_done(&c);
}

/* Between quotes it is the text again, if it is one. */
static void try_text(const char *p, size_t n)
{
	struct buf b = { 0 };
	json_t *j;

	if (str_is_utf8(p, n)) {
		buf_puts(&b, "\"");
		json_text_add(&b, p, n);
		buf_puts(&b, "\"");
		j = json_loadb(buf_data(&b), buf_len(&b),
			       JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		assert(json_string_length(j) == n);
		assert(memcmp(json_string_value(j), p, n) == 0);
		json_decref(j);
	}
	assert(utf8_whole(p, n) <= n && utf8_rest(p, n) <= n);
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;
	char from[256] = "";
	size_t n;
	json_t *j;

	if (size < 2)
		return 0;
	n = data[0] < size - 2 ? data[0] : size - 2;
	memcpy(from, p + 2, n);
	(void)image_type(p + 2, size - 2);
	(void)is_binary(p + 2, size - 2);
	try_clip(p + 2, size - 2, data[1]);
	try_text(p + 2, size - 2);
	if (*from) {
		try_edit(p + 2 + n, size - 2 - n, from, false);
		try_edit(p + 2 + n, size - 2 - n, from, true);
	}
	j = content_one(p + 2, size - 2);
	assert(j);
	json_decref(j);
	return 0;
}
