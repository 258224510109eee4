/*
 * What a process writes. Bytes are read into a ring of WIRE_WINDOW and stay
 * there until newer ones take their place: so a client that comes late, or
 * again, finds the last of them. What the slowest reader has not acknowledged
 * is not overwritten: the ring is then not read into, and the writer waits, as
 * it would for a slow terminal.
 *
 * Each read wakes the api and a client. A writer of small pieces, one right
 * behind the other, would keep all of us busy with next to nothing: it gets one
 * read in a millisecond, and what came until then goes together.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"

enum {
	PIPE_BYTES = 64 * 1024,
	SMALL_BYTES = 16 * 1024, /* less than that is a small read */
	SMALL_READS = 8,         /* right behind each other */
	GATHER_MS = 1,
};

/* The channels of its process have something to send. */
static void make_ready(struct stream *s)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &s->proc->chans)
		tap_ready(&container_of(pos, struct chan, of_proc)
				   ->out[s->number - 1]);
}

/* Nobody reads it, and nobody is expected to. */
static bool is_free(const struct stream *s)
{
	return s->proc->n_readers == 0 && !s->proc->lost.slot;
}

/* Bytes from here on are still needed. */
static uint64_t stream_floor(const struct stream *s)
{
	uint64_t start = stream_start(s), floor = s->end;
	struct list *pos, *tmp;

	if (s->proc->n_readers == 0) {
		if (is_free(s))
			return s->end;
		return s->held_from > start ? s->held_from : start;
	}
	list_each (pos, tmp, &s->proc->chans) {
		const struct chan *c = container_of(pos, struct chan, of_proc);
		const struct tap *t = &c->out[s->number - 1];

		if (!c->mute && t->acked < floor)
			floor = t->acked;
	}
	return floor;
}

static size_t stream_room(const struct stream *s)
{
	return WIRE_WINDOW - (size_t)(s->end - stream_floor(s));
}

/* Neither for its time nor for its turn. */
static void stop_waiting(struct stream *s)
{
	timer_del(&s->proc->agent->loop, &s->gather);
	list_del(&s->paced.node);
}

static void stream_end(struct stream *s)
{
	io_close(&s->proc->agent->loop, &s->io);
	stop_waiting(s);
	s->eof = true;
	ring_shrink(&s->ring, s->end);
	make_ready(s);
}

/* Count, 0 at the end, -EAGAIN, -ENOBUFS when the window is full. */
static ssize_t stream_fill(struct stream *s)
{
	size_t room = stream_room(s);
	struct iovec v[2];
	ssize_t n;

	if (room == 0)
		return -ENOBUFS;
	if (ring_make(&s->ring) < 0)
		return 0; /* no memory: the writer learns it by EPIPE */
	do
		n = readv(s->io.fd, v, ring_iov(&s->ring, s->end, room, v));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EIO)
		return 0; /* a terminal that nobody has open any more */
	if (n < 0)
		return -errno;
	s->end += (uint64_t)n;
	return n;
}

/* A writer that fills its pipe gets a larger one: fewer turns for both. */
static void grow_pipe(struct stream *s, ssize_t n)
{
	if (n < PIPE_BYTES || s->grown || s->proc->pty)
		return;
	s->grown = true;
	/* Refused above the user's share of pipe memory: then it stays. */
	if (fcntl(s->io.fd, F_SETPIPE_SZ, WIRE_WINDOW) < 0)
		return;
}

static void on_gathered(struct timer *t)
{
	stream_resume(container_of(t, struct stream, gather));
}

/* Of `n` that were just read into `room`: is it one small piece too many? What
 * filled the room may have been cut out of a large one. */
static bool is_dribble(struct stream *s, ssize_t n, size_t room)
{
	uint64_t now, passed;

	if (n >= SMALL_BYTES || (size_t)n == room)
		return false;
	now = clock_boot_ms();
	passed = now - s->small_ms;
	s->small_ms = now;
	s->n_small -= passed < s->n_small ? passed : s->n_small;
	return ++s->n_small > SMALL_READS;
}

static void stream_readable(struct io *io, uint32_t events)
{
	struct stream *s = container_of(io, struct stream, io);
	struct agent *a = s->proc->agent;
	bool is_idle = is_free(s);
	size_t room = stream_room(s);
	ssize_t n = -ENOBUFS;

	(void)events;
	if (s->proc->state == PROC_EXITED) {
		stream_drain(s);
		return;
	}
	if (!is_idle || pace_ask(a, &s->paced))
		n = stream_fill(s);
	if (is_idle && n != -ENOBUFS)
		pace_spend(a, n);
	if (n > 0) {
		grow_pipe(s, n);
		make_ready(s);
		if (!is_idle && is_dribble(s, n, room)) {
			io_del(&a->loop, io);
			timer_set(&a->loop, &s->gather, GATHER_MS, on_gathered);
		}
	} else if (n == -ENOBUFS) {
		/* Not io_set(0): a hang-up would be told over and over. */
		io_del(&a->loop, io);
	} else if (n != -EAGAIN) {
		stream_end(s);
	}
}

static void stream_turn(struct paced *p)
{
	stream_resume(container_of(p, struct stream, paced));
}

int stream_open(struct stream *s, uint8_t number)
{
	s->number = number;
	s->eof = false;
	s->paced.turn = stream_turn;
	return io_add(&s->proc->agent->loop, &s->io, s->io.fd, EPOLLIN,
		      stream_readable);
}

void stream_done(struct stream *s)
{
	io_close(&s->proc->agent->loop, &s->io);
	stop_waiting(s);
	ring_free(&s->ring);
}

/*
 * What was in the pipe when the process ended is its own, whatever a child in
 * the background goes on to write. A terminal cannot tell how much that is:
 * there it is what can be read without waiting, up to one window.
 */
static void set_stop(struct stream *s)
{
	int left = WIRE_WINDOW;

	if (s->draining)
		return;
	s->draining = true;
	if (!s->proc->pty && ioctl(s->io.fd, FIONREAD, &left) < 0)
		left = WIRE_WINDOW;
	s->stop_at = s->end + (uint64_t)left;
}

void stream_drain(struct stream *s)
{
	struct agent *a = s->proc->agent;
	ssize_t n;

	if (s->eof)
		return;
	timer_del(&a->loop, &s->gather);
	set_stop(s);
	do
		n = stream_fill(s);
	while (n > 0 && s->end < s->stop_at);
	if (n == -ENOBUFS && s->end < s->stop_at) {
		io_del(&a->loop, &s->io); /* goes on with the next ACK */
		make_ready(s); /* which only comes for what is sent */
		return;
	}
	if ((n > 0 || n == -EAGAIN || n == -ENOBUFS) && !s->proc->pty) {
		io_del(&a->loop, &s->io);
		sink_add(a, s->io.fd);
		s->io.fd = -1;
	}
	stream_end(s);
}

void stream_resume(struct stream *s)
{
	struct agent *a = s->proc->agent;

	if (s->io.fd < 0 || s->io.armed || s->gather.slot ||
	    stream_room(s) == 0)
		return;
	list_del(&s->paced.node);
	if (s->proc->state == PROC_EXITED)
		stream_drain(s);
	else if (io_add(&a->loop, &s->io, s->io.fd, EPOLLIN, stream_readable))
		stream_end(s);
}
