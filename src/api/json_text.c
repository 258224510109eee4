#include "api/json_text.h"

#include <stdint.h>

#include "base/auto.h"
#include "http/target.h"

/* What needs an escape; stretches between them are copied at once. */
static size_t plain(const unsigned char *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\')
		i++;
	return i;
}

static void add_escape(struct buf *b, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	char text[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
	size_t n = 2;

	if (c == '"' || c == '\\')
		text[1] = (char)c;
	else if (c == '\n')
		text[1] = 'n';
	else if (c == '\r')
		text[1] = 'r';
	else if (c == '\t')
		text[1] = 't';
	else
		n = sizeof(text);
	buf_add(b, text, n);
}

void json_text_add(struct buf *b, const char *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text;

	while (n > 0) {
		size_t run = plain(p, n);

		buf_add(b, p, run);
		if (run < n)
			add_escape(b, p[run++]);
		p += run;
		n -= run;
	}
}

/* By its first byte; 0: no character starts with it. */
static size_t char_len(unsigned char c)
{
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef)
		return 3;
	return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

static bool continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

size_t utf8_whole(const char *p, size_t n)
{
	size_t back;

	for (back = 1; back <= 3 && back <= n; back++) {
		if (continues(p[n - back]))
			continue;
		if (char_len((unsigned char)p[n - back]) > back)
			return n - back;
		break;
	}
	return n;
}

size_t utf8_rest(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && i < 3 && continues(p[i]))
		i++;
	return i;
}

static int add_piece(const char *p, size_t n, void *buf)
{
	buf_add(buf, p, n);
	return 0;
}

void json_add(struct buf *b, const json_t *j)
{
	json_dump_callback(j, add_piece, b, JSON_COMPACT);
}

json_t *json_lossy(const char *p, size_t n)
{
	AUTO(buf_done) struct buf b = { 0 };
	size_t i = 0;

	if (http_is_utf8(p, n))
		return json_stringn_nocheck(p, n);
	while (i < n) {
		size_t len = char_len((unsigned char)p[i]);

		if (len > 0 && len <= n - i && http_is_utf8(p + i, len)) {
			buf_add(&b, p + i, len);
			i += len;
		} else {
			buf_puts(&b, "\xef\xbf\xbd");
			i++;
		}
	}
	return json_stringn_nocheck(buf_data(&b), buf_len(&b));
}
