#include "base/base64.h"

#include <errno.h>
#include <string.h>

static const char letters[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_add(struct buf *b, const void *p, size_t n)
{
	const unsigned char *in = p;
	char *out = buf_room(b, (n + 2) / 3 * 4);
	size_t i;

	for (i = 0; i < n; i += 3) {
		unsigned v = (unsigned)in[i] << 16;

		v |= i + 1 < n ? (unsigned)in[i + 1] << 8 : 0;
		v |= i + 2 < n ? in[i + 2] : 0;
		*out++ = letters[v >> 18];
		*out++ = letters[v >> 12 & 63];
		*out++ = i + 1 < n ? letters[v >> 6 & 63] : '=';
		*out++ = i + 2 < n ? letters[v & 63] : '=';
	}
	buf_fill(b, (n + 2) / 3 * 4);
}

static int value_of(char c)
{
	const char *at = c ? strchr(letters, c) : NULL;

	return at ? (int)(at - letters) : -1;
}

/* One group of four letters, of which `n` are not padding. */
static int take_group(struct buf *b, const char *s, size_t n)
{
	unsigned char bytes[3];
	unsigned v = 0;
	size_t i;

	for (i = 0; i < 4; i++) {
		int d = i < n ? value_of(s[i]) : 0;

		if (d < 0)
			return -EINVAL;
		v = v << 6 | (unsigned)d;
	}
	bytes[0] = (unsigned char)(v >> 16);
	bytes[1] = (unsigned char)(v >> 8);
	bytes[2] = (unsigned char)v;
	/* Bits behind the end that are set would be a second way to say it. */
	for (i = n - 1; i < 3; i++)
		if (bytes[i])
			return -EINVAL;
	buf_add(b, bytes, n - 1);
	return 0;
}

int base64_get(struct buf *b, const char *s, size_t n)
{
	size_t i, pad;

	if (n % 4)
		return -EINVAL;
	for (i = 0; i < n; i += 4) {
		pad = 0;
		if (i + 4 == n && s[n - 1] == '=')
			pad = s[n - 2] == '=' ? 2 : 1;
		if (take_group(b, s + i, 4 - pad) < 0)
			return -EINVAL;
	}
	return 0;
}
