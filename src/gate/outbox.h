/*
 * Messages that wait for a SOCK_SEQPACKET socket to take them, in order, with
 * their descriptors. Bounded: a peer that reads nothing is given up. What was
 * in a message is wiped, it may be a key.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"

enum { OUTBOX_MSGS = 8192, OUTBOX_BYTES = 16 * 1024 * 1024 };

struct outbox {
	struct loop *loop;
	struct io *io; /* watched for EPOLLOUT while something waits */
	struct list msgs;
	unsigned n;
	size_t bytes;
};

void outbox_init(struct outbox *o, struct loop *l, struct io *io);
/* Duplicates the descriptors when they have to wait. 0, or -errno: the peer is
 * gone, or does not read. */
int outbox_send(struct outbox *o, const void *p, size_t n, const int *fds,
		int n_fds) MUST_CHECK;
/* There is room again. */
int outbox_flush(struct outbox *o) MUST_CHECK;
void outbox_clear(struct outbox *o);
