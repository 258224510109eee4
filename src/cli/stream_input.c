/*
 * Our stdin on its way in. It is read only as far as the process may take it,
 * and what was not acknowledged is kept: after a lost connection the agent
 * says how much the process was given, and the rest is sent again.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/stream_state.h"

enum { INPUT_PIECE = 32 * 1024, CTRL_P = 0x10, CTRL_Q = 0x11 };

/* How much may be read now. A Ctrl-P that was kept back may come on top. */
static size_t room(const struct stream *s)
{
	uint64_t end = s->input_acked + WIRE_WINDOW - (s->o.keys ? 1 : 0);
	uint64_t n = end > s->input_sent ? end - s->input_sent : 0;

	return n < INPUT_PIECE ? n : INPUT_PIECE;
}

bool input_wanted(const struct stream *s)
{
	return s->phase == LIVE && s->input_open && !s->input_paused &&
	       buf_len(&s->out) == 0 && room(s) > 0;
}

static void put_input(struct stream *s, const char *p, size_t n)
{
	if (n == 0)
		return;
	frame_put_data(&s->out, FRAME_INPUT, CHANNEL, 0, s->input_sent, p, n);
	s->input_sent += n;
}

static void put_end(struct stream *s)
{
	frame_put(&s->out, FRAME_INPUT_EOF, 0, CHANNEL, NULL, 0);
	s->input_open = false;
	s->input_ended = true;
}

static bool in_background(void)
{
	pid_t front = tcgetpgrp(STDIN_FILENO);

	return front > 0 && front != getpgrp();
}

/*
 * Takes the keys out of `n` typed bytes; what is left, in `out`, may be one
 * byte longer, because a Ctrl-P alone was kept back. -1: they were pressed.
 */
static ssize_t take_keys(struct stream *s, const char *p, size_t n, char *out)
{
	size_t i, to = 0;

	for (i = 0; i < n; i++) {
		if (s->ctrl_p && p[i] == CTRL_Q)
			return -1;
		if (s->ctrl_p)
			out[to++] = CTRL_P;
		s->ctrl_p = p[i] == CTRL_P;
		if (!s->ctrl_p)
			out[to++] = p[i];
	}
	return (ssize_t)to;
}

void input_read(struct stream *s)
{
	static char piece[INPUT_PIECE], typed[INPUT_PIECE + 1];
	const char *p = piece;
	ssize_t n = read(STDIN_FILENO, piece, room(s));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0 && errno == EIO && in_background()) {
		/* In the background of a terminal; SIGCONT tells when not. */
		s->input_paused = true;
		return;
	}
	if (n <= 0) {
		put_end(s);
		return;
	}
	if (s->o.keys && s->o.tty) {
		n = take_keys(s, piece, (size_t)n, typed);
		p = typed;
	}
	if (n < 0) {
		stream_leave(s, 0);
		return;
	}
	if (stream_can_return(s))
		buf_add(&s->kept, p, (size_t)n);
	put_input(s, p, (size_t)n);
}

int input_acked(struct stream *s, uint64_t offset)
{
	uint64_t n = offset - s->input_acked;

	if (offset < s->input_acked || offset > s->input_sent)
		return -EBADMSG;
	buf_eat(&s->kept, n < buf_len(&s->kept) ? n : buf_len(&s->kept));
	s->input_acked = offset;
	return 0;
}

/*
 * More than we ever sent: somebody else has typed too, and nobody can say
 * what of ours is in it. Then nothing is sent twice.
 */
int input_resume(struct stream *s, uint64_t offset)
{
	struct buf again = { 0 };
	size_t n = buf_len(&s->kept);

	if (offset > OFFSET_MAX || (n > 0 && offset < s->input_acked))
		return -EBADMSG;
	if (offset - s->input_acked < n)
		buf_eat(&s->kept, offset - s->input_acked);
	else
		buf_clear(&s->kept);
	s->input_acked = s->input_sent = offset;
	buf_add(&again, buf_data(&s->kept), buf_len(&s->kept));
	while (buf_len(&again) > 0) {
		n = buf_len(&again) < INPUT_PIECE ? buf_len(&again)
						  : INPUT_PIECE;
		put_input(s, buf_data(&again), n);
		buf_eat(&again, n);
	}
	buf_done(&again);
	if (s->input_ended)
		put_end(s);
	else
		s->input_open = s->o.input;
	return 0;
}
