/*
 * The processor's own instructions where there are any (above 1 GB/s), else
 * plain C (some 0.2). Which one is asked of the processor by the first
 * user: `cpuid` is a trap in a virtual machine, and the agent, which links
 * this, starts without one.
 */
#include "base/sha.h"

#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t k[64] __attribute__((aligned(16))) = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t ror(uint32_t v, int n)
{
	return v >> n | v << (32 - n);
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

static void schedule(uint32_t w[64], const uint8_t *p)
{
	int i;

	for (i = 0; i < 16; i++)
		w[i] = be32(p + (size_t)4 * (size_t)i);
	for (; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] +
		       (ror(a, 7) ^ ror(a, 18) ^ a >> 3) +
		       (ror(b, 17) ^ ror(b, 19) ^ b >> 10);
	}
}

/*
 * One round. The eight words do not move from round to round, their names do:
 * word `j` of round `i` is v[(j - i) & 7].
 */
#define V(j) v[((j) - i) & 7]
static inline void round_plain(uint32_t v[8], int i, uint32_t kw)
{
	uint32_t a = V(0), e = V(4), t;

	t = V(7) + kw + (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) +
	    ((e & V(5)) ^ (~e & V(6)));
	V(3) += t;
	V(7) = t + (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) +
	       ((a & V(1)) ^ (a & V(2)) ^ (V(1) & V(2)));
}
#undef V

static void blocks_plain(uint32_t state[8], const uint8_t *p, size_t n)
{
	for (; n > 0; n--, p += SHA256_BLOCK) {
		uint32_t w[64], v[8];
		int i;

		schedule(w, p);
		memcpy(v, state, sizeof(v));
#pragma GCC unroll 8
		for (i = 0; i < 64; i++)
			round_plain(v, i, k[i] + w[i]);
		for (i = 0; i < 8; i++)
			state[i] += v[i];
	}
}

#ifdef __x86_64__
#define SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))

/* Four rounds with the message words `m`, which have got no constants yet. */
SHA_TARGET static inline void rounds4(__m128i *abef, __m128i *cdgh, __m128i m,
				      int i)
{
	m = _mm_add_epi32(m, _mm_load_si128((const __m128i *)(k + i)));
	*cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, m);
	m = _mm_shuffle_epi32(m, 0x0e);
	*abef = _mm_sha256rnds2_epu32(*abef, *cdgh, m);
}

/* w[i..i+3] from the sixteen words in front of them, w[0] the oldest four. */
SHA_TARGET static inline __m128i next4(const __m128i w[4])
{
	__m128i t = _mm_sha256msg1_epu32(w[0], w[1]);

	t = _mm_add_epi32(t, _mm_alignr_epi8(w[3], w[2], 4));
	return _mm_sha256msg2_epu32(t, w[3]);
}

/*
 * The instructions want the eight words as (a b e f) and (c d g h), highest
 * first.
 */
SHA_TARGET static void blocks_sha(uint32_t state[8], const uint8_t *p, size_t n)
{
	const __m128i swap =
		_mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	__m128i t, abef, cdgh, was[2], w[4];
	int i;

	t = _mm_shuffle_epi32(_mm_loadu_si128((__m128i *)state), 0xb1);
	cdgh = _mm_shuffle_epi32(_mm_loadu_si128((__m128i *)(state + 4)), 0x1b);
	abef = _mm_alignr_epi8(t, cdgh, 8);
	cdgh = _mm_blend_epi16(cdgh, t, 0xf0);
	for (; n > 0; n--, p += SHA256_BLOCK) {
		was[0] = abef;
		was[1] = cdgh;
		for (i = 0; i < 4; i++) {
			t = _mm_loadu_si128((const __m128i *)p + i);
			w[i] = _mm_shuffle_epi8(t, swap);
			rounds4(&abef, &cdgh, w[i], 4 * i);
		}
#pragma GCC unroll 12
		for (i = 4; i < 16; i++) {
			t = next4(w);
			w[0] = w[1];
			w[1] = w[2];
			w[2] = w[3];
			w[3] = t;
			rounds4(&abef, &cdgh, t, 4 * i);
		}
		abef = _mm_add_epi32(abef, was[0]);
		cdgh = _mm_add_epi32(cdgh, was[1]);
	}
	t = _mm_shuffle_epi32(abef, 0x1b);
	cdgh = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(t, cdgh, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(cdgh, t, 8));
}

static bool has_sha(void)
{
	unsigned a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) ||
	    !(c & bit_SSSE3))
		return false;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA;
}
#endif

static void (*best_blocks(void))(uint32_t state[8], const uint8_t *p, size_t n)
{
#ifdef __x86_64__
	if (has_sha())
		return blocks_sha;
#endif
	return blocks_plain;
}

void sha256_init(struct sha256 *s)
{
	static const uint32_t start[8] = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	};

	*s = (struct sha256){ .blocks = best_blocks() };
	memcpy(s->state, start, sizeof(start));
}

void sha256_add(struct sha256 *s, const void *p, size_t n)
{
	const uint8_t *at = p;
	size_t part;

	if (n == 0)
		return;
	s->length += n;
	if (s->used > 0) {
		part = SHA256_BLOCK - s->used;
		if (part > n)
			part = n;
		memcpy(s->block + s->used, at, part);
		s->used += part;
		at += part;
		n -= part;
		if (s->used < SHA256_BLOCK)
			return;
		s->blocks(s->state, s->block, 1);
		s->used = 0;
	}
	s->blocks(s->state, at, n / SHA256_BLOCK);
	s->used = n % SHA256_BLOCK;
	memcpy(s->block, at + n - s->used, s->used);
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_LEN])
{
	static const uint8_t mark[SHA256_BLOCK] = { 0x80 };
	uint64_t bits = s->length * 8;
	uint8_t tail[8];
	int i;

	for (i = 0; i < 8; i++)
		tail[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, mark, 1 + (SHA256_BLOCK + 55 - s->used) % SHA256_BLOCK);
	sha256_add(s, tail, sizeof(tail));
	for (i = 0; i < SHA256_LEN; i++)
		out[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}
