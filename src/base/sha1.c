#include "base/sha1.h"

#include <string.h>

static uint32_t rotate(uint32_t v, int n)
{
	return v << n | v >> (32 - n);
}

static uint32_t word(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

static void put_word(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

/* What step `t` mixes, with its constant. */
static uint32_t mix(int t, uint32_t b, uint32_t c, uint32_t d)
{
	if (t < 20)
		return ((b & c) | (~b & d)) + 0x5a827999;
	if (t < 40)
		return (b ^ c ^ d) + 0x6ed9eba1;
	if (t < 60)
		return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
	return (b ^ c ^ d) + 0xca62c1d6;
}

static void add_block(uint32_t state[5], const uint8_t *p)
{
	uint32_t w[80], v[5], next;
	int t;

	for (t = 0; t < 16; t++)
		w[t] = word(p + 4 * t);
	for (; t < 80; t++)
		w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
	memcpy(v, state, sizeof(v));
	for (t = 0; t < 80; t++) {
		next = rotate(v[0], 5) + mix(t, v[1], v[2], v[3]) + v[4] + w[t];
		v[4] = v[3];
		v[3] = v[2];
		v[2] = rotate(v[1], 30);
		v[1] = v[0];
		v[0] = next;
	}
	for (t = 0; t < 5; t++)
		state[t] += v[t];
}

void sha1_init(struct sha1 *s)
{
	static const uint32_t start[5] = { 0x67452301, 0xefcdab89, 0x98badcfe,
					   0x10325476, 0xc3d2e1f0 };

	*s = (struct sha1){ .length = 0 };
	memcpy(s->state, start, sizeof(start));
}

void sha1_add(struct sha1 *s, const void *p, size_t n)
{
	const uint8_t *from = p;

	while (n > 0) {
		size_t used = s->length % SHA1_BLOCK;
		size_t take = SHA1_BLOCK - used < n ? SHA1_BLOCK - used : n;

		memcpy(s->block + used, from, take);
		s->length += take;
		from += take;
		n -= take;
		if (used + take == SHA1_BLOCK)
			add_block(s->state, s->block);
	}
}

void sha1_end(struct sha1 *s, uint8_t out[SHA1_LEN])
{
	static const uint8_t pad[SHA1_BLOCK] = { 0x80 };
	const uint64_t bits = s->length * 8;
	const size_t used = s->length % SHA1_BLOCK;
	uint8_t end[8];
	int i;

	put_word(end, (uint32_t)(bits >> 32));
	put_word(end + 4, (uint32_t)bits);
	sha1_add(s, pad, (used < 56 ? 56 : 120) - used);
	sha1_add(s, end, sizeof(end));
	for (i = 0; i < 5; i++)
		put_word(out + 4 * i, s->state[i]);
}
