/* See broker.h. The first half is the agent's, the second the broker's own. */
#include "agent/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/environ.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/walls.h"
#include "wire/pack.h"

enum {
	LISTEN_FD = 3, /* places in the broker */
	GATE_FD = 4,
	REQUEST_MS = 10 * 1000,
	HANGUP_MS = 2000, /* from SIGHUP to SIGKILL */
	BACKLOG = 64,
	RETRY_MS = 100,
	PACE_MS = 2, /* between two of them */
};

static void broker_run(const struct agent *a, int gate_fd)
	__attribute__((noreturn));

static void watch_sudo(struct agent *a)
{
	uint32_t events = EPOLLIN;

	if (a->sudo_gate.fd >= 0 || a->sudo_timer.slot ||
	    a->n_brokers >= BROKERS_MAX)
		events = 0;
	io_set(&a->loop, &a->sudo, events);
}

static void retry_sudo(struct timer *t)
{
	watch_sudo(container_of(t, struct agent, sudo_timer));
}

/*
 * The broker has accepted its connection, or ended: the next one may come, but
 * not at once. We are outside of the sandbox's processor limit, and somebody
 * who only connects must not make us fork all the time.
 */
static void on_gate(struct io *io, uint32_t events)
{
	struct agent *a = container_of(io, struct agent, sudo_gate);

	(void)events;
	io_close(&a->loop, io);
	timer_set(&a->loop, &a->sudo_timer, PACE_MS, retry_sudo);
}

static int broker_start(struct agent *a)
{
	struct err e = { 0 };
	int gate[2], r = 0;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	pid = child_fork(&a->confine, &e);
	if (pid == 0)
		broker_run(a, gate[1]);
	close(gate[1]);
	if (pid > 0)
		a->brokers[a->n_brokers++] = pid;
	r = pid < 0 ? pid
		    : io_add(&a->loop, &a->sudo_gate, gate[0], EPOLLIN,
			     on_gate);
	if (r < 0) {
		close(gate[0]);
		a->sudo_gate.fd = -1;
	}
	return r;
}

static void on_sudo(struct io *io, uint32_t events)
{
	struct agent *a = container_of(io, struct agent, sudo);

	(void)events;
	if (a->n_brokers < BROKERS_MAX && broker_start(a) < 0) {
		/* No process to be had: a fork bomb must not keep us busy. */
		timer_set(&a->loop, &a->sudo_timer, RETRY_MS, retry_sudo);
	}
	watch_sudo(a);
}

bool broker_ended(struct agent *a, pid_t pid)
{
	unsigned i;

	for (i = 0; i < a->n_brokers; i++)
		if (a->brokers[i] == pid) {
			a->brokers[i] = a->brokers[--a->n_brokers];
			watch_sudo(a);
			return true;
		}
	return false;
}

int sudo_listen(struct agent *a)
{
	struct sockaddr_un addr;
	socklen_t len = sudo_address(&addr);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&addr, len) < 0) {
		/* Names are taken when a test gives us the host's network. */
		int r = WALL(NETNS) ? -errno : 0;

		close(fd);
		return r;
	}
	if (listen(fd, BACKLOG) < 0)
		return -errno;
	return io_add(&a->loop, &a->sudo, fd, EPOLLIN, on_sudo);
}

/* ------------------------------------------------------------------------ */

struct broker {
	int conn;
	struct buf in, request;
	int fds[FD_PASS_MAX];
	uint64_t deadline_ms;
	struct confine confine;
};

/* Only the two descriptors that it needs: the host's are not its business. */
static int keep_only(int listen_fd, int gate_fd)
{
	int l = fcntl(listen_fd, F_DUPFD_CLOEXEC, GATE_FD + 1);
	int g = fcntl(gate_fd, F_DUPFD_CLOEXEC, GATE_FD + 1);

	if (l < 0 || g < 0 || dup3(l, LISTEN_FD, O_CLOEXEC) < 0 ||
	    dup3(g, GATE_FD, O_CLOEXEC) < 0)
		return -errno;
	return syscall(SYS_close_range, GATE_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

static int wait_readable(struct broker *b)
{
	struct pollfd p = { .fd = b->conn, .events = POLLIN };
	uint64_t now = clock_boot_ms();

	if (now >= b->deadline_ms)
		return -ETIMEDOUT;
	if (poll(&p, 1, (int)(b->deadline_ms - now)) <= 0)
		return -ETIMEDOUT;
	return 0;
}

/* More bytes; descriptors are taken from the first message only. */
static int receive(struct broker *b)
{
	bool first = b->fds[0] < 0;
	ssize_t n;
	int r = wait_readable(b);

	if (r < 0)
		return r;
	if (buf_len(&b->in) > FRAME_HEAD + FRAME_PAYLOAD_MAX)
		return -EBADMSG;
	if (!first)
		n = buf_read(&b->in, b->conn, FRAME_PAYLOAD_MAX);
	else
		n = recv_msg_fds(b->conn, buf_room(&b->in, FRAME_PAYLOAD_MAX),
				 FRAME_PAYLOAD_MAX, b->fds);
	if (n <= 0)
		return n < 0 ? (int)n : -ECONNRESET;
	if (first)
		buf_fill(&b->in, (size_t)n);
	return b->fds[SUDO_FDS - 1] < 0 ? -EBADMSG : 0;
}

static int receive_hello(struct broker *b)
{
	struct hello h;
	int r;

	do {
		r = receive(b);
		if (r == 0)
			r = hello_get(&b->in, &h);
		else
			return r;
	} while (r == 0);
	return r < 0 ? r : 0;
}

static int receive_request(struct broker *b)
{
	struct frame f;
	bool more = true;
	int r = receive_hello(b);

	while (r == 0 && more) {
		r = frame_get(&b->in, &f);
		if (r == 0) {
			r = receive(b);
			continue;
		}
		if (r < 0)
			return r;
		if (f.type != FRAME_SPAWN ||
		    f.len > SPAWN_MAX - buf_len(&b->request))
			return -EBADMSG;
		buf_add(&b->request, f.payload, f.len);
		more = f.flags & FRAME_MORE;
		buf_eat(&b->in, FRAME_HEAD + f.len);
		r = 0;
	}
	return r;
}

static void answer(struct broker *b, struct buf *out)
{
	/* A shim that does not read is as good as gone. */
	ssize_t n = send(b->conn, buf_data(out), buf_len(out),
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n != (ssize_t)buf_len(out))
		shutdown(b->conn, SHUT_RDWR);
	buf_done(out);
}

static void answer_failed(struct broker *b, const struct err *e)
{
	struct buf payload = { 0 }, out = { 0 };

	pack_u32(&payload, (uint32_t)e->code);
	pack_str(&payload, e->msg);
	frame_put(&out, FRAME_FAILED, 0, SUDO_CHANNEL, buf_data(&payload),
		  buf_len(&payload));
	buf_done(&payload);
	answer(b, &out);
}

static pid_t start_command(struct broker *b, const struct spawn *s,
			   struct err *e)
{
	struct environment env = { 0 };
	struct plan plan = {
		.confine = &b->confine,
		.argv = (char **)s->argv,
		.cwd = s->cwd,
		.cwd_fd = *s->cwd ? -1 : b->fds[3],
		.fds = { b->fds[0], b->fds[1], b->fds[2] },
		.tty = s->flags & SPAWN_PTY,
		.with_parent = true,
	};
	const char *who = *s->user ? s->user : "0";
	int status_fd = -1;
	pid_t pid;
	int r;

	if (!b->confine.sudo)
		return err_set(e, EPERM, "sudo is turned off for this sandbox");
	r = user_find(who, &plan.user, e);
	if (r == 0)
		r = environment_make(&env, s, &plan.user, plan.tty, e);
	if (r < 0)
		return r;
	plan.env = env.v;
	pid = child_start(&plan, &status_fd, e);
	if (pid < 0)
		return pid;
	do {
		struct pollfd p = { .fd = status_fd, .events = POLLIN };

		poll(&p, 1, -1);
		r = child_status(status_fd, e);
	} while (r == 0);
	close(status_fd);
	return r < 0 ? r : pid;
}

/* Frames of the shim while the command runs: only signals. */
static int take_signals(struct broker *b, pid_t pid)
{
	ssize_t n = buf_read(&b->in, b->conn, FRAME_PAYLOAD_MAX);
	struct frame f;
	int r;

	if (n <= 0)
		return -ECONNRESET;
	while ((r = frame_get(&b->in, &f)) == 1) {
		if (f.type != FRAME_SIGNAL || f.len != 1 || f.payload[0] < 1 ||
		    f.payload[0] > 64)
			return -EBADMSG;
		kill(-pid, f.payload[0]);
		buf_eat(&b->in, FRAME_HEAD + f.len);
	}
	return r;
}

static void end_command(pid_t pid, int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	kill(-pid, SIGHUP);
	kill(-pid, SIGCONT);
	if (poll(&p, 1, HANGUP_MS) > 0)
		return;
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL); /* it may have left its group */
}

static void attend(struct broker *b, pid_t pid)
{
	AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p[2] = { { .fd = pidfd, .events = POLLIN },
			       { .fd = b->conn, .events = POLLIN } };

	if (pidfd < 0) {
		kill(-pid, SIGKILL);
		return;
	}
	for (;;) {
		if (poll(p, 2, -1) < 0)
			continue;
		if (p[0].revents)
			return;
		if (p[1].revents && take_signals(b, pid) < 0) {
			end_command(pid, pidfd);
			return;
		}
	}
}

static void answer_exit(struct broker *b, pid_t pid)
{
	struct exit_info x = { 0 };
	struct buf out = { 0 };
	struct rusage ru;
	int status;

	if (wait4(pid, &status, 0, &ru) != pid)
		return;
	x.signaled = WIFSIGNALED(status) ? 1 : 0;
	x.code =
		(uint32_t)(x.signaled ? WTERMSIG(status) : WEXITSTATUS(status));
	exit_put(&out, SUDO_CHANNEL, &x);
	answer(b, &out);
}

static void serve(struct broker *b, const uint8_t nonce[16])
{
	struct hello h = { WIRE_VERSION, WIRE_VERSION, 0, { 0 } };
	AUTO(spawn_done) struct spawn s = { 0 };
	struct buf out = { 0 };
	struct err e = { 0 };
	uint8_t number[4] = { 0 };
	pid_t pid;
	int i;

	memcpy(h.nonce, nonce, sizeof(h.nonce));
	hello_put(&out, &h);
	answer(b, &out);
	if (receive_request(b) < 0 ||
	    spawn_get(buf_data(&b->request), buf_len(&b->request), &s) < 0)
		return;
	pid = start_command(b, &s, &e);
	if (pid < 0) {
		answer_failed(b, &e);
		return;
	}
	/* The descriptors are the command's alone: a pipe must end with it. */
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&b->fds[i]);
	frame_put(&out, FRAME_STARTED, 0, SUDO_CHANNEL, number, sizeof(number));
	answer(b, &out);
	attend(b, pid);
	answer_exit(b, pid);
}

static void broker_run(const struct agent *a, int gate_fd)
{
	struct broker b = { .confine = a->confine,
			    .fds = { -1, -1, -1, -1 },
			    .deadline_ms = clock_boot_ms() + REQUEST_MS };
	struct err e = { 0 };

	if (child_join(&a->confine, &e) < 0 ||
	    keep_only(a->sudo.fd, gate_fd) < 0)
		_exit(1);
	/* Its children are where it is already. */
	b.confine.into_fd = b.confine.join_fd = b.confine.oom_fd = -1;
	b.conn = accept4(LISTEN_FD, NULL, NULL, SOCK_CLOEXEC);
	close(GATE_FD);
	close(LISTEN_FD);
	if (b.conn < 0)
		_exit(1);
	serve(&b, a->nonce);
	_exit(0);
}
