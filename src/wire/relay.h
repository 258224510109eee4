/*
 * Between the warden and the relay of a microVM's door: fixed-size structs over
 * a SOCK_SEQPACKET socket, run_dir/box/ID/relay.sock, root's alone. Whoever
 * connects last is heard. Each request is answered once, in any order, with the
 * same op and seq; RELAY_UP comes without being asked, whenever the guest is
 * found and when somebody connects later: what was asked before, and was not
 * answered, is to be asked again.
 *
 * The relay hears a guest, so it is believed nothing.
 */
#pragma once

#include <stdint.h>

enum { RELAY_VERSION = 1 };

enum relay_op {
	RELAY_UP = 1,
	/* The guest shall have its door: `flags` of struct door_spec. */
	RELAY_DOOR,
	/* The socket that comes along is to be connected to a port of the
	 * sandbox: `port` and `flags` of struct connect_spec. */
	RELAY_CONNECT,
	RELAY_OPS
};

struct relay_req {
	uint16_t version, op;
	uint32_t seq; /* not 0 */
	uint32_t flags;
	uint16_t port, zero;
};

struct relay_rep {
	uint16_t version, op;
	uint32_t seq;
	uint32_t code; /* an errno; 0: done */
};

/* Descriptors that it is started with; the third is the log. */
enum { RELAY_FD_LINE, RELAY_FD_LISTEN };
