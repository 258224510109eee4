/*
 * The content of a client's WebSocket frames. RFC 6455 has clients mask each
 * frame with a key of its own, so that no word is found in the bytes as they
 * come. Nothing is refused here: the server does that.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Zero-initialise. */
struct ws_payload {
	uint8_t head[14];
	unsigned head_n;
	uint64_t left; /* bytes missing of the frame */
	uint8_t key[4];
	unsigned key_at;
};

/* Appends the content of these bytes, unmasked, frame after frame. */
void ws_payload_add(struct ws_payload *w, const char *p, size_t n,
		    struct buf *out);
