/*
 * Between the gate's own processes, over pairs of SOCK_SEQPACKET sockets. The
 * keeper believes a door nothing: what it asks for is of its own door, whatever
 * it says.
 *
 * One message: u8 op | name | one | two | bytes (wire/pack.h).
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	WITHIN_MSG_MAX = 160 * 1024,
	WITHIN_RESOLV_MAX = 16 * 1024,
	WITHIN_HOSTS_MAX = 128 * 1024,
};

enum within_op {
	/* Keeper to starter. */
	WITHIN_DOOR = 1, /* name; descriptors: its link to the keeper, spool */
	/* Keeper to door. */
	WITHIN_CONN,   /* a connection of the api, as descriptor */
	WITHIN_RESOLV, /* one: resolv.conf, two: hosts */
	WITHIN_KEPT,   /* name: id, of which there is a state */
	/* Door to keeper, and answered by the same. */
	WITHIN_KEYS,  /* name: project. Answer: one: certificate, two: its key,
			 bytes: public key and, at a project's own door, the
			 private one; none: there are no keys, one says why */
	WITHIN_STATE, /* name: id. Answer: the file as descriptor, or none */
	/* Door to keeper. */
	WITHIN_DROP, /* name: id, whose state is not needed any more */
	WITHIN_OPS
};

struct within_msg {
	enum within_op op;
	const char *name, *one, *two; /* point into what was read */
	const void *bytes;
	size_t n_bytes;
};

/* At least what it takes. */
size_t within_size(const struct within_msg *m);
void within_put(struct buf *b, const struct within_msg *m);
/* `n` bytes, all of them: 0 or -EBADMSG. Names are names, ids are ids. */
int within_get(const void *p, size_t n, struct within_msg *m) MUST_CHECK;
