/*
 * The line between a microVM and the relay of its door: one stream of bytes
 * each way (a virtio port), many connections in it.
 *
 * The host's end may be another one at any byte: a relay that was started
 * again, a machine that goes on from a saved state. So first they find each
 * other. Each end has a number that nobody can guess, and looks for the other's
 * answer with its own number in it, whatever comes before:
 *
 *	host -> guest	DOOR_HELLO { host's }, again and again
 *	guest -> host	DOOR_HEARD { guest's, host's }
 *	host -> guest	DOOR_BEGIN { host's, guest's }
 *
 * Then messages: a head, a body, and a word that is made of both numbers. What
 * is no message, or does not end in the word, is of another life: all
 * connections are reset, and they look for each other again. A guest that
 * begins to look says DOOR_HEARD to nobody, which is no message to whom it
 * concerns. Neither end believes the other anything.
 *
 * Connections are opened by either end, which names them: DOOR_BY_HOST or not,
 * a place below DOOR_STREAMS, and a number that is another one whenever the
 * place is taken anew, so that late words about a connection that is over
 * reach nobody. Bytes may be sent as far as there is room: DOOR_ROOM_FIRST from
 * the start, and what DOOR_ROOM adds. DOOR_END says that no more bytes come
 * this way; both ends said it: it is over. DOOR_RESET ends it at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum door_kind {
	DOOR_OPEN = 1, /* struct door_addr: whom to connect to */
	DOOR_OPENED,   /* connected */
	DOOR_DATA,
	DOOR_END,
	DOOR_RESET, /* struct door_code: why */
	DOOR_ROOM,  /* uint32_t: bytes more */
	/* A datagram: struct door_addr and bytes to the host, bytes back. The
	 * id is the guest's own matter. */
	DOOR_GRAM,
	/* Host to guest: the sandbox's door shall stand (uint32_t: enum
	 * door_flags of wire/warden.h). It answers DOOR_MADE, with the id. */
	DOOR_MAKE,
	DOOR_MADE, /* struct door_code */
	DOOR_KINDS
};

enum {
	DOOR_STREAMS = 1024, /* that one end has opened */
	DOOR_PLACE_MASK = DOOR_STREAMS - 1,
	DOOR_DATA_MAX = 16 * 1024,
	DOOR_GRAM_MAX = 4096,
	DOOR_ROOM_FIRST = 16 * 1024,
	DOOR_ROOM_MAX = 1 << 20, /* of one connection */
};
#define DOOR_BY_HOST 0x80000000U

struct door_head {
	uint8_t kind, zero;
	uint16_t len; /* of the body */
	uint32_t id;
};

struct door_addr {
	uint8_t ip[16]; /* IPv4 as a mapped address */
	uint16_t port, zero;
};

struct door_code {
	uint32_t code; /* an errno; 0: none */
};

/* One message. `body` points into the buffer that it was found in. */
struct door_msg {
	enum door_kind kind;
	uint32_t id;
	const char *body;
	size_t len;
	size_t whole; /* what to eat when it was looked at */
};

void door_put(struct buf *out, uint32_t word, const struct door_msg *m);
/* 1: a message of a length that its kind may have; 0: not all of it is here;
 * -EBADMSG: none. */
int door_get(const struct buf *in, uint32_t word,
	     struct door_msg *m) MUST_CHECK;

enum { DOOR_NUMBER = 16 };
enum door_step { DOOR_HELLO = 1, DOOR_HEARD, DOOR_BEGIN };
struct door_sync {
	uint8_t mark[12];
	uint32_t step;
	uint8_t ours[DOOR_NUMBER], theirs[DOOR_NUMBER]; /* of who says it */
};

void door_sync_put(struct buf *out, enum door_step step,
		   const uint8_t ours[DOOR_NUMBER],
		   const uint8_t theirs[DOOR_NUMBER]);
/* As much of nothing as a message may be long: whoever waits for the rest of
 * one that nobody will send has it then, and sees that it is none. */
void door_fill(struct buf *out);
/* The next one, which is eaten with all that is before it; false: there is
 * none, and what cannot be its beginning is eaten. */
bool door_sync_get(struct buf *in, struct door_sync *s);
/* Between messages: is this one? 1, 0: not all of it is here, or -EBADMSG. It
 * is not eaten. */
int door_sync_here(const struct buf *in, struct door_sync *s) MUST_CHECK;
/* What messages end in. */
uint32_t door_word(const uint8_t ours[DOOR_NUMBER],
		   const uint8_t theirs[DOOR_NUMBER]);
