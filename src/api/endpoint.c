#include "api/endpoint.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

enum {
	READ_MAX = 256 * 1024,
	SCRATCH = FRAME_HEAD + FRAME_PAYLOAD_MAX + READ_MAX,
};

/*
 * One for all endpoints: it is only used during one call of pump(). `run` is
 * the stretch of it that is to be written to one receiver.
 */
static char scratch[SCRATCH];
static struct {
	struct endpoint *to;
	char *p;
	size_t n;
} run;

static void on_ready(struct http_stream *s, uint32_t events);
static void on_turn(struct deferred *d);

void endpoint_init(struct endpoint *ep)
{
	*ep = (struct endpoint){ 0 };
	http_stream_init(&ep->stream);
	list_init(&ep->turn.node);
}

static void queue_turn(struct endpoint *ep)
{
	if (ep->queued)
		return;
	ep->queued = true;
	loop_defer(ep->loop, &ep->turn, on_turn);
}

int endpoint_take(struct endpoint *ep, struct http_stream *s,
		  const struct endpoint_ops *ops)
{
	int r;

	ep->ops = ops;
	ep->loop = s->loop;
	http_stream_move(&ep->stream, s);
	r = http_stream_watch(&ep->stream, EPOLLIN, on_ready);
	if (r < 0) {
		http_stream_close(&ep->stream);
		return r;
	}
	/* Bytes may have come with what was handed over. */
	ep->look = buf_len(&ep->in) > 0;
	queue_turn(ep);
	return 0;
}

int endpoint_open(struct endpoint *ep, struct loop *l, int fd,
		  const struct endpoint_ops *ops)
{
	struct http_stream s;

	http_stream_open(&s, l, fd, NULL);
	return endpoint_take(ep, &s, ops);
}

void endpoint_cut(struct endpoint *ep)
{
	if (run.to == ep)
		run.to = NULL;
	if (ep->queued)
		list_del(&ep->turn.node);
	ep->queued = false;
	http_stream_close(&ep->stream);
	buf_done(&ep->in);
	ep->hello = ep->stopped = ep->look = false;
}

void endpoint_close(struct endpoint *ep)
{
	endpoint_cut(ep);
	buf_done(&ep->out);
	ep->last = 0;
}

static bool is_silent(const struct endpoint *ep)
{
	return ep->waits && !ep->hello;
}

static void lost(struct endpoint *ep, int why)
{
	const struct endpoint_ops *ops = ep->ops;

	endpoint_close(ep);
	ops->lost(ep, why);
}

/* What to listen for follows from the state. */
static void watch(struct endpoint *ep)
{
	uint32_t ev = ep->stopped ? 0 : EPOLLIN;

	if (buf_len(&ep->out) > 0 && !is_silent(ep))
		ev |= EPOLLOUT;
	if (endpoint_is_open(ep) &&
	    http_stream_watch(&ep->stream, ev, on_ready) < 0)
		lost(ep, -ENOMEM);
}

/* Writes what is queued; the endpoint may be lost afterwards. */
static void flush(struct endpoint *ep)
{
	bool had = buf_len(&ep->out) > 0;

	while (buf_len(&ep->out) > 0 && !is_silent(ep)) {
		ssize_t n = http_stream_drain(&ep->stream, &ep->out);

		if (n == -EAGAIN && http_stream_is_tls(&ep->stream))
			ep->last = 0; /* must not change any more */
		if (n == -EAGAIN)
			break;
		if (n < 0) {
			lost(ep, (int)n);
			return;
		}
		ep->last = 0;
	}
	watch(ep);
	if (had && buf_len(&ep->out) == 0 && endpoint_is_open(ep))
		ep->ops->drained(ep);
}

/*
 * A receiver that fails is not told so here: we may be deep in the handling
 * of a frame. It hears of it from its own socket.
 */
static void end_run(void)
{
	struct endpoint *to = run.to;
	ssize_t n;

	run.to = NULL;
	if (!to || run.n == 0)
		return;
	n = http_stream_write(&to->stream, run.p, run.n);
	if (n < 0)
		n = 0;
	if ((size_t)n < run.n) {
		buf_add(&to->out, run.p + n, run.n - (size_t)n);
		to->last = 0;
		queue_turn(to);
	}
}

struct buf *endpoint_out(struct endpoint *ep)
{
	if (run.to == ep)
		end_run();
	ep->last = 0;
	queue_turn(ep);
	return &ep->out;
}

/* OUTPUT: u8 stream, u64 offset, bytes. Appends to the frame before it. */
static bool join(struct endpoint *to, const struct frame *f, uint32_t channel)
{
	enum { DATA = 9 };
	struct buf tail;
	struct frame prev;
	uint8_t *head;
	uint32_t len;
	size_t at;

	if (f->type != FRAME_OUTPUT || to->last == 0 || f->len < DATA)
		return false;
	at = to->last - 1;
	tail = (struct buf){ .p = to->out.p, .off = at, .len = to->out.len };
	if (frame_get(&tail, &prev) != 1 || prev.type != FRAME_OUTPUT ||
	    prev.channel != channel || prev.payload[0] != f->payload[0] ||
	    prev.len + f->len - DATA > FRAME_PAYLOAD_MAX)
		return false;
	len = prev.len + f->len - DATA;
	buf_add(&to->out, f->payload + DATA, f->len - DATA);
	/* The buffer may have moved, and shifted its content to the front. */
	head = (uint8_t *)to->out.p + to->out.len - FRAME_HEAD - len;
	to->last = to->out.len - FRAME_HEAD - len + 1;
	for (at = 0; at < 4; at++)
		head[at] = (uint8_t)(len >> (8 * at));
	return true;
}

void endpoint_forward(struct endpoint *to, uint8_t *raw, const struct frame *f,
		      uint32_t channel)
{
	size_t n = FRAME_HEAD + f->len;
	int i;

	for (i = 0; i < 4; i++)
		raw[8 + i] = (uint8_t)(channel >> (8 * i));
	if (run.to == to && run.p + run.n == (char *)raw) {
		run.n += n;
		return;
	}
	/* What it leaves, if it was for the same one, comes first. */
	end_run();
	if (buf_len(&to->out) > 0) {
		if (join(to, f, channel))
			return;
		buf_add(&to->out, raw, n);
		to->last = to->out.len - n + 1;
		queue_turn(to);
		return;
	}
	run.to = to;
	run.p = (char *)raw;
	run.n = n;
}

/* Frames from the start of `view`; what is left is an incomplete one. */
static int feed(struct endpoint *ep, struct buf *view)
{
	struct hello hello;
	struct frame f;
	int r = 0;

	if (!ep->hello) {
		if (ep->waits)
			hello_find(view);
		r = hello_get(view, &hello);
		if (r != 1)
			return r;
		ep->hello = true;
		if (ep->waits)
			queue_turn(ep);
	}
	while (!ep->stopped && (r = frame_get(view, &f)) == 1) {
		r = ep->ops->frame(ep, &f, (uint8_t *)buf_data(view));
		if (!endpoint_is_open(ep))
			return 0;
		view->off += FRAME_HEAD + f.len;
		if (r < 0)
			return r;
		if (r == FRAME_STOP)
			ep->stopped = true;
	}
	return r < 0 ? r : 0;
}

/* One read and all frames that it completes. */
static void pump(struct endpoint *ep)
{
	size_t have = buf_len(&ep->in);
	struct buf view = { .p = scratch };
	ssize_t n = 1;
	int r;

	memcpy(scratch, buf_data(&ep->in), have);
	if (have < SCRATCH) {
		n = http_stream_read(&ep->stream, scratch + have,
				     SCRATCH - have);
		if (n < 0 && n != -EAGAIN) {
			lost(ep, (int)n);
			return;
		}
	}
	view.len = have + (n > 0 && have < SCRATCH ? (size_t)n : 0);
	r = feed(ep, &view);
	end_run();
	if (!endpoint_is_open(ep))
		return;
	if (r < 0 || (n == 0 && !ep->stopped)) {
		lost(ep, r);
		return;
	}
	buf_clear(&ep->in);
	buf_add(&ep->in, view.p + view.off, view.len - view.off);
	watch(ep);
}

static void on_ready(struct http_stream *s, uint32_t events)
{
	struct endpoint *ep = container_of(s, struct endpoint, stream);

	if (events & EPOLLOUT)
		flush(ep);
	if (!endpoint_is_open(ep))
		return;
	if (!ep->stopped) {
		if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			pump(ep);
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		/* Cannot be masked: heard of again after the resume. */
		http_stream_unwatch(s);
	}
}

/*
 * Input first, and then what it led to elsewhere, before our own output: a
 * request that came with an upgrade reaches the agent before its answer.
 */
static void on_turn(struct deferred *d)
{
	struct endpoint *ep = container_of(d, struct endpoint, turn);

	ep->queued = false;
	if (!endpoint_is_open(ep))
		return;
	if (ep->look) {
		ep->look = false;
		pump(ep);
		if (buf_len(&ep->out) > 0)
			queue_turn(ep);
	} else if (buf_len(&ep->out) > 0) {
		flush(ep);
	}
}

void endpoint_resume(struct endpoint *ep)
{
	if (!ep->stopped || !endpoint_is_open(ep))
		return;
	ep->stopped = false;
	ep->look = true;
	queue_turn(ep);
	watch(ep);
}
