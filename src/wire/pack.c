#include "wire/pack.h"

#include <errno.h>
#include <string.h>

enum { LENGTH = 4 }; /* of a record, in front of it */

static void pack_le(struct buf *b, uint64_t v, size_t n)
{
	uint8_t raw[8] = { 0 };
	size_t i;

	for (i = 0; i < n; i++)
		raw[i] = (uint8_t)(v >> (8 * i));
	buf_add(b, raw, n);
}

void pack_u8(struct buf *b, uint8_t v)
{
	pack_le(b, v, 1);
}

void pack_u16(struct buf *b, uint16_t v)
{
	pack_le(b, v, 2);
}

void pack_u32(struct buf *b, uint32_t v)
{
	pack_le(b, v, 4);
}

void pack_u64(struct buf *b, uint64_t v)
{
	pack_le(b, v, 8);
}

void pack_str(struct buf *b, const char *s)
{
	size_t n = strlen(s);

	pack_u32(b, (uint32_t)n);
	buf_add(b, s, n + 1);
}

static const uint8_t *take(struct unpack *u, size_t n)
{
	const uint8_t *p = u->p;

	if (u->bad || u->left < n) {
		u->bad = true;
		return NULL;
	}
	u->p += n;
	u->left -= n;
	return p;
}

static uint64_t unpack_le(struct unpack *u, size_t n)
{
	const uint8_t *p = take(u, n);
	uint64_t v = 0;

	while (p && n > 0)
		v = v << 8 | p[--n];
	return v;
}

uint8_t unpack_u8(struct unpack *u)
{
	return (uint8_t)unpack_le(u, 1);
}

uint16_t unpack_u16(struct unpack *u)
{
	return (uint16_t)unpack_le(u, 2);
}

uint32_t unpack_u32(struct unpack *u)
{
	return (uint32_t)unpack_le(u, 4);
}

uint64_t unpack_u64(struct unpack *u)
{
	return unpack_le(u, 8);
}

const char *unpack_str(struct unpack *u)
{
	uint32_t n = unpack_u32(u);
	const uint8_t *p = take(u, (size_t)n + 1);

	if (!p)
		return "";
	if (memchr(p, '\0', (size_t)n + 1) != p + n) {
		u->bad = true;
		return "";
	}
	return (const char *)p;
}

const void *unpack_rest(struct unpack *u, size_t *n)
{
	*n = u->bad ? 0 : u->left;
	return take(u, *n);
}

size_t record_begin(struct buf *b, uint8_t kind)
{
	size_t at = buf_len(b);

	pack_u32(b, 0);
	pack_u8(b, kind);
	return at;
}

size_t record_end(struct buf *b, size_t at)
{
	size_t n = buf_len(b) - at - LENGTH, i;

	for (i = 0; i < LENGTH; i++)
		buf_data(b)[at + i] = (char)(n >> (8 * i));
	return n;
}

int record_next(const struct buf *b, size_t max, struct unpack *u,
		uint8_t *kind)
{
	uint32_t n;

	*u = unpack_init(buf_data(b), buf_len(b));
	if (u->left < LENGTH)
		return 0;
	n = unpack_u32(u);
	if (n == 0 || n > max)
		return -EBADMSG;
	if (u->left < n)
		return 0;
	u->left = n;
	*kind = unpack_u8(u);
	return LENGTH + (int)n;
}
