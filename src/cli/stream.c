/*
 * The client's side of a channel, one poll() loop.
 *
 * Nothing is buffered beyond the window of each direction: output is
 * acknowledged when it was written, input is read when the process may take
 * it. Nothing blocks but poll(), so that a signal always gets through, also
 * while the reader of our stdout sleeps.
 *
 * The agent is hostile ground: offsets, sizes and types are checked, and what
 * breaks the rules ends the connection.
 */
#include "cli/stream.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/sink.h"
#include "cli/term.h"
#include "wire/frame.h"
#include "wire/pack.h"

enum {
	CHANNEL = 1,
	RECEIVE = 256 * 1024, /* several frames per recv() */
	INPUT_PIECE = 32 * 1024,
	ACK_EVERY = WIRE_WINDOW / 4,
	UNDECIDED = -1, /* exit code: the process still runs */
};

enum { P_SOCKET, P_INPUT, P_SIGNAL, P_OUT, P_ERR, P_COUNT };

struct stream {
	int fd, signal_fd;
	struct stream_opts o;
	struct buf in;  /* over `area`, which it does not own */
	struct buf out; /* frames that wait to be sent */
	bool greeted, started;
	bool deaf; /* it no longer takes what we send */
	bool input_open, input_paused;
	uint64_t input_sent, input_acked;
	struct sink sink[2]; /* stdout, stderr */
	int code;
};

/* Not on the heap: `run` should cost no page that it does not touch. */
static char area[RECEIVE];

static void send_some(struct stream *s)
{
	if (s->deaf)
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

static void put_resize(struct stream *s)
{
	struct buf b = { 0 };
	uint16_t rows, cols;

	term_size(&rows, &cols);
	if (rows == 0)
		return;
	pack_u16(&b, rows);
	pack_u16(&b, cols);
	frame_put(&s->out, FRAME_RESIZE, 0, CHANNEL, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

static void put_ack(struct stream *s, uint8_t number)
{
	struct sink *k = &s->sink[number - 1];
	struct buf b = { 0 };

	pack_u8(&b, number);
	pack_u64(&b, k->written);
	frame_put(&s->out, FRAME_ACK, 0, CHANNEL, buf_data(&b), buf_len(&b));
	buf_done(&b);
	k->acked = k->written;
}

/* A write to our stdout or stderr failed. */
static int lost_reader(const struct sink *k, int code)
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
	if (code != -EBADMSG)
		complain("write to standard %s: %s",
			 k->fd == STDERR_FILENO ? "error" : "output",
			 strerror(-code));
	return code;
}

static int got_output(struct stream *s, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint8_t number = unpack_u8(&u);
	uint64_t offset = unpack_u64(&u);
	size_t n;
	const void *p = unpack_rest(&u, &n);
	struct sink *k;
	int r;

	if (!unpack_ok(&u) || number < 1 || number > 2)
		return -EBADMSG;
	k = &s->sink[number - 1];
	if (f->type == FRAME_OUTPUT_EOF) {
		k->eof = true;
		return offset == k->received && n == 0 ? 0 : -EBADMSG;
	}
	r = sink_take(k, offset, p, n);
	if (r < 0)
		return lost_reader(k, r);
	if (k->written - k->acked >= ACK_EVERY)
		put_ack(s, number);
	return 0;
}

static int got_started(struct stream *s)
{
	if (s->started)
		return -EBADMSG;
	s->started = true;
	if (s->o.detach) {
		s->code = 0;
		return 0;
	}
	s->input_open = s->o.input;
	if (s->o.tty) {
		term_raw();
		put_resize(s); /* it may have changed since the request */
	}
	return 0;
}

static int got_failed(struct stream *s, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint32_t code = unpack_u32(&u);
	const char *message = unpack_str(&u);

	if (!unpack_ok(&u))
		return -EBADMSG;
	term_restore();
	complain("%s", *message ? message : strerror((int)code));
	s->code = code == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
	return 0;
}

static int got_exit(struct stream *s, const struct frame *f)
{
	struct exit_info x;

	if (exit_get(f, &x) < 0)
		return -EBADMSG;
	s->code = (int)((x.signaled ? EXIT_SIGNAL + x.code : x.code) & 0xff);
	s->input_open = false;
	return 0;
}

static int got_input_ack(struct stream *s, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint64_t offset = unpack_u64(&u);

	if (!unpack_ok(&u) || offset < s->input_acked || offset > s->input_sent)
		return -EBADMSG;
	s->input_acked = offset;
	return 0;
}

static int got_frame(struct stream *s, const struct frame *f)
{
	if (f->channel != CHANNEL)
		return -EBADMSG;
	switch (f->type) {
	case FRAME_STARTED:
		return got_started(s);
	case FRAME_FAILED:
		return got_failed(s, f);
	case FRAME_OUTPUT:
	case FRAME_OUTPUT_EOF:
		return got_output(s, f);
	case FRAME_INPUT_ACK:
		return got_input_ack(s, f);
	case FRAME_EXIT:
		return got_exit(s, f);
	default:
		return -EBADMSG;
	}
}

static int parse_frames(struct stream *s)
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
	}
	return 0;
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
	return parse_frames(s);
}

static void end_input(struct stream *s)
{
	frame_put(&s->out, FRAME_INPUT_EOF, 0, CHANNEL, NULL, 0);
	s->input_open = false;
}

static bool in_background(void)
{
	pid_t front = tcgetpgrp(STDIN_FILENO);

	return front > 0 && front != getpgrp();
}

static void read_input(struct stream *s)
{
	static char piece[INPUT_PIECE];
	uint64_t left = s->input_acked + WIRE_WINDOW - s->input_sent;
	ssize_t n = read(STDIN_FILENO, piece,
			 left < INPUT_PIECE ? left : INPUT_PIECE);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0 && errno == EIO && in_background()) {
		/* In the background of a terminal; SIGCONT tells when not. */
		s->input_paused = true;
		return;
	}
	if (n <= 0) {
		end_input(s);
		return;
	}
	frame_put_data(&s->out, FRAME_INPUT, CHANNEL, 0, s->input_sent, piece,
		       (size_t)n);
	s->input_sent += (uint64_t)n;
}

static void take_signal(struct stream *s)
{
	struct signalfd_siginfo si;
	uint8_t number;

	if (read(s->signal_fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return;
	number = (uint8_t)si.ssi_signo;
	if (number == SIGCONT) {
		s->input_paused = false;
		if (s->o.tty && s->started)
			term_raw();
	}
	if (number == SIGCONT || number == SIGWINCH) {
		if (s->o.tty && s->started)
			put_resize(s);
		return;
	}
	if (s->code != UNDECIDED) {
		/* Only the reader of our output still keeps us. */
		buf_clear(&s->sink[0].pending);
		buf_clear(&s->sink[1].pending);
		s->code = EXIT_SIGNAL + number;
	} else if (s->started)
		frame_put(&s->out, FRAME_SIGNAL, 0, CHANNEL, &number, 1);
	else
		s->code = EXIT_SIGNAL + number; /* nobody to hand it to yet */
}

/*
 * What we were told to ignore (nohup, `&` in a script) stays ignored: a
 * blocked signal would reach the descriptor all the same.
 */
static int open_signals(bool tty)
{
	static const int forwarded[] = { SIGINT,  SIGTERM, SIGHUP,
					 SIGQUIT, SIGUSR1, SIGUSR2 };
	struct sigaction old;
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	for (i = 0; i < ARRAY_LEN(forwarded); i++)
		if (sigaction(forwarded[i], NULL, &old) == 0 &&
		    old.sa_handler != SIG_IGN)
			sigaddset(&set, forwarded[i]);
	sigaddset(&set, SIGCONT);
	if (tty)
		sigaddset(&set, SIGWINCH);
	/* Reading in the background fails then, instead of stopping us. */
	signal(SIGTTIN, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool wants_input(const struct stream *s)
{
	return s->input_open && !s->input_paused && buf_len(&s->out) == 0 &&
	       s->input_sent < s->input_acked + WIRE_WINDOW;
}

static void set_polls(const struct stream *s, struct pollfd p[P_COUNT])
{
	int i;

	p[P_SOCKET] = (struct pollfd){ .fd = s->fd, .events = POLLIN };
	if (buf_len(&s->out) > 0)
		p[P_SOCKET].events |= POLLOUT;
	p[P_INPUT] = (struct pollfd){ .fd = wants_input(s) ? STDIN_FILENO : -1,
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
			return lost_reader(k, r);
		if (s->code == UNDECIDED && k->written - k->acked >= ACK_EVERY)
			put_ack(s, (uint8_t)(i + 1));
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
	struct pollfd p[P_COUNT];
	int r;

	close_ended(s);
	set_polls(s, p);
	/* After the exit only what is pending counts. */
	if (s->code != UNDECIDED)
		p[P_SOCKET].fd = -1;
	if (poll(p, P_COUNT, -1) < 0)
		return errno == EINTR ? 0 : -errno;
	if (p[P_SIGNAL].revents)
		take_signal(s);
	if (p[P_SOCKET].revents) {
		r = receive(s);
		if (r < 0)
			return r;
	}
	r = flush_sinks(s, p);
	if (r < 0)
		return r;
	if (p[P_INPUT].revents)
		read_input(s);
	if (s->code == UNDECIDED)
		send_some(s);
	return 0;
}

static int stream_loop(struct stream *s, const struct buf *first)
{
	int r = 0;

	s->in = (struct buf){ .p = area };
	if (buf_len(first) > RECEIVE)
		return -EBADMSG;
	memcpy(area, buf_data(first), buf_len(first));
	s->in.len = buf_len(first);
	if (buf_len(first) > 0)
		r = parse_frames(s);
	while (r == 0 && !finished(s))
		r = turn(s);
	return r;
}

int stream_run(int fd, const struct buf *first, const struct stream_opts *o)
{
	static struct stream s;
	int r;

	s = (struct stream){ .fd = fd, .o = *o, .code = UNDECIDED };
	s.sink[0] = (struct sink){ .fd = STDOUT_FILENO, .out_fd = -1 };
	s.sink[1] = (struct sink){ .fd = STDERR_FILENO, .out_fd = -1 };
	s.signal_fd = open_signals(o->tty);
	r = s.signal_fd < 0 ? -errno : stream_loop(&s, first);
	term_restore();
	if (r == -EBADMSG || r == -EPROTO)
		complain("the daemon does not keep to the protocol: its "
			 "version is not that of this program?");
	else if (r == -ECONNRESET)
		complain("the connection to the sandbox was lost");
	auto_close(&s.signal_fd);
	buf_done(&s.out);
	sink_done(&s.sink[0]);
	sink_done(&s.sink[1]);
	return r < 0 ? EXIT_OURS : s.code;
}
