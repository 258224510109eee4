/*
 * The host's connection. There is one at a time: a newer one replaces it,
 * because the older one's owner may have died without a word. Frames that
 * break the rules end the connection, never the agent.
 *
 * Order of what is sent: `out` first (frames that are small, and the rest of
 * one that was cut), then output straight from the rings (tap.c). When the
 * peer does not read, `out` grows up to OUT_MAX; then its frames are no longer
 * read either.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/fd.h"
#include "wire/pack.h"

enum {
	PING_MAX = 64,
	READ_MAX = 32 * 1024, /* the buffer of this size is kept */
};

static void lose_all(struct agent *a)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &a->chans)
		chan_leave(container_of(pos, struct chan, node), true);
}

static void conn_lost(struct agent *a)
{
	io_close(&a->loop, &a->conn);
	buf_done(&a->in);
	buf_done(&a->out);
	a->greeted = a->stalled = false;
	lose_all(a);
}

static void say_hello(struct agent *a)
{
	struct hello hello = { .version_min = WIRE_VERSION,
			       .version_max = WIRE_VERSION };

	memcpy(hello.nonce, a->nonce, sizeof(hello.nonce));
	hello_put(&a->out, &hello);
}

static int on_ping(struct agent *a, struct chan *c, const struct frame *f)
{
	(void)c;
	frame_put(&a->out, FRAME_PONG, 0, f->channel, f->payload, f->len);
	return 0;
}

static int on_spawn(struct agent *a, struct chan *c, const struct frame *f)
{
	if (c && c->proc)
		return -EBADMSG;
	return spawn_ask(a, c, f);
}

static int on_attach(struct agent *a, struct chan *c, const struct frame *f)
{
	if (c || a->n_chans >= CHANS_MAX)
		return -EBADMSG;
	chan_attach(chan_new(a, f->channel), f);
	return 0;
}

static int on_input(struct agent *a, struct chan *c, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint64_t offset = unpack_u64(&u);
	size_t n;
	const void *data = unpack_rest(&u, &n);

	(void)a;
	return input_add(c, offset, data, n);
}

static int on_input_eof(struct agent *a, struct chan *c, const struct frame *f)
{
	(void)a;
	(void)f;
	input_eof(c);
	return 0;
}

static int on_resize(struct agent *a, struct chan *c, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	const struct proc *p = c->proc;
	struct winsize size = { 0 };

	(void)a;
	size.ws_row = unpack_u16(&u);
	size.ws_col = unpack_u16(&u);
	/* If the terminal will not have it, no rule of ours is broken. */
	if (p->pty && p->out[0].io.fd >= 0)
		ioctl(p->out[0].io.fd, TIOCSWINSZ, &size);
	return 0;
}

static int on_signal(struct agent *a, struct chan *c, const struct frame *f)
{
	int sig = f->payload[0];

	(void)a;
	if (sig < 1 || sig > SIGNAL_MAX)
		return -EBADMSG;
	proc_signal(c->proc, sig);
	return 0;
}

static int on_ack(struct agent *a, struct chan *c, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint8_t number = unpack_u8(&u);
	uint64_t offset = unpack_u64(&u);

	(void)a;
	if (number < 1 || number > 2)
		return -EBADMSG;
	return tap_ack(&c->out[number - 1], offset);
}

static int on_detach(struct agent *a, struct chan *c, const struct frame *f)
{
	uint8_t flags = f->payload[0];

	(void)a;
	if (flags & ~DETACH_FLAGS_ALL)
		return -EBADMSG;
	if (!c)
		return 0;
	if (flags & DETACH_WATCH)
		return chan_hush(c, flags & DETACH_LOST);
	chan_leave(c, flags & DETACH_LOST);
	return 0;
}

/*
 * A frame for a channel that is not (or no longer) there is dropped: it may
 * have crossed the exit on its way.
 */
static const struct handler {
	int (*fn)(struct agent *a, struct chan *c, const struct frame *f);
	uint32_t min, max; /* length of the payload */
	bool joined;       /* needs a process at the channel */
	uint8_t flags;     /* that may be set */
} handlers[] = {
	[FRAME_PING] = { on_ping, 0, PING_MAX, false, 0 },
	[FRAME_SPAWN] = { on_spawn, 0, FRAME_PAYLOAD_MAX, false, FRAME_MORE },
	[FRAME_INPUT] = { on_input, 8, FRAME_PAYLOAD_MAX, true, 0 },
	[FRAME_INPUT_EOF] = { on_input_eof, 0, 0, true, 0 },
	[FRAME_RESIZE] = { on_resize, 4, 4, true, 0 },
	[FRAME_SIGNAL] = { on_signal, 1, 1, true, 0 },
	[FRAME_ACK] = { on_ack, 9, 9, true, 0 },
	[FRAME_DETACH] = { on_detach, 1, 1, false, 0 },
	[FRAME_ATTACH] = { on_attach, 0, FRAME_PAYLOAD_MAX, false, 0 },
};

static int handle(struct agent *a, const struct frame *f)
{
	const struct handler *h;
	struct chan *c;

	if (f->type >= ARRAY_LEN(handlers) || !handlers[f->type].fn)
		return -EBADMSG;
	h = &handlers[f->type];
	if (f->len < h->min || f->len > h->max || (f->flags & ~h->flags))
		return -EBADMSG;
	if (f->type != FRAME_PING && f->channel == 0)
		return -EBADMSG;
	c = chan_find(a, f->channel);
	if (h->joined && (!c || !c->proc))
		return 0;
	return h->fn(a, c, f);
}

/*
 * The hello of the peer. A second one in place of a frame is another peer's, on
 * a line that does not tell who is at its end: nothing of before is for it.
 */
static int take_hello(struct agent *a)
{
	struct hello hello;
	int r = hello_get(&a->in, &hello);

	if (r <= 0)
		return r;
	if (a->greeted) {
		lose_all(a);
		buf_clear(&a->out);
		say_hello(a);
	}
	a->greeted = true;
	return 1;
}

/* Whole frames of `in`, as long as their answers fit: else they wait. */
static int take_frames(struct agent *a)
{
	struct frame f;
	int r;

	for (;;) {
		a->stalled = buf_len(&a->out) >= OUT_MAX;
		if (a->stalled)
			return 0;
		r = a->greeted ? frame_get(&a->in, &f) : -EBADMSG;
		if (r == -EBADMSG) {
			r = take_hello(a);
			if (r > 0)
				continue;
		}
		if (r <= 0)
			return r;
		r = handle(a, &f);
		if (r < 0)
			return r;
		buf_eat(&a->in, FRAME_HEAD + f.len);
	}
}

static void watch(struct agent *a, bool full)
{
	uint32_t events = full ? EPOLLOUT : 0;

	if (!a->stalled)
		events |= EPOLLIN;
	if (io_set(&a->loop, &a->conn, events) < 0)
		conn_lost(a);
}

static void conn_event(struct io *io, uint32_t events)
{
	struct agent *a = container_of(io, struct agent, conn);
	ssize_t n;

	if (events & EPOLLIN && !a->stalled) {
		/* read(): descriptors that come along are never taken. */
		n = buf_read(&a->in, io->fd, READ_MAX);
		if (n == -EAGAIN)
			return;
		if (n <= 0 || take_frames(a) < 0)
			conn_lost(a);
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		conn_lost(a);
	}
}

/* 0 when all of it is sent, -EAGAIN, or another -errno. */
static int send_out(struct agent *a)
{
	while (buf_len(&a->out) > 0) {
		ssize_t n = send(a->conn.fd, buf_data(&a->out),
				 buf_len(&a->out), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		buf_eat(&a->out, (size_t)n);
	}
	return 0;
}

void conn_flush(struct loop *l)
{
	struct agent *a = container_of(l, struct agent, loop);
	int r = 1;

	while (a->conn.fd >= 0 && r > 0) {
		r = send_out(a);
		if (r == 0 && a->stalled)
			r = take_frames(a);
		if (r == 0)
			r = buf_len(&a->out) > 0 ? 1 : taps_send(a);
	}
	if (a->conn.fd < 0)
		return;
	if (r < 0 && r != -EAGAIN)
		conn_lost(a);
	else
		watch(a, r == -EAGAIN);
}

static void conn_open(struct agent *a, int fd)
{
	if (a->conn.fd >= 0)
		conn_lost(a);
	if (io_add(&a->loop, &a->conn, fd, EPOLLIN, conn_event) < 0) {
		io_close(&a->loop, &a->conn);
		return;
	}
	say_hello(a);
	/* Who has just connected may have asked for something already. */
	conn_event(&a->conn, EPOLLIN);
}

static void on_connect(struct io *io, uint32_t events)
{
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd >= 0)
		conn_open(container_of(io, struct agent, listen), fd);
}

/* The launcher made it; that it does not block is our business. */
int conn_listen(struct agent *a, int fd)
{
	int r = fd_set_nonblock(fd, true);

	return r < 0 ? r
		     : io_add(&a->loop, &a->listen, fd, EPOLLIN, on_connect);
}
