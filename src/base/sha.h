/* SHA-256 (FIPS 180-4), for programs that link no crypto library. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA256_LEN = 32, SHA256_BLOCK = 64 };

struct sha256 {
	uint32_t state[8];
	uint64_t length;
	size_t used; /* bytes in `block` */
	uint8_t block[SHA256_BLOCK];
	void (*blocks)(uint32_t state[8], const uint8_t *p, size_t n);
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_LEN]);
