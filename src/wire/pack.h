/*
 * Little-endian packing of message payloads. A `struct unpack` reads bytes of
 * an attacker: every getter checks what is left, the first failure makes all
 * later ones return zero values, and unpack_ok() tells at the end whether the
 * payload was exactly used up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

void pack_u8(struct buf *b, uint8_t v);
void pack_u16(struct buf *b, uint16_t v);
void pack_u32(struct buf *b, uint32_t v);
void pack_u64(struct buf *b, uint64_t v);
/* u32 length, bytes, NUL (so that a reader can point into the payload). */
void pack_str(struct buf *b, const char *s);

struct unpack {
	const uint8_t *p;
	size_t left;
	bool bad;
};

static inline struct unpack unpack_init(const void *p, size_t n)
{
	return (struct unpack){ .p = p, .left = n };
}
uint8_t unpack_u8(struct unpack *u);
uint16_t unpack_u16(struct unpack *u);
uint32_t unpack_u32(struct unpack *u);
uint64_t unpack_u64(struct unpack *u);
/* Points into the payload; "" on failure. A string with a NUL inside fails. */
const char *unpack_str(struct unpack *u);
/* The rest of the payload, which is then used up. */
const void *unpack_rest(struct unpack *u, size_t *n);
static inline bool unpack_ok(const struct unpack *u)
{
	return !u->bad && u->left == 0;
}
