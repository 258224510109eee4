/*
 * `sudo` inside of a sandbox. It has no privilege itself: it hands the command
 * and its own descriptors to the agent (agent/broker.h), forwards signals, and
 * ends as the command ends. Where stdin is a terminal the command gets one of
 * its own (sudo_tty.c), because it runs in another session.
 *
 * Called `drive`, the same program is that command (sudo_drive.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/broker.h"
#include "agent/sudo_args.h"
#include "agent/sudo_drive.h"
#include "agent/sudo_tty.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "wire/frame.h"
#include "wire/pack.h"

enum { EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127 };

struct session {
	int conn, signals;
	bool greeted;
	struct buf in;
	struct tty tty;
};

static void complain(const char *what, const char *why)
{
	fprintf(stderr, "sudo: %s%s%s\n", what, *why ? ": " : "", why);
}

static int connect_agent(void)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;
	socklen_t n = sudo_address(&a);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, n) < 0)
		return -errno;
	return take_fd(&fd);
}

/* The descriptors go with the first bytes. */
static int send_request(struct session *s, const struct request *q, int cwd)
{
	struct hello h = { WIRE_VERSION, WIRE_VERSION, 0, { 0 } };
	int fds[SUDO_FDS] = { 0, 1, 2, cwd };
	struct buf out = { 0 };
	ssize_t n;
	int r, i;

	for (i = 0; i < 3; i++)
		if (s->tty.slave >= 0 && isatty(i))
			fds[i] = s->tty.slave;
	hello_put(&out, &h);
	r = spawn_put(&out, SUDO_CHANNEL, &q->spawn);
	if (r < 0) {
		buf_done(&out);
		return r;
	}
	n = send_msg_fds(s->conn, buf_data(&out), buf_len(&out), fds, SUDO_FDS);
	if (n > 0) {
		buf_eat(&out, (size_t)n);
		r = write_full(s->conn, buf_data(&out), buf_len(&out));
	} else {
		r = (int)n;
	}
	buf_done(&out);
	return r;
}

static void send_signal(struct session *s, uint8_t sig)
{
	struct buf out = { 0 };

	frame_put(&out, FRAME_SIGNAL, 0, SUDO_CHANNEL, &sig, 1);
	if (write_full(s->conn, buf_data(&out), buf_len(&out)) < 0)
		complain("cannot reach the command", "the agent is gone");
	buf_done(&out);
}

/*
 * We stop when we are told to, and with us the command: a stop from the
 * keyboard would not reach it, it is in no shell's session.
 */
static void stop_self(struct session *s)
{
	send_signal(s, SIGSTOP);
	tty_restore(&s->tty);
	kill(getpid(), SIGSTOP);
	tty_raw(&s->tty);
	send_signal(s, SIGCONT);
}

static void on_signal(struct session *s)
{
	struct signalfd_siginfo info;

	if (read(s->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGWINCH)
		tty_resize(&s->tty);
	else if (info.ssi_signo == SIGTSTP)
		stop_self(s);
	else if (info.ssi_signo == SIGCONT)
		tty_raw(&s->tty);
	else
		send_signal(s, (uint8_t)info.ssi_signo);
}

static int catch_signals(void)
{
	static const int caught[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
				      SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH,
				      SIGTSTP, SIGCONT };
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	for (i = 0; i < ARRAY_LEN(caught); i++)
		sigaddset(&set, caught[i]);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTTOU, SIG_IGN); /* setting the terminal from behind */
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* As the command ended, so do we. */
static void end_like(const struct exit_info *x) __attribute__((noreturn));
static void end_like(const struct exit_info *x)
{
	sigset_t none;

	if (x->signaled) {
		sigemptyset(&none);
		signal((int)x->code, SIG_DFL);
		sigprocmask(SIG_SETMASK, &none, NULL);
		kill(getpid(), (int)x->code);
		exit(128 + (int)x->code);
	}
	exit((int)x->code);
}

static void on_frame(struct session *s, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	struct exit_info x;
	uint32_t code;

	if (f->type == FRAME_EXIT && exit_get(f, &x) == 0) {
		tty_finish(&s->tty);
		end_like(&x);
	}
	if (f->type == FRAME_FAILED) {
		code = unpack_u32(&u);
		tty_finish(&s->tty);
		complain(unpack_str(&u), "");
		exit(code == ENOENT   ? EXIT_NOT_FOUND
		     : code == EACCES ? EXIT_NOT_RUN
				      : 1);
	}
}

/* Returns when the connection is of no use any more. */
static void on_agent(struct session *s)
{
	ssize_t n = buf_read(&s->in, s->conn, FRAME_PAYLOAD_MAX);
	struct hello h;
	struct frame f;
	int r = n > 0 ? 0 : -EIO;

	if (r == 0 && !s->greeted) {
		r = hello_get(&s->in, &h);
		s->greeted = r > 0;
	}
	while (r >= 0 && s->greeted && (r = frame_get(&s->in, &f)) == 1) {
		on_frame(s, &f);
		buf_eat(&s->in, FRAME_HEAD + f.len);
	}
	if (r < 0) {
		tty_finish(&s->tty);
		complain("the sandbox's agent ended the connection", "");
		exit(1);
	}
}

static void relay(struct session *s) __attribute__((noreturn));
static void relay(struct session *s)
{
	for (;;) {
		struct pollfd p[4] = {
			{ .fd = s->conn, .events = POLLIN },
			{ .fd = s->signals, .events = POLLIN },
			tty_poll_outside(&s->tty),
			tty_poll_inside(&s->tty),
		};

		if (poll(p, ARRAY_LEN(p), -1) < 0)
			continue;
		if (p[1].revents)
			on_signal(s);
		if (p[2].revents)
			tty_from_outside(&s->tty);
		if (p[3].revents)
			tty_from_inside(&s->tty);
		if (p[0].revents)
			on_agent(s);
	}
}

/* A missing 0, 1 or 2 would be taken by a descriptor of ours. */
static void fill_stdio(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_NOCTTY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct session s = { .tty = TTY_NONE };
	struct request q = { 0 };
	struct err e = { 0 };
	const char *name = argc > 0 ? strrchr(argv[0], '/') : NULL;
	int cwd, r;

	fill_stdio();
	if (argc > 0 && strcmp(name ? name + 1 : argv[0], "drive") == 0)
		return drive_main(argc, argv);
	if (request_parse(&q, argc, argv, &e) < 0) {
		complain(e.msg, "");
		return 1;
	}
	if (q.spawn.argc == 0)
		return 0; /* -v, -k and the like */
	cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	s.signals = catch_signals();
	s.conn = connect_agent();
	if (cwd < 0 || s.signals < 0 || s.conn < 0) {
		complain("cannot ask the sandbox's agent", strerror(errno));
		return 1;
	}
	if (isatty(STDIN_FILENO)) {
		r = tty_open(&s.tty);
		if (r < 0) {
			complain("cannot open a terminal", strerror(-r));
			return 1;
		}
		q.spawn.flags |= SPAWN_PTY;
	}
	r = send_request(&s, &q, cwd);
	if (r < 0) {
		tty_finish(&s.tty);
		complain("cannot ask the sandbox's agent", strerror(-r));
		return 1;
	}
	close(cwd);
	tty_start(&s.tty);
	relay(&s);
}
