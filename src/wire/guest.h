/*
 * What the host says to the first process of a microVM, over the port
 * `control`: one request, one answer, both of a fixed size. The guest says
 * nothing unasked. What comes from a guest was written by whoever has taken it
 * over: the host checks it as such, see sandbox/vm/control.h.
 *
 * A machine is saved only while it is held, and what was restored is woken
 * before any process in it runs: no user's instruction ever runs with the
 * randomness, the clock or the name of a twin.
 */
#pragma once

#include <stdint.h>

#include "base/str.h"

enum {
	GUEST_MAGIC = 0x74736775,
	GUEST_VERSION = 1,
	GUEST_SEED = 64,
	GUEST_TEXT = 120,
};

enum guest_op {
	/* Answered when the agent listens. */
	GUEST_ASK = 1,
	/* What is dirty goes to the disk, agent and users stand still. */
	GUEST_HOLD,
	/* Fresh randomness, clock and names; then they go on. May come to one
	 * that was not held, and again. */
	GUEST_WAKE,
	/* What is dirty goes to the disk while they run: less is left for
	 * GUEST_HOLD. */
	GUEST_SYNC,
	/* A small piece of work (base/work.h), answered when it is done: how
	 * long that takes is seen by who asked. */
	GUEST_WORK,
	GUEST_OPS
};

struct guest_req {
	uint32_t magic;
	uint16_t version, op;
	uint64_t seq;
	/* Of GUEST_WAKE. */
	uint64_t time_ns; /* since 1970 */
	uint64_t zero;
	uint8_t seed[GUEST_SEED];
	char hostname[NAME_CAP];
	char id[ID_CAP]; /* of the sandbox */
	uint32_t end;
};

struct guest_rep {
	uint32_t magic;
	uint16_t version, op;
	uint64_t seq;
	int32_t code; /* an errno, or 0 */
	char text[GUEST_TEXT];
	uint32_t end;
};

_Static_assert(sizeof(struct guest_req) == 192, "no holes");
_Static_assert(sizeof(struct guest_rep) == 144, "no holes");
