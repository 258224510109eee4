/*
 * The wire codec as both sides use it: a hello, then frames; spawn requests
 * joined over FRAME_MORE, attaches, starts, exits, records of `ps`. What can be
 * read is written again and must read the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "wire/frame.h"
#include "wire/pack.h"
#include "wire/ps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void join(struct buf *in, struct buf *whole)
{
	struct frame f;

	while (frame_get(in, &f) == 1) {
		buf_add(whole, f.payload, f.len);
		buf_eat(in, FRAME_HEAD + f.len);
	}
}

static void same_words(const char **a, const char **b, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		require(strcmp(a[i], b[i]) == 0);
	require(a[n] == NULL && b[n] == NULL);
}

static void on_spawn(const struct buf *request)
{
	struct buf frames = { 0 }, again = { 0 };
	struct spawn s, t;

	if (spawn_get(buf_data(request), buf_len(request), &s) < 0)
		return;
	if (spawn_put(&frames, 3, &s) == 0) {
		join(&frames, &again);
		require(buf_len(&again) == buf_len(request));
		require(spawn_get(buf_data(&again), buf_len(&again), &t) == 0);
		require(s.argc == t.argc && s.envc == t.envc);
		require(strcmp(s.user, t.user) == 0);
		require(strcmp(s.cwd, t.cwd) == 0);
		require(strcmp(s.tag, t.tag) == 0 && strlen(s.tag) <= TAG_MAX);
		same_words(s.argv, t.argv, s.argc);
		same_words(s.env, t.env, s.envc);
		spawn_done(&t);
	}
	buf_done(&frames);
	buf_done(&again);
	spawn_done(&s);
}

/* The frame that was written from what was read. */
static void same_frame(struct buf *b, const struct frame *f)
{
	struct frame g;

	require(frame_get(b, &g) == 1 && g.type == f->type);
	require(g.channel == f->channel && g.len == f->len);
	require(memcmp(g.payload, f->payload, g.len) == 0);
	buf_done(b);
}

static void on_exit_frame(const struct frame *f)
{
	struct exit_info x;
	struct buf b = { 0 };

	if (exit_get(f, &x) < 0)
		return;
	exit_put(&b, f->channel, &x);
	same_frame(&b, f);
}

static void on_attach(const struct frame *f)
{
	struct attach at;
	struct buf b = { 0 };

	if (attach_get(f, &at) < 0)
		return;
	require((at.number == 0) != (*at.tag == '\0'));
	require(strlen(at.tag) <= TAG_MAX);
	attach_put(&b, f->channel, &at);
	same_frame(&b, f);
}

static void on_started(const struct frame *f)
{
	struct started s;
	struct buf b = { 0 };

	if (started_get(f, &s) < 0)
		return;
	require(s.number != 0);
	started_put(&b, f->type, f->channel, &s);
	same_frame(&b, f);
}

/* Output of stream 1 is taken for that of `ps`. */
static void on_records(const uint8_t *data, size_t n)
{
	struct buf in = { 0 }, again = { 0 };
	struct ps p;
	int r;

	buf_add(&in, data, n);
	while ((r = ps_get(&in, &p)) > 0) {
		size_t at = 0, words = 0;
		const char *word;

		while ((word = ps_arg(&p, &at)))
			words += strlen(word) + 1;
		require(words == p.args_len && at == p.args_len);
		require((size_t)r <= buf_len(&in));
		/* One more byte: the end of a list that was cut. */
		if (p.args_len <= PS_ARGS_MAX) {
			ps_put(&again, &p);
			require(buf_len(&again) == (size_t)r);
			require(memcmp(buf_data(&again), buf_data(&in),
				       (size_t)r) == 0);
			buf_clear(&again);
		}
		buf_eat(&in, (size_t)r);
	}
	buf_done(&in);
	buf_done(&again);
}

static void on_frame(const struct frame *f, struct buf *request)
{
	struct unpack u = unpack_init(f->payload, f->len);
	size_t n;

	switch (f->type) {
	case FRAME_SPAWN:
		if (f->len > SPAWN_MAX - buf_len(request))
			return;
		buf_add(request, f->payload, f->len);
		if (f->flags & FRAME_MORE)
			return;
		on_spawn(request);
		buf_clear(request);
		break;
	case FRAME_EXIT:
		on_exit_frame(f);
		break;
	case FRAME_ATTACH:
		on_attach(f);
		break;
	case FRAME_STARTED:
	case FRAME_ATTACHED:
		on_started(f);
		break;
	case FRAME_OUTPUT:
		if (f->len > 1 + 8)
			on_records(f->payload + 9, f->len - 9);
		break;
	case FRAME_FAILED:
		unpack_u32(&u);
		require(strlen(unpack_str(&u)) <= f->len);
		break;
	default:
		unpack_u8(&u);
		unpack_u64(&u);
		unpack_rest(&u, &n);
		require(n <= f->len);
	}
}

/* What a line has left of others never hides a hello, nor looks like one. */
static void after_others(const uint8_t *data, size_t size)
{
	struct buf in = { 0 };
	struct hello h;
	int r;

	buf_add(&in, data, size);
	hello_find(&in);
	r = hello_get(&in, &h);
	require(r == 1 || r == 0 || r == -EPROTO);
	if (r == 0)
		require(buf_len(&in) < HELLO_LEN);
	buf_done(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf in = { 0 }, request = { 0 };
	struct hello h;
	struct frame f;

	after_others(data, size);
	buf_add(&in, data, size);
	if (hello_get(&in, &h) == 1) {
		while (frame_get(&in, &f) == 1) {
			on_frame(&f, &request);
			buf_eat(&in, FRAME_HEAD + f.len);
		}
	}
	buf_done(&in);
	buf_done(&request);
	return 0;
}
