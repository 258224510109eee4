/*
 * What the agent says. It is hostile ground: offsets, sizes and types are
 * checked, and what breaks the rules ends the connection.
 */
#include <errno.h>
#include <string.h>

#include "cli/stream_state.h"
#include "cli/term.h"
#include "wire/pack.h"

enum { ROUNDS_MAX = 8 };

/* `number` is 1 or 2, of a frame whose payload was good so far. */
static struct sink *sink_of(struct stream *s, const struct unpack *u,
			    uint8_t number)
{
	if (u->bad || number < 1 || number > 2)
		return NULL;
	return &s->sink[number - 1];
}

static int got_output(struct stream *s, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint8_t number = unpack_u8(&u);
	uint64_t offset = unpack_u64(&u);
	size_t n;
	const void *p = unpack_rest(&u, &n);
	struct sink *k = sink_of(s, &u, number);
	int r;

	if (!k || s->phase != LIVE)
		return -EBADMSG;
	if (f->type == FRAME_OUTPUT_EOF) {
		k->eof = true;
		return offset == k->received && n == 0 ? 0 : -EBADMSG;
	}
	r = sink_take(k, offset, p, n);
	if (r < 0)
		return stream_lost_reader(k, r);
	stream_put_ack(s, number);
	return 0;
}

/* Only what happened before we came may be missing. */
static int got_gap(struct stream *s, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint8_t number = unpack_u8(&u);
	uint64_t offset = unpack_u64(&u), lost;
	struct sink *k = sink_of(s, &u, number);

	if (!k || !unpack_ok(&u) || s->phase != LIVE || !s->attached ||
	    k->eof || offset <= k->received || offset > OFFSET_MAX)
		return -EBADMSG;
	lost = offset - k->received;
	sink_skip(k, lost);
	if (s->returned)
		complain("%llu bytes of %s were lost", (unsigned long long)lost,
			 number == 1 ? "output" : "error output");
	else if (s->o.at.out[number - 1] != OFFSET_NOW)
		complain("the first %llu bytes of %s are no longer kept",
			 (unsigned long long)lost,
			 number == 1 ? "output" : "error output");
	return 0;
}

static int got_started(struct stream *s, const struct frame *f)
{
	struct started st;

	if (s->phase != (f->type == FRAME_STARTED ? SPAWNING : ATTACHING) ||
	    started_get(f, &st) < 0)
		return -EBADMSG;
	s->phase = LIVE;
	s->number = st.number;
	s->attached = f->type == FRAME_ATTACHED;
	if (s->attached)
		s->o.tty = st.pty;
	if (s->o.detach) {
		printf("%u\n", (unsigned)st.number);
		s->code = 0;
		return 0;
	}
	if (s->o.tty && s->o.input) {
		term_raw(false);
		/* A program draws its screen anew when the size changes. */
		if (!s->o.spawn && !s->started)
			stream_put_resize(s, 1);
		stream_put_resize(s, 0); /* it may have changed meanwhile */
	}
	back_done(s);
	s->returned = s->started;
	s->started = true;
	return input_resume(s, st.in);
}

/* Whether the answer to our coming back is another request. */
static bool ask_otherwise(struct stream *s, uint32_t code)
{
	if (s->started || !s->o.spawn || ++s->rounds > ROUNDS_MAX)
		return false;
	/* It had not been started when the connection broke ... */
	if (s->phase == ATTACHING && code == ESRCH)
		s->phase = SPAWNING;
	/* ... or it had, by a request that was still under way. */
	else if (s->phase == SPAWNING && code == EEXIST && s->rounds > 1)
		s->phase = ATTACHING;
	else
		return false;
	stream_put_request(s, &s->out);
	return true;
}

static int got_failed(struct stream *s, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint32_t code = unpack_u32(&u);
	const char *message = unpack_str(&u);

	if (!unpack_ok(&u))
		return -EBADMSG;
	if (ask_otherwise(s, code))
		return 0;
	term_restore();
	if (s->phase == ATTACHING && s->started && code == ESRCH)
		complain("the process is gone; how it ended is not known");
	else
		complain("%s", *message ? message : strerror((int)code));
	if (s->phase != SPAWNING)
		s->code = s->o.cli->fail_code;
	else
		s->code = code == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
	return 0;
}

static int got_exit(struct stream *s, const struct frame *f)
{
	struct exit_info x;

	if (exit_get(f, &x) < 0 || s->phase != LIVE)
		return -EBADMSG;
	if (s->o.look)
		s->code = 0;
	else
		s->code = (int)((x.signaled ? EXIT_SIGNAL + x.code : x.code) &
				0xff);
	s->input_open = false;
	return 0;
}

static int got_input_ack(struct stream *s, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint64_t offset = unpack_u64(&u);

	return unpack_ok(&u) ? input_acked(s, offset) : -EBADMSG;
}

static int got_frame(struct stream *s, const struct frame *f)
{
	if (f->channel != CHANNEL)
		return -EBADMSG;
	switch (f->type) {
	case FRAME_STARTED:
	case FRAME_ATTACHED:
		return got_started(s, f);
	case FRAME_FAILED:
		return got_failed(s, f);
	case FRAME_OUTPUT:
	case FRAME_OUTPUT_EOF:
		return got_output(s, f);
	case FRAME_GAP:
		return got_gap(s, f);
	case FRAME_INPUT_ACK:
		return got_input_ack(s, f);
	case FRAME_EXIT:
		return got_exit(s, f);
	default:
		return -EBADMSG;
	}
}

static bool has_enough(const struct stream *s)
{
	return s->o.bounded && s->phase == LIVE &&
	       s->sink[0].received >= s->o.until[0] &&
	       s->sink[1].received >= s->o.until[1];
}

int stream_parse(struct stream *s)
{
	struct hello h;
	struct frame f;
	int r;

	if (!s->greeted) {
		r = hello_get(&s->in, &h);
		if (r <= 0)
			return r;
		s->greeted = true;
	}
	while (s->code == UNDECIDED) {
		r = frame_get(&s->in, &f);
		if (r <= 0)
			return r;
		r = got_frame(s, &f);
		if (r < 0)
			return r;
		s->in.off += FRAME_HEAD + f.len;
		if (has_enough(s))
			stream_leave(s, 0);
	}
	return 0;
}
