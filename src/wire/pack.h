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

/*
 * Records of a stream: u32 length of what follows | u8 kind | fields.
 * record_begin() returns where one is, for record_end(), which writes its
 * length and returns it.
 */
size_t record_begin(struct buf *b, uint8_t kind);
size_t record_end(struct buf *b, size_t at);
/*
 * The next record of `b`: its size, with `u` at its fields. 0 when more bytes
 * are needed; -EBADMSG when it is empty, or longer than `max`.
 */
int record_next(const struct buf *b, size_t max, struct unpack *u,
		uint8_t *kind) MUST_CHECK;
