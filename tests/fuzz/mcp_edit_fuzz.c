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
	if (*from) {
		try_edit(p + 2 + n, size - 2 - n, from, false);
		try_edit(p + 2 + n, size - 2 - n, from, true);
	}
	j = content_one(p + 2, size - 2);
	assert(j);
	json_decref(j);
	return 0;
}
