/* SHA-256: the standard's examples, every length around a block, both ways of
 * doing it against each other and against the library. */
#include "base/sha.c"

#include <openssl/sha.h>
#include <stdio.h>

#include "check.h"

static void hex(const uint8_t *p, char out[65])
{
	int i;

	for (i = 0; i < SHA256_LEN; i++)
		snprintf(out + (size_t)2 * (size_t)i, 3, "%02x", p[i]);
}

static void digest(const void *p, size_t n, char out[65])
{
	uint8_t sum[SHA256_LEN];
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, p, n);
	sha256_end(&s, sum);
	hex(sum, out);
}

static void test_known(void)
{
	static const char two[] =
		"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	char got[65];

	digest("", 0, got);
	CHECK_STR(got, "e3b0c44298fc1c149afbf4c8996fb924"
		       "27ae41e4649b934ca495991b7852b855");
	digest("abc", 3, got);
	CHECK_STR(got, "ba7816bf8f01cfea414140de5dae2223"
		       "b00361a396177a9cb410ff61f20015ad");
	digest(two, sizeof(two) - 1, got);
	CHECK_STR(got, "248d6a61d20638b8e5c026930c3e6039"
		       "a33ce45964ff2167f6ecedd419db06c1");
}

/* In pieces of every size, with the instructions and without. */
static void test_pieces(void)
{
	uint8_t data[1000], want[SHA256_LEN], sum[SHA256_LEN];
	size_t n, i, piece;
	int bad = 0;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	for (n = 0; n < sizeof(data); n += n < 200 ? 1 : 37) {
		SHA256(data, n, want);
		for (piece = 1; piece < 140; piece += 3) {
			struct sha256 s;

			sha256_init(&s);
			if (piece % 2)
				s.blocks = blocks_plain;
			for (i = 0; i < n; i += piece)
				sha256_add(&s, data + i,
					   n - i < piece ? n - i : piece);
			sha256_end(&s, sum);
			bad += memcmp(sum, want, sizeof(sum)) != 0;
		}
	}
	CHECK(bad == 0);
}

int main(void)
{
	test_known();
	test_pieces();
	return CHECK_DONE();
}
