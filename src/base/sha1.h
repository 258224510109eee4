/* SHA-1 (FIPS 180-4), for formats that are made with it. It protects nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA1_LEN = 20, SHA1_BLOCK = 64 };

struct sha1 {
	uint32_t state[5];
	uint64_t length;
	uint8_t block[SHA1_BLOCK];
};

void sha1_init(struct sha1 *s);
void sha1_add(struct sha1 *s, const void *p, size_t n);
void sha1_end(struct sha1 *s, uint8_t out[SHA1_LEN]);
