/* A small client of the agent, for its tests: one command at a time, or not. */
#pragma once

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "wire/frame.h"
#include "wire/pack.h"

enum {
	REPLY_MS =
		30000, /* an answer comes at last, however busy the host is */
	SILENCE_MS = 200, /* how long we look whether nothing more comes */
};

struct client {
	int fd;
	struct buf in;
	struct frame f; /* the current one */
	bool have;      /* it is still in the buffer */
};

struct result {
	bool started, ended;
	int failed; /* errno */
	char message[256];
	struct exit_info exit;
	struct buf out[2];
	uint64_t end[2]; /* offsets seen */
	bool eof[2], broken, quiet;
	uint64_t input_acked;
	uint64_t sum;         /* of stream 1, when quiet */
	const char *line;     /* what stream 1 repeats, when not NULL */
	struct started about; /* it, or its process */
	unsigned gaps;
};

static void client_send(struct client *c, struct buf *b)
{
	if (write_full(c->fd, buf_data(b), buf_len(b)) < 0)
		printf("# the agent is gone\n");
	buf_done(b);
}

static int client_open(struct client *c, const char *path)
{
	struct hello h = { WIRE_VERSION, WIRE_VERSION, 0, { 7 } };
	struct buf b = { 0 };
	int i;

	*c = (struct client){ .fd = -1 };
	for (i = 0; i < 200 && c->fd < 0; i++) {
		c->fd = unix_connect(path, SOCK_STREAM);
		if (c->fd < 0)
			usleep(5000);
	}
	hello_put(&b, &h);
	client_send(c, &b);
	while (c->fd >= 0 && buf_len(&c->in) < HELLO_LEN)
		if (buf_read(&c->in, c->fd, HELLO_LEN) <= 0)
			return -1;
	return c->fd < 0 ? -1 : hello_get(&c->in, &h);
}

static void client_close(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	buf_done(&c->in);
}

/* The next frame: 1, or 0 when the agent hung up, or -1 when it is silent. */
static int client_next(struct client *c, int timeout_ms)
{
	if (c->have)
		buf_eat(&c->in, FRAME_HEAD + c->f.len);
	c->have = false;
	for (;;) {
		struct pollfd p = { .fd = c->fd, .events = POLLIN };
		int r = frame_get(&c->in, &c->f);

		if (r != 0) {
			c->have = r == 1;
			return r == 1 ? 1 : -1;
		}
		if (poll(&p, 1, timeout_ms) <= 0)
			return -1;
		if (buf_read(&c->in, c->fd, 512 * 1024) <= 0)
			return 0;
	}
}

static void client_ack(struct client *c, uint32_t channel, uint8_t stream,
		       uint64_t offset)
{
	struct buf p = { 0 }, b = { 0 };

	pack_u8(&p, stream);
	pack_u64(&p, offset);
	frame_put(&b, FRAME_ACK, 0, channel, buf_data(&p), buf_len(&p));
	buf_done(&p);
	client_send(c, &b);
}

static void client_frame(struct client *c, enum frame_type type,
			 uint32_t channel, const void *p, size_t n)
{
	struct buf b = { 0 };

	frame_put(&b, type, 0, channel, p, n);
	client_send(c, &b);
}

static void client_signal(struct client *c, uint32_t channel, uint8_t sig)
{
	client_frame(c, FRAME_SIGNAL, channel, &sig, 1);
}

static void client_input(struct client *c, uint32_t channel, uint64_t offset,
			 const void *p, size_t n)
{
	struct buf b = { 0 };

	frame_put_data(&b, FRAME_INPUT, channel, 0, offset, p, n);
	client_send(c, &b);
}

static void client_spawn(struct client *c, uint32_t channel, struct spawn *s)
{
	struct buf b = { 0 };

	for (s->argc = 0; s->argv[s->argc];)
		s->argc++;
	for (s->envc = 0; s->env && s->env[s->envc];)
		s->envc++;
	if (spawn_put(&b, channel, s) < 0)
		printf("# spawn_put failed\n");
	client_send(c, &b);
}

static void on_output(struct client *c, struct result *r)
{
	struct unpack u = unpack_init(c->f.payload, c->f.len);
	uint8_t stream = unpack_u8(&u);
	uint64_t at = unpack_u64(&u);
	size_t n, i;
	const uint8_t *p = unpack_rest(&u, &n);

	if (stream < 1 || stream > 2 || at != r->end[stream - 1]) {
		r->broken = true;
		return;
	}
	r->end[stream - 1] += n;
	if (r->line && stream == 1) {
		size_t len = strlen(r->line);

		for (i = 0; i < n; i++)
			r->broken |= p[i] != (uint8_t)r->line[(at + i) % len];
		return;
	}
	if (r->quiet)
		for (i = 0; i < n; i++)
			r->sum = r->sum * 31 + p[i];
	else
		buf_add(&r->out[stream - 1], p, n);
}

/* Notes the current frame in `r`; acknowledges output when `ack`. */
static void client_note(struct client *c, struct result *r, bool ack)
{
	struct unpack u = unpack_init(c->f.payload, c->f.len);
	uint8_t stream;

	switch (c->f.type) {
	case FRAME_STARTED:
	case FRAME_ATTACHED:
		r->broken |= r->started;
		r->started = true;
		r->broken |= started_get(&c->f, &r->about) < 0;
		if (c->f.type == FRAME_STARTED)
			break;
		r->input_acked = r->about.in;
		for (stream = 0; stream < 2; stream++)
			if (r->end[stream] == OFFSET_NOW)
				r->end[stream] = 0; /* or a gap follows */
		break;
	case FRAME_GAP:
		stream = unpack_u8(&u);
		if (stream < 1 || stream > 2 || !r->started || r->eof[0])
			r->broken = true;
		else
			r->end[stream - 1] = unpack_u64(&u);
		r->broken |= !unpack_ok(&u);
		r->gaps++;
		break;
	case FRAME_FAILED:
		r->failed = (int)unpack_u32(&u);
		snprintf(r->message, sizeof(r->message), "%s", unpack_str(&u));
		r->ended = true;
		break;
	case FRAME_OUTPUT:
		r->broken |= !r->started;
		on_output(c, r);
		stream = c->f.payload[0];
		if (ack)
			client_ack(c, c->f.channel, stream, r->end[stream - 1]);
		break;
	case FRAME_OUTPUT_EOF:
		stream = unpack_u8(&u);
		if (stream < 1 || stream > 2 ||
		    unpack_u64(&u) != r->end[stream - 1])
			r->broken = true;
		else
			r->eof[stream - 1] = true;
		break;
	case FRAME_INPUT_ACK:
		r->input_acked = unpack_u64(&u);
		break;
	case FRAME_EXIT:
		r->ended = true;
		r->broken |= exit_get(&c->f, &r->exit) < 0;
		break;
	default:
		r->broken = true;
	}
}

static void client_wait(struct client *c, struct result *r)
{
	while (!r->ended) {
		if (client_next(c, REPLY_MS) != 1) {
			r->broken = r->ended = true;
			printf("# no answer\n");
			return;
		}
		client_note(c, r, true);
	}
}

/*
 * Whether output without acknowledgements arrives up to this offset and stops
 * there.
 */
static bool client_stops_at(struct client *c, struct result *r, uint64_t end)
{
	while ((!r->started || r->end[0] < end) &&
	       client_next(c, REPLY_MS) == 1)
		client_note(c, r, false);
	while (client_next(c, SILENCE_MS) == 1)
		client_note(c, r, false);
	return r->end[0] == end && !r->ended && !r->broken;
}

static void result_done(struct result *r)
{
	buf_done(&r->out[0]);
	buf_done(&r->out[1]);
	*r = (struct result){ 0 };
}

/* Runs a command line of sh to its end. */
static struct result client_sh(struct client *c, uint32_t flags,
			       const char *user, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
static struct result client_sh(struct client *c, uint32_t flags,
			       const char *user, const char *fmt, ...)
{
	char line[2048];
	const char *argv[] = { "sh", "-c", line, NULL };
	struct spawn s = { .flags = flags, .user = user, .argv = argv };
	struct result r = { 0 };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	client_spawn(c, 1, &s);
	client_wait(c, &r);
	buf_str(&r.out[0]);
	buf_str(&r.out[1]);
	return r;
}
