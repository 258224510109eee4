#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/guards.h"
#include "wire/pack.h"

/*
 * As a frame's length this is far over the limit, so that a hello can never be
 * taken for a frame nor a frame for a hello.
 */
static const uint8_t magic[8] = { 0xff, 0xff, 0xff, 0xff, 'w', 'i', 'r', 'e' };

void hello_put(struct buf *b, const struct hello *h)
{
	buf_add(b, magic, sizeof(magic));
	pack_u16(b, h->version_min);
	pack_u16(b, h->version_max);
	pack_u32(b, h->features);
	buf_add(b, h->nonce, sizeof(h->nonce));
}

int hello_get(struct buf *b, struct hello *h)
{
	size_t n = buf_len(b);
	struct unpack u;

	if (memcmp(buf_data(b), magic, n < sizeof(magic) ? n : sizeof(magic)) !=
	    0)
		return -EBADMSG;
	if (n < HELLO_LEN)
		return 0;
	u = unpack_init(buf_data(b) + sizeof(magic), HELLO_LEN - sizeof(magic));
	h->version_min = unpack_u16(&u);
	h->version_max = unpack_u16(&u);
	h->features = unpack_u32(&u);
	memcpy(h->nonce, u.p, sizeof(h->nonce));
	buf_eat(b, HELLO_LEN);
	if (h->version_min > WIRE_VERSION || h->version_max < WIRE_VERSION)
		return -EPROTO;
	return 1;
}

void hello_find(struct buf *b)
{
	size_t n = buf_len(b), at = 0, same;

	/* A start of it at the end may be one. */
	for (; at < n; at++) {
		same = n - at < sizeof(magic) ? n - at : sizeof(magic);
		if (memcmp(buf_data(b) + at, magic, same) == 0)
			break;
	}
	buf_eat(b, at);
}

static void put_head(struct buf *b, enum frame_type type, uint8_t flags,
		     uint32_t channel, size_t n)
{
	pack_u32(b, (uint32_t)n);
	pack_u8(b, (uint8_t)type);
	pack_u8(b, flags);
	pack_u16(b, 0);
	pack_u32(b, channel);
}

void frame_put(struct buf *b, enum frame_type type, uint8_t flags,
	       uint32_t channel, const void *payload, size_t n)
{
	put_head(b, type, flags, channel, n);
	buf_add(b, payload, n);
}

/* NOLINTNEXTLINE(readability-function-size): the fields of a frame */
void frame_put_data(struct buf *b, enum frame_type type, uint32_t channel,
		    uint8_t stream, uint64_t offset, const void *p, size_t n)
{
	bool output = type == FRAME_OUTPUT;

	put_head(b, type, 0, channel, n + 8 + (output ? 1 : 0));
	if (output)
		pack_u8(b, stream);
	pack_u64(b, offset);
	buf_add(b, p, n);
}

int frame_get(const struct buf *b, struct frame *f)
{
	struct unpack u = unpack_init(buf_data(b), buf_len(b));
	uint16_t zero;

	if (buf_len(b) < 4)
		return 0;
	f->len = unpack_u32(&u);
	if (GUARD(FRAMES) && f->len > FRAME_PAYLOAD_MAX)
		return -EBADMSG;
	if (buf_len(b) < FRAME_HEAD)
		return 0;
	f->type = unpack_u8(&u);
	f->flags = unpack_u8(&u);
	zero = unpack_u16(&u);
	f->channel = unpack_u32(&u);
	f->payload = u.p;
	if (zero != 0 || (f->flags & ~FRAME_MORE) != 0)
		return -EBADMSG;
	return u.left >= f->len ? 1 : 0;
}

static void put_words(struct buf *b, const char **words, size_t n)
{
	size_t i;

	pack_u32(b, (uint32_t)n);
	for (i = 0; i < n; i++)
		pack_str(b, words[i]);
}

int spawn_put(struct buf *b, uint32_t channel, const struct spawn *s)
{
	struct buf whole = { 0 };
	int r = 0;

	if (s->argc > ARGS_MAX || s->envc > ARGS_MAX)
		return -E2BIG;
	pack_u32(&whole, s->flags);
	pack_u16(&whole, s->rows);
	pack_u16(&whole, s->cols);
	pack_str(&whole, s->user ? s->user : "");
	pack_str(&whole, s->cwd ? s->cwd : "");
	pack_str(&whole, s->tag ? s->tag : "");
	put_words(&whole, s->argv, s->argc);
	put_words(&whole, s->env, s->envc);
	if (buf_len(&whole) > SPAWN_MAX)
		r = -E2BIG;
	while (r == 0 && buf_len(&whole) > 0) {
		size_t n = buf_len(&whole);
		uint8_t more = 0;

		if (n > FRAME_PAYLOAD_MAX) {
			n = FRAME_PAYLOAD_MAX;
			more = FRAME_MORE;
		}
		frame_put(b, FRAME_SPAWN, more, channel, buf_data(&whole), n);
		buf_eat(&whole, n);
	}
	buf_done(&whole);
	return r;
}

static const char **get_words(struct unpack *u, size_t *n)
{
	uint32_t count = unpack_u32(u), i;
	const char **words;

	*n = 0;
	if (count > ARGS_MAX) {
		u->bad = true;
		return NULL;
	}
	words = xcalloc((size_t)count + 1, sizeof(*words));
	for (i = 0; i < count; i++)
		words[i] = unpack_str(u);
	*n = count;
	return words;
}

int spawn_get(const void *p, size_t n, struct spawn *s)
{
	struct unpack u = unpack_init(p, n);

	*s = (struct spawn){ 0 };
	s->flags = unpack_u32(&u);
	s->rows = unpack_u16(&u);
	s->cols = unpack_u16(&u);
	s->user = unpack_str(&u);
	s->cwd = unpack_str(&u);
	s->tag = unpack_str(&u);
	s->argv = get_words(&u, &s->argc);
	s->env = get_words(&u, &s->envc);
	if (!unpack_ok(&u) || s->argc == 0 || (s->flags & ~SPAWN_FLAGS_ALL) ||
	    strlen(s->tag) > TAG_MAX) {
		spawn_done(s);
		return -EBADMSG;
	}
	return 0;
}

void spawn_done(struct spawn *s)
{
	free(s->argv);
	free(s->env);
	s->argv = s->env = NULL;
	s->argc = s->envc = 0;
}

void attach_put(struct buf *b, uint32_t channel, const struct attach *at)
{
	const char *tag = at->tag ? at->tag : "";
	struct buf p = { 0 };

	pack_u32(&p, at->number);
	pack_str(&p, tag);
	pack_u64(&p, at->out[0]);
	pack_u64(&p, at->out[1]);
	frame_put(b, FRAME_ATTACH, 0, channel, buf_data(&p), buf_len(&p));
	buf_done(&p);
}

static bool is_start(uint64_t offset)
{
	return offset <= OFFSET_MAX || offset == OFFSET_NOW ||
	       offset == OFFSET_NONE;
}

int attach_get(const struct frame *f, struct attach *at)
{
	struct unpack u = unpack_init(f->payload, f->len);

	at->number = unpack_u32(&u);
	at->tag = unpack_str(&u);
	at->out[0] = unpack_u64(&u);
	at->out[1] = unpack_u64(&u);
	if (!unpack_ok(&u) || strlen(at->tag) > TAG_MAX ||
	    (at->number == 0) == (*at->tag == '\0') || !is_start(at->out[0]) ||
	    !is_start(at->out[1]) ||
	    (at->out[0] == OFFSET_NONE) != (at->out[1] == OFFSET_NONE))
		return -EBADMSG;
	return 0;
}

void started_put(struct buf *b, enum frame_type type, uint32_t channel,
		 const struct started *s)
{
	bool attached = type == FRAME_ATTACHED;

	put_head(b, type, 0, channel, 2 * 4 + (attached ? 8 + 1 : 0));
	pack_u32(b, s->pid);
	pack_u32(b, s->number);
	if (attached) {
		pack_u64(b, s->in);
		pack_u8(b, s->pty);
	}
}

int started_get(const struct frame *f, struct started *s)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint8_t pty = 0;

	*s = (struct started){ 0 };
	s->pid = unpack_u32(&u);
	s->number = unpack_u32(&u);
	if (f->type == FRAME_ATTACHED) {
		s->in = unpack_u64(&u);
		pty = unpack_u8(&u);
	}
	s->pty = pty == 1;
	if (!unpack_ok(&u) || pty > 1 || s->number == 0 || s->in > OFFSET_MAX)
		return -EBADMSG;
	return 0;
}

void exit_put(struct buf *b, uint32_t channel, const struct exit_info *x)
{
	put_head(b, FRAME_EXIT, 0, channel, 1 + 4 + 3 * 8);
	pack_u8(b, x->signaled);
	pack_u32(b, x->code);
	pack_u64(b, x->user_us);
	pack_u64(b, x->sys_us);
	pack_u64(b, x->max_rss_bytes);
}

int exit_get(const struct frame *f, struct exit_info *x)
{
	struct unpack u = unpack_init(f->payload, f->len);

	x->signaled = unpack_u8(&u);
	x->code = unpack_u32(&u);
	x->user_us = unpack_u64(&u);
	x->sys_us = unpack_u64(&u);
	x->max_rss_bytes = unpack_u64(&u);
	return unpack_ok(&u) && x->signaled <= 1 ? 0 : -EBADMSG;
}
