/*
 * carrel-relay: the host's end of a microVM's door. The guest has no network;
 * who connects to anything in it reaches this program over a line of QEMU's,
 * and is connected to the same address of a network namespace on the host that
 * has nothing in it but the sockets of the sandbox's door. What happens there
 * is the gate's matter, as with any sandbox. The other way round the warden
 * hands sockets over, for previews of ports.
 *
 *	main.c		start, the filter, connections
 *	control.c	what the warden wants
 *	gram.c		datagrams: questions for names
 *
 * One of it per VM, in the groups of the VM, with an id that nobody else has,
 * an empty root, no capability. It is started again when it ends; who was
 * connected is reset then.
 */
#pragma once

#include "mux/mux.h"

enum { GRAMS_MAX = 64 };

/* A question on its way. */
struct gram {
	struct relay *r;
	struct io io;
	uint32_t id;
	struct timer late;
};

struct relay {
	struct loop loop;
	struct mux mux;
	struct io listen, control;
	uint32_t wardens; /* that have come: their numbers begin anew */
	struct gram grams[GRAMS_MAX];
	unsigned next_gram;
};

int control_start(struct relay *r, int listen_fd) MUST_CHECK;
/* The guest is found. */
void control_up(struct relay *r);
void control_answer(struct relay *r, uint16_t op, uint32_t seq, uint32_t code);
/* What mux_open() was given a tag for. */
void control_connected(struct relay *r, uint64_t tag, uint32_t code);

void grams_init(struct relay *r);
void gram_send(struct relay *r, const struct door_msg *msg);
/* Nobody waits for the answers any more. */
void grams_drop(struct relay *r);
