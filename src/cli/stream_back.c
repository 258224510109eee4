/*
 * The connection is lost: the daemon was killed, or is being upgraded. The
 * process in its sandbox is not, so we try to come back to it.
 *
 * A short break passes unnoticed. After a second we say so, and from then on
 * a signal (also that of Ctrl-C, which a terminal in raw mode does not send)
 * is for us; one that came before is handed on when we are back.
 */
#include <errno.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "cli/stream_state.h"
#include "cli/term.h"

enum {
	FIRST_MS = 20,
	TRY_EVERY_MS = 200,
	SAY_AFTER_MS = 1000,
	GIVE_UP_MS = 60 * 1000,
	ANSWER_MS = 2000,
};

void back_lost(struct stream *s)
{
	auto_close(&s->fd);
	s->fd = -1;
	s->deaf = s->greeted = s->attached = false;
	s->phase = ATTACHING;
	buf_clear(&s->out);
	s->in.off = s->in.len = 0;
	s->retry_ms = clock_boot_ms() + (s->lost_ms ? TRY_EVERY_MS : FIRST_MS);
	/* Connected and lost again without a word is the same loss. */
	if (!s->lost_ms)
		s->lost_ms = clock_boot_ms();
}

static void say_lost(struct stream *s)
{
	s->said = true;
	if (s->o.tty && s->o.input)
		term_raw(true);
	if (isatty(STDERR_FILENO))
		complain("the connection to the daemon was lost; trying to "
			 "come back for %d s (Ctrl-C leaves)",
			 GIVE_UP_MS / 1000);
}

int back_wait(const struct stream *s)
{
	uint64_t now = clock_boot_ms();

	return s->retry_ms > now ? (int)(s->retry_ms - now) : 0;
}

static int give_up(const char *why)
{
	term_restore();
	complain("the connection to the sandbox was lost: %s", why);
	return -ECONNRESET;
}

int back_try(struct stream *s)
{
	uint64_t now = clock_boot_ms();
	char why[MESSAGE_CAP] = "";
	int r, i;

	if (now < s->retry_ms)
		return 0;
	if (!s->said && now >= s->lost_ms + SAY_AFTER_MS)
		say_lost(s);
	if (now >= s->lost_ms + GIVE_UP_MS)
		return give_up("the daemon does not answer");
	for (i = 0; i < 2; i++)
		s->o.at.out[i] = s->sink[i].acked = s->sink[i].received;
	r = stream_dial(s, ANSWER_MS, why);
	if (r == 0)
		return stream_parse(s);
	if (r != -EAGAIN)
		return give_up(why);
	s->retry_ms = clock_boot_ms() + TRY_EVERY_MS;
	return 0;
}

void back_done(struct stream *s)
{
	uint8_t number = (uint8_t)s->signal;

	if (s->said && isatty(STDERR_FILENO))
		complain("connected again");
	if (number)
		frame_put(&s->out, FRAME_SIGNAL, 0, CHANNEL, &number, 1);
	s->said = false;
	s->signal = 0;
	s->lost_ms = 0;
}

void back_signal(struct stream *s, int number)
{
	if (clock_boot_ms() < s->lost_ms + SAY_AFTER_MS)
		s->signal = number;
	else
		s->code = EXIT_SIGNAL + number;
}
