/*
 * Many connections over one line (wire/door.h): what both ends of it do, the
 * relay of a microVM's door on the host and the guest's end of it.
 *
 * Each connection is a socket at either end. What comes for it and cannot be
 * written yet is kept, as far as room was given for it: that, and what waits
 * for the line, is all the memory that anybody can make us use. A connection
 * that nobody reads from fills its own room and stops nobody else.
 *
 * The owner sets the first group of fields, has SIGPIPE ignored, and says what
 * the line is.
 */
#pragma once

#include <netinet/in.h>

#include "base/loop.h"
#include "wire/door.h"

enum {
	MUX_STREAMS_MAX = 2 * DOOR_STREAMS, /* and those on their way out */
	MUX_OUT_MAX = 256 * 1024,  /* above, no connection is read from */
	MUX_OUT_LEAST = 64 * 1024, /* below, they are again */
	MUX_OUT_HARD = 1 << 20,    /* above, the line is not read from */
	MUX_ROOM = 128 * 1024,     /* for a connection... */
	MUX_ROOM_ALL = 8 << 20,    /* ...while less than this is given away */
	MUX_SOCKET = 128 * 1024,   /* of the kernel's, each way */
};

struct mux;

struct stream {
	struct list node;
	struct mux *m;
	uint32_t id;
	uint64_t tag; /* the owner's, of one that it opened */
	struct io io;
	struct buf in; /* for the socket */
	uint32_t may_send, may_come;
	bool ours;       /* we opened it */
	bool listed;     /* it has its place */
	bool connecting; /* the socket is */
	bool opened;     /* the other end said so */
	bool unanswered; /* the owner did not hear so */
	bool sent_end, got_end, shut;
	bool broken; /* it cannot be watched, and ends soon */
	struct deferred unwatched, gone;
};

enum mux_state { MUX_DOWN, MUX_SEEK, MUX_UP };

struct mux {
	/* the owner's */
	struct loop *loop;
	bool host;
	/* The other end wants to be connected to it: a socket on its way, which
	 * does not block, or -errno. */
	int (*dial)(struct mux *m, const struct door_addr *a);
	/* One that was opened here with a tag: 0 connected, or an errno;
	 * ENOTCONN: the line was lost before it was known. */
	void (*answered)(struct mux *m, uint64_t tag, int code);
	/* Messages that are about no connection. It does not hang up. */
	void (*heard)(struct mux *m, const struct door_msg *msg);
	/* They have found each other, or lost. */
	void (*changed)(struct mux *m);
	/* There is a place for one more connection; may be NULL. */
	void (*freed)(struct mux *m);
	/* The line has ended. */
	void (*ended)(struct mux *m);

	enum mux_state state;
	struct io line;
	struct timer hello;
	uint8_t ours[DOOR_NUMBER], theirs[DOOR_NUMBER];
	uint32_t word;
	struct buf in, out;
	bool full; /* of out: nobody is read from */
	struct list streams;
	unsigned n_streams;
	size_t given; /* room that the other end has, all together */
	/* By who opened them: [0] the guest, [1] the host. */
	struct stream *place[2][DOOR_STREAMS];
	uint32_t turn, next;
	unsigned n_ours;
};

void mux_init(struct mux *m);
/* There is somebody at the other end of this descriptor, which stays the
 * caller's; there is nobody any more. */
int mux_line(struct mux *m, int fd) MUST_CHECK;
void mux_hang_up(struct mux *m);

/* Opens a connection from `fd`, which is taken in any case. -EAGAIN: the line
 * is not up, or has no place. */
int mux_open(struct mux *m, int fd, const struct door_addr *a,
	     uint64_t tag) MUST_CHECK;
static inline bool mux_has_place(const struct mux *m)
{
	return m->state == MUX_UP && m->n_ours < DOOR_STREAMS &&
	       m->n_streams < MUX_STREAMS_MAX;
}
/* A message that is about no connection. False: the line is not up; or it is
 * full, and the message a datagram. What is answered once is never dropped:
 * there is as much of it as was asked for. */
bool mux_say(struct mux *m, enum door_kind kind, uint32_t id, const void *body,
	     size_t len);

/*
 * A TCP socket of a connection, before it is connected or after it was
 * accepted: what waits in it is bounded, too (the kernel would let it grow),
 * and pieces are not held back. 0 or -errno.
 */
int mux_tune(int fd) MUST_CHECK;
/* Addresses of sockets, and back. */
struct door_addr mux_addr(const struct sockaddr_storage *s);
socklen_t mux_sockaddr(const struct door_addr *a, struct sockaddr_storage *s);
/* A socket on its way there that does not block, or -errno. */
int mux_dial(const struct door_addr *a, int type) MUST_CHECK;
