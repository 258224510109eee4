/*
 * What a channel gets of a stream: OUTPUT frames from where it is, straight
 * from the ring; only what a full socket cuts off is copied. Channels take
 * turns, each stream of each with one frame at a time.
 *
 * That nothing is sent beyond the window of a channel needs no check: the ring
 * is never more than a window ahead of what the slowest has acknowledged.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "agent/agent.h"

enum {
	OUTPUT_HEAD = FRAME_HEAD + 1 + 8,
	OUTPUT_MAX = FRAME_PAYLOAD_MAX - 1 - 8,
	BATCH = 4, /* frames in one sendmsg() */
};

void tap_init(struct tap *t, struct chan *c, struct stream *s, uint64_t from)
{
	*t = (struct tap){ .chan = c,
			   .stream = s,
			   .sent = from,
			   .acked = from,
			   .eof_sent = s->number == 0 };
	list_init(&t->ready);
}

void tap_ready(struct tap *t)
{
	list_del(&t->ready);
	if (!t->eof_sent && !t->chan->mute)
		list_add(&t->chan->agent->ready, &t->ready);
}

int tap_ack(struct tap *t, uint64_t offset)
{
	if (offset > t->sent)
		return -EBADMSG;
	if (offset <= t->acked)
		return 0;
	t->acked = offset;
	stream_resume(t->stream);
	return 0;
}

/* One OUTPUT frame that is about to be sent. */
struct chunk {
	struct tap *tap;
	uint8_t head[OUTPUT_HEAD];
	size_t n; /* bytes of the stream */
};

static void put_le(uint8_t *p, uint64_t v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static int chunk_make(struct chunk *c, struct tap *t, struct iovec *v)
{
	uint64_t left = t->stream->end - t->sent;

	c->tap = t;
	c->n = left < OUTPUT_MAX ? (size_t)left : OUTPUT_MAX;
	memset(c->head, 0, sizeof(c->head));
	put_le(c->head, c->n + 1 + 8, 4);
	c->head[4] = FRAME_OUTPUT;
	put_le(c->head + 8, t->chan->number, 4);
	c->head[FRAME_HEAD] = t->stream->number;
	put_le(c->head + FRAME_HEAD + 1, t->sent, 8);
	v[0] = (struct iovec){ c->head, sizeof(c->head) };
	return 1 + ring_iov(&t->stream->ring, t->sent, c->n, v + 1);
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
	n = ring_iov(&c->tap->stream->ring, c->tap->sent, c->n, v);
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
		c[i].tap->sent += c[i].n;
		tap_ready(c[i].tap); /* to the end of the row */
	}
}

/* Says that a stream ended, and lets its channel finish. */
static void send_eof(struct tap *t)
{
	uint8_t payload[1 + 8];

	if (!t->stream->eof || t->eof_sent)
		return;
	t->eof_sent = true;
	payload[0] = t->stream->number;
	put_le(payload + 1, t->stream->end, 8);
	frame_put(&t->chan->agent->out, FRAME_OUTPUT_EOF, 0, t->chan->number,
		  payload, sizeof(payload));
	chan_finish(t->chan);
}

/*
 * The frames of one batch; ends of streams are queued on the way. A channel
 * has its greeting in front of its output. (It is forgotten when the last of
 * its streams ends: then no other node of it is in the list we walk.)
 */
static int collect(struct agent *a, struct chunk *c, struct iovec *v,
		   int *n_iov)
{
	struct list *pos, *tmp;
	int n = 0;

	*n_iov = 0;
	list_each (pos, tmp, &a->ready) {
		struct tap *t = container_of(pos, struct tap, ready);

		if (!t->chan->greeted)
			continue;
		if (t->sent == t->stream->end) {
			list_del(&t->ready);
			send_eof(t);
			continue;
		}
		*n_iov += chunk_make(&c[n++], t, v + *n_iov);
		if (n == BATCH)
			break;
	}
	return n;
}

int taps_send(struct agent *a)
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
