/*
 * What a process writes. Bytes are read into a ring of WIRE_WINDOW and sent
 * from there with their offset; they stay until the client has acknowledged
 * them. A full ring is not read into: the writer waits, as it would for a slow
 * terminal. Frames are sent straight from the ring; only what a full socket
 * cuts off is copied.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/agent.h"
#include "wire/pack.h"

enum {
	OUTPUT_HEAD = FRAME_HEAD + 1 + 8,
	OUTPUT_MAX = FRAME_PAYLOAD_MAX - 1 - 8,
	BATCH = 4, /* frames in one sendmsg() */
	PIPE_BYTES = 64 * 1024,
};

static size_t ring_at(uint64_t offset)
{
	return (size_t)(offset % WIRE_WINDOW);
}

/* [from, from + n) of the ring as one or two pieces: how many. */
static int ring_iov(const struct stream *s, uint64_t from, size_t n,
		    struct iovec *v)
{
	size_t at = ring_at(from), first = WIRE_WINDOW - at;

	v[0] = (struct iovec){ s->ring + at, n < first ? n : first };
	if (n <= first)
		return 1;
	v[1] = (struct iovec){ s->ring, n - first };
	return 2;
}

static void ring_free(struct stream *s)
{
	if (s->ring)
		munmap(s->ring, WIRE_WINDOW);
	s->ring = NULL;
}

static int ring_make(struct stream *s)
{
	void *p;

	if (s->ring)
		return 0;
	/* Not from the heap: it goes back to the system when freed. */
	p = mmap(NULL, WIRE_WINDOW, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	s->ring = p;
	return 0;
}

static void make_ready(struct stream *s)
{
	list_del(&s->ready);
	if (!s->proc->lost)
		list_add(&s->proc->agent->ready, &s->ready);
}

static void stream_end(struct stream *s)
{
	io_close(&s->proc->agent->loop, &s->io);
	s->eof = true;
	make_ready(s);
}

/* Count, 0 at the end, -EAGAIN, -ENOBUFS when the window is full. */
static ssize_t stream_fill(struct stream *s)
{
	size_t room = WIRE_WINDOW - (size_t)(s->end - s->acked);
	struct iovec v[2];
	ssize_t n;

	if (room == 0)
		return -ENOBUFS;
	if (ring_make(s) < 0)
		return 0; /* no memory: the writer learns it by EPIPE */
	do
		n = readv(s->io.fd, v, ring_iov(s, s->end, room, v));
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

static void stream_readable(struct io *io, uint32_t events)
{
	struct stream *s = container_of(io, struct stream, io);
	ssize_t n;

	(void)events;
	if (s->proc->state == PROC_EXITED) {
		stream_drain(s);
		return;
	}
	n = stream_fill(s);
	if (n > 0) {
		grow_pipe(s, n);
		make_ready(s);
	} else if (n == -ENOBUFS) {
		/* Not io_set(0): a hang-up would be told over and over. */
		io_del(&s->proc->agent->loop, io);
	} else if (n != -EAGAIN) {
		stream_end(s);
	}
}

int stream_open(struct stream *s, uint8_t number)
{
	s->number = number;
	s->eof = s->eof_sent = false;
	return io_add(&s->proc->agent->loop, &s->io, s->io.fd, EPOLLIN,
		      stream_readable);
}

void stream_drop(struct stream *s)
{
	struct agent *a = s->proc->agent;

	if (s->io.fd >= 0) {
		io_del(&a->loop, &s->io);
		sink_add(a, s->io.fd);
		s->io.fd = -1;
	}
	list_del(&s->ready);
	ring_free(s);
	s->eof = s->eof_sent = true;
}

void stream_done(struct stream *s)
{
	io_close(&s->proc->agent->loop, &s->io);
	list_del(&s->ready);
	ring_free(s);
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

static void resume(struct stream *s)
{
	struct agent *a = s->proc->agent;

	if (s->io.fd < 0 || s->io.armed || s->end - s->acked == WIRE_WINDOW)
		return;
	if (s->proc->state == PROC_EXITED)
		stream_drain(s);
	else if (io_add(&a->loop, &s->io, s->io.fd, EPOLLIN, stream_readable))
		stream_end(s);
}

int stream_ack(struct stream *s, uint64_t offset)
{
	if (s->number == 0 || offset > s->sent)
		return -EBADMSG;
	if (offset <= s->acked)
		return 0;
	s->acked = offset;
	resume(s);
	return 0;
}

/* One OUTPUT frame that is about to be sent. */
struct chunk {
	struct stream *s;
	uint8_t head[OUTPUT_HEAD];
	size_t n; /* bytes of the stream */
};

static void put_le(uint8_t *p, uint64_t v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static int chunk_make(struct chunk *c, struct stream *s, struct iovec *v)
{
	uint64_t left = s->end - s->sent;

	c->s = s;
	c->n = left < OUTPUT_MAX ? (size_t)left : OUTPUT_MAX;
	memset(c->head, 0, sizeof(c->head));
	put_le(c->head, c->n + 1 + 8, 4);
	c->head[4] = FRAME_OUTPUT;
	put_le(c->head + 8, s->proc->channel, 4);
	c->head[FRAME_HEAD] = s->number;
	put_le(c->head + FRAME_HEAD + 1, s->sent, 8);
	v[0] = (struct iovec){ c->head, sizeof(c->head) };
	return 1 + ring_iov(s, s->sent, c->n, v + 1);
}

/* The rest of a frame that a full socket cut after `done` bytes. */
static void chunk_rest(struct agent *a, const struct chunk *c, size_t done)
{
	struct iovec v[2];
	int i, n;

	if (done < sizeof(c->head)) {
		buf_add(&a->out, c->head + done, sizeof(c->head) - done);
		done = sizeof(c->head);
	}
	done -= sizeof(c->head);
	n = ring_iov(c->s, c->s->sent, c->n, v);
	for (i = 0; i < n; i++) {
		size_t skip = done < v[i].iov_len ? done : v[i].iov_len;

		buf_add(&a->out, (uint8_t *)v[i].iov_base + skip,
			v[i].iov_len - skip);
		done -= skip;
	}
}

/* Accounts for `sent` bytes of the batch. */
static void chunks_sent(struct agent *a, struct chunk *c, int n, size_t sent)
{
	int i;

	for (i = 0; i < n && sent > 0; i++) {
		size_t whole = sizeof(c[i].head) + c[i].n;

		if (sent < whole) {
			chunk_rest(a, &c[i], sent);
			sent = 0;
		} else {
			sent -= whole;
		}
		c[i].s->sent += c[i].n;
		make_ready(c[i].s); /* to the end of the row */
	}
}

/* Says that a stream ended, and lets its process finish. */
static void send_eof(struct agent *a, struct stream *s)
{
	uint8_t payload[1 + 8];

	if (!s->eof || s->eof_sent)
		return;
	s->eof_sent = true;
	payload[0] = s->number;
	put_le(payload + 1, s->end, 8);
	frame_put(&a->out, FRAME_OUTPUT_EOF, 0, s->proc->channel, payload,
		  sizeof(payload));
	proc_finish(s->proc);
}

/*
 * The frames of one batch; ends of streams are queued on the way. A process
 * has its STARTED in front of its output. (It is forgotten when the last of
 * its streams ends: then no other node of it is in the list we walk.)
 */
static int collect(struct agent *a, struct chunk *c, struct iovec *v,
		   int *n_iov)
{
	struct list *pos, *tmp;
	int n = 0;

	*n_iov = 0;
	list_each (pos, tmp, &a->ready) {
		struct stream *s = container_of(pos, struct stream, ready);

		if (s->proc->state == PROC_STARTING)
			continue;
		if (s->sent == s->end) {
			list_del(&s->ready);
			send_eof(a, s);
			continue;
		}
		*n_iov += chunk_make(&c[n++], s, v + *n_iov);
		if (n == BATCH)
			break;
	}
	return n;
}

int streams_send(struct agent *a)
{
	struct chunk c[BATCH];
	struct iovec v[3 * BATCH];
	struct msghdr m = { .msg_iov = v };
	int n, n_iov;
	ssize_t sent;

	assert(buf_len(&a->out) == 0);
	n = collect(a, c, v, &n_iov);
	if (buf_len(&a->out) > 0)
		return 1; /* ends, which are sent before more is added */
	if (n == 0)
		return 0;
	m.msg_iovlen = (size_t)n_iov;
	do
		sent = sendmsg(a->conn.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return -errno;
	chunks_sent(a, c, n, (size_t)sent);
	return buf_len(&a->out) > 0 ? -EAGAIN : 1;
}
