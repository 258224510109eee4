/*
 * Frames of RFC 6455 as a server sees them: decoding what clients send, and
 * encoding what it sends itself. Pure functions, no I/O; every byte given to
 * the decoder may come from an attacker.
 *
 * Refused with 1002: a frame that is not masked, reserved bits (no extension
 * is ever agreed on), unknown opcodes, a length that is not in its shortest
 * form, control frames that are fragmented or longer than 125 bytes,
 * a continuation of nothing, a message inside a message, a bad close code.
 * With 1007: text that is not UTF-8. With 1009: a message above `max`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum ws_op {
	WS_CONTINUE = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10
};

enum ws_code {
	WS_NORMAL = 1000,
	WS_GOING_AWAY = 1001,
	WS_PROTOCOL_ERROR = 1002,
	WS_UNSUPPORTED = 1003,
	WS_NO_CODE = 1005, /* never sent: a close frame without one */
	WS_LOST = 1006,    /* never sent: the connection ended without one */
	WS_BAD_TEXT = 1007,
	WS_REFUSED = 1008,
	WS_TOO_LARGE = 1009,
	WS_INTERNAL = 1011
};

enum { WS_CONTROL_MAX = 125, WS_HEAD_MAX = 14 };

/* Zero-initialise, and set `max`. */
struct ws_decoder {
	size_t max; /* bytes of a message */

	/* Private. */
	uint8_t head[WS_HEAD_MAX];
	unsigned head_n;
	bool in_payload;
	uint64_t left; /* bytes missing of the payload */
	unsigned mask_at;
	uint8_t message_op; /* 0: no message is under way */
	bool given;         /* `message` was returned: cleared next time */
	struct buf message;
	char control[WS_CONTROL_MAX + 1];
	size_t control_n;
};

void ws_decoder_done(struct ws_decoder *d);

/*
 * Looks at `n` bytes and says in `used` how many it took. Returns WS_TEXT,
 * WS_BINARY, WS_CLOSE, WS_PING or WS_PONG for a message that is complete:
 * `*data_n` bytes at `*data`, with a NUL behind them, which may be changed and
 * are valid until the next call. 0: all were taken, more must come. A negative
 * close code refuses the stream, for good.
 */
int ws_decode(struct ws_decoder *d, const char *p, size_t n, size_t *used,
	      char **data, size_t *data_n) MUST_CHECK;

/* The code in the payload of a WS_CLOSE: WS_NO_CODE when it is empty. */
unsigned ws_close_code(const char *data, size_t n);

/* Appends one unfragmented frame. */
void ws_encode(struct buf *out, enum ws_op op, const void *p, size_t n);
