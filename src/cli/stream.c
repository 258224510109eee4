/*
 * The client's side of a channel, one poll() loop.
 *
 * Nothing is buffered beyond the window of each direction: output is
 * acknowledged when it was written, input is read when the process may take
 * it. Nothing blocks but poll(), so that a signal always gets through, also
 * while the reader of our stdout sleeps.
 */
#include "cli/stream.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/product.h"
#include "cli/dial.h"
#include "cli/stream_state.h"
#include "cli/term.h"
#include "wire/pack.h"

enum { P_SOCKET, P_INPUT, P_SIGNAL, P_OUT, P_ERR, P_COUNT };

enum { KILL_AFTER_MS = 10 * 1000 }; /* after SIGTERM */

/* Not on the heap: `run` should cost no page that it does not touch. */
static char area[RECEIVE];

static void send_some(struct stream *s)
{
	if (s->deaf || s->fd < 0)
		buf_clear(&s->out);
	while (buf_len(&s->out) > 0) {
		ssize_t n = send(s->fd, buf_data(&s->out), buf_len(&s->out),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			/* The other side may have said why before it left. */
			s->deaf = true;
			s->input_open = false;
			buf_clear(&s->out);
			return;
		}
		buf_eat(&s->out, (size_t)n);
	}
}

void stream_put_resize(struct stream *s, uint16_t fewer_rows)
{
	struct buf b = { 0 };
	uint16_t rows, cols;

	term_size(&rows, &cols);
	if (rows <= fewer_rows)
		return;
	pack_u16(&b, (uint16_t)(rows - fewer_rows));
	pack_u16(&b, cols);
	frame_put(&s->out, FRAME_RESIZE, 0, CHANNEL, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

void stream_put_ack(struct stream *s, uint8_t number)
{
	struct sink *k = &s->sink[number - 1];
	struct buf b = { 0 };

	if (s->phase != LIVE || k->written < k->acked + ACK_EVERY)
		return;
	pack_u8(&b, number);
	pack_u64(&b, k->written);
	frame_put(&s->out, FRAME_ACK, 0, CHANNEL, buf_data(&b), buf_len(&b));
	buf_done(&b);
	k->acked = k->written;
}

void stream_put_request(struct stream *s, struct buf *b)
{
	const struct stream_opts *o = &s->o;

	if (s->phase == ATTACHING)
		attach_put(b, CHANNEL, &o->at);
	else if (spawn_put(b, CHANNEL, o->spawn) < 0)
		fail(o->cli,
		     "the command and its environment are larger than "
		     "%d KiB or %d words",
		     SPAWN_MAX / 1024, ARGS_MAX);
}

int stream_dial(struct stream *s, uint64_t timeout_ms, char why[MESSAGE_CAP])
{
	/* No nonce: a connection of ours is never the one before. */
	const struct hello hello = { .version_min = WIRE_VERSION,
				     .version_max = WIRE_VERSION };
	const struct dial d = { .cli = s->o.cli,
				.target = s->o.target,
				.body = s->o.body,
				.protocol = PRODUCT "-wire/1" };
	struct buf first = { 0 }, leftover = { 0 };
	int r;

	hello_put(&first, &hello);
	stream_put_request(s, &first);
	r = dial(&d, &first, timeout_ms, &s->fd, &leftover, why);
	buf_done(&first);
	s->in = (struct buf){ .p = area, .len = buf_len(&leftover) };
	if (r == 0 && s->in.len > RECEIVE) {
		snprintf(why, MESSAGE_CAP, "the daemon said too much at once");
		r = -EPERM;
	}
	if (r == 0)
		memcpy(area, buf_data(&leftover), s->in.len);
	buf_done(&leftover);
	return r;
}

void stream_leave(struct stream *s, int code)
{
	frame_put(&s->out, FRAME_DETACH, 0, CHANNEL, &(uint8_t){ 0 }, 1);
	send_some(s);
	s->code = code;
}

/* A write to our stdout or stderr failed. */
int stream_lost_reader(const struct sink *k, int code)
{
	if (code == -EPIPE) {
		sigset_t set;

		term_restore();
		signal(SIGPIPE, SIG_DFL);
		sigemptyset(&set);
		sigaddset(&set, SIGPIPE);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		raise(SIGPIPE);
	}
	if (code == -EBADMSG)
		return code;
	complain("write to standard %s: %s",
		 k->fd == STDERR_FILENO ? "error" : "output", strerror(-code));
	return -EIO;
}

static int receive(struct stream *s)
{
	ssize_t n;

	if (s->in.off > 0) {
		memmove(area, area + s->in.off, s->in.len - s->in.off);
		s->in.len -= s->in.off;
		s->in.off = 0;
	}
	do
		n = recv(s->fd, area + s->in.len, RECEIVE - s->in.len,
			 MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	s->in.len += (size_t)n;
	return stream_parse(s);
}

static void window_changed(struct stream *s)
{
	if (s->o.tty && s->o.input && s->phase == LIVE)
		stream_put_resize(s, 0);
}

/* In raw mode Ctrl-Z is the process's: this came from outside. */
static void stop(void)
{
	term_restore();
	raise(SIGSTOP); /* SIGCONT comes as a signal of its own */
}

static void go_on(struct stream *s)
{
	s->input_paused = false;
	if (s->o.tty && s->o.input && s->started)
		term_raw(s->said);
	window_changed(s);
}

static void hand_on(struct stream *s, uint8_t number)
{
	if (s->code != UNDECIDED) {
		/* Only the reader of our output still keeps us. */
		buf_clear(&s->sink[0].pending);
		buf_clear(&s->sink[1].pending);
		s->code = EXIT_SIGNAL + number;
	} else if (s->lost_ms) {
		back_signal(s, number);
	} else if (s->phase == LIVE) {
		frame_put(&s->out, FRAME_SIGNAL, 0, CHANNEL, &number, 1);
	} else {
		s->code = EXIT_SIGNAL + number; /* nobody to hand it to */
	}
}

static void set_alarm(uint64_t ms)
{
	const struct itimerval t = { .it_value = { (time_t)(ms / 1000),
						   (long)(ms % 1000) * 1000 } };

	setitimer(ITIMER_REAL, &t, NULL);
}

/* SIGTERM first, as timeout(1) does; SIGKILL when that did not help. */
static void time_over(struct stream *s)
{
	if (s->code != UNDECIDED)
		return;
	hand_on(s, s->late ? SIGKILL : SIGTERM);
	s->late = true;
	set_alarm(KILL_AFTER_MS);
}

static void take_signal(struct stream *s)
{
	struct signalfd_siginfo si;

	if (read(s->signal_fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return;
	if (si.ssi_signo == SIGCONT)
		go_on(s);
	else if (si.ssi_signo == SIGWINCH)
		window_changed(s);
	else if (si.ssi_signo == SIGTSTP)
		stop();
	else if (si.ssi_signo == SIGALRM)
		time_over(s);
	else
		hand_on(s, (uint8_t)si.ssi_signo);
}

/*
 * What we were told to ignore (nohup, `&` in a script) stays ignored: a
 * blocked signal would reach the descriptor all the same.
 */
static int open_signals(const struct stream_opts *o)
{
	static const int ours[] = { SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
				    SIGUSR1, SIGUSR2, SIGTSTP };
	struct sigaction old;
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	for (i = 0; i < ARRAY_LEN(ours) && !o->aside; i++)
		if (sigaction(ours[i], NULL, &old) == 0 &&
		    old.sa_handler != SIG_IGN)
			sigaddset(&set, ours[i]);
	sigaddset(&set, SIGCONT);
	sigaddset(&set, SIGWINCH);
	sigaddset(&set, SIGALRM);
	/* Reading in the background fails then, instead of stopping us. */
	signal(SIGTTIN, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void set_polls(const struct stream *s, struct pollfd p[P_COUNT])
{
	int i;

	p[P_SOCKET] = (struct pollfd){ .fd = s->fd, .events = POLLIN };
	if (buf_len(&s->out) > 0)
		p[P_SOCKET].events |= POLLOUT;
	p[P_INPUT] = (struct pollfd){ .fd = input_wanted(s) ? STDIN_FILENO : -1,
				      .events = POLLIN };
	p[P_SIGNAL] = (struct pollfd){ .fd = s->signal_fd, .events = POLLIN };
	for (i = 0; i < 2; i++) {
		const struct sink *k = &s->sink[i];

		p[P_OUT + i] = (struct pollfd){ .fd = -1, .events = POLLOUT };
		if (buf_len(&k->pending) > 0)
			p[P_OUT + i].fd = k->out_fd;
	}
}

static int flush_sinks(struct stream *s, const struct pollfd p[P_COUNT])
{
	uint8_t i;
	int r;

	for (i = 0; i < 2; i++) {
		struct sink *k = &s->sink[i];

		if (!p[P_OUT + i].revents)
			continue;
		r = sink_flush(k);
		if (r < 0)
			return stream_lost_reader(k, r);
		if (s->code == UNDECIDED)
			stream_put_ack(s, (uint8_t)(i + 1));
	}
	return 0;
}

/*
 * Before we wait: whoever reads our stdout learns that it has ended. Only
 * stdout, because a message of ours may still have to go to stderr.
 */
static void close_ended(struct stream *s)
{
	struct sink *k = &s->sink[0];

	if (k->eof && k->fd >= 0 && s->code == UNDECIDED &&
	    buf_len(&k->pending) == 0)
		sink_close(k);
}

static bool finished(const struct stream *s)
{
	return s->code != UNDECIDED && buf_len(&s->sink[0].pending) == 0 &&
	       buf_len(&s->sink[1].pending) == 0;
}

static int turn(struct stream *s)
{
	bool lost = s->fd < 0 && s->code == UNDECIDED;
	struct pollfd p[P_COUNT];
	int r = 0;

	close_ended(s);
	set_polls(s, p);
	/* After the exit only what is pending counts. */
	if (s->code != UNDECIDED)
		p[P_SOCKET].fd = -1;
	if (poll(p, P_COUNT, lost ? back_wait(s) : -1) < 0)
		return errno == EINTR ? 0 : -errno;
	if (p[P_SIGNAL].revents)
		take_signal(s);
	if (lost && s->code == UNDECIDED)
		r = back_try(s);
	else if (p[P_SOCKET].revents)
		r = receive(s);
	if (r < 0)
		return r;
	r = flush_sinks(s, p);
	if (r < 0)
		return r;
	if (p[P_INPUT].revents)
		input_read(s);
	if (s->code == UNDECIDED)
		send_some(s);
	return 0;
}

static int stream_loop(struct stream *s)
{
	int r = stream_parse(s);

	while (r == 0 && !finished(s)) {
		r = turn(s);
		if (r == -ECONNRESET && s->fd >= 0 && stream_can_return(s)) {
			back_lost(s);
			r = 0;
		}
	}
	return r;
}

static void say_why(const struct stream *s, int r)
{
	if (r == -EBADMSG || r == -EPROTO)
		complain("the daemon does not keep to the protocol: its "
			 "version is not that of this program?");
	else if (r == -ECONNRESET && s->fd >= 0)
		complain("the connection to the sandbox was lost");
}

int stream_run(const struct stream_opts *o)
{
	static struct stream s;
	char why[MESSAGE_CAP];
	int r;

	s = (struct stream){ .fd = -1, .o = *o, .code = UNDECIDED };
	s.phase = o->spawn ? SPAWNING : ATTACHING;
	s.sink[0] = (struct sink){ .fd = STDOUT_FILENO, .out_fd = -1 };
	s.sink[1] = (struct sink){ .fd = STDERR_FILENO, .out_fd = -1 };
	/* Before we are connected, a signal may still simply end us. */
	if (stream_dial(&s, 0, why) < 0)
		fail(o->cli, "%s", why);
	s.signal_fd = open_signals(o);
	if (o->timeout_ms)
		set_alarm(o->timeout_ms);
	r = s.signal_fd < 0 ? -errno : stream_loop(&s);
	term_restore();
	say_why(&s, r);
	auto_close(&s.fd);
	auto_close(&s.signal_fd);
	buf_done(&s.out);
	buf_done(&s.kept);
	sink_done(&s.sink[0]);
	sink_done(&s.sink[1]);
	if (s.late)
		complain("the command's time is over (--timeout)");
	return r < 0 ? o->cli->fail_code : s.late ? EXIT_TIMEOUT : s.code;
}
