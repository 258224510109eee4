/*
 * The guest's end of the door. The machine has no network; the sandbox's has
 * the same sockets as on a host, and whoever connects to them is carried to
 * the host's over a line (mux/mux.h), each to the address that it wanted. The
 * other way round the host asks for ports of the sandbox's loopback.
 *
 * It is a process of its own, in the sandbox's network: what comes from the
 * host or from the sandbox meets nothing else in it. While there is nobody at
 * the line's other end, connections wait in the sockets, as they do on a host
 * that has no gate for a moment.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "guest/door.h"
#include "sandbox/net/door.h"

enum { FILES = 4096, TURN_MAX = 64, AGAIN_MS = 100 };

static const enum door_fd listeners[] = { DOOR_FD_PROXY, DOOR_FD_TCP,
					  DOOR_FD_SELF };
static const enum door_fd resolvers[] = { DOOR_FD_DNS, DOOR_FD_UDP };

/* --- out --- */

static struct door *door_of(struct mux *m)
{
	return container_of(m, struct door, mux);
}

/* One connection; false: there is none. */
static bool accept_one(struct door *d, int listen_fd)
{
	struct sockaddr_storage wanted;
	socklen_t n = sizeof(wanted);
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct door_addr a;

	if (fd < 0)
		return false;
	if (mux_tune(fd) < 0 ||
	    getsockname(fd, (struct sockaddr *)&wanted, &n) < 0) {
		close(fd);
		return true;
	}
	a = mux_addr(&wanted);
	return mux_open(&d->mux, fd, &a, 0) == 0;
}

static void on_listener(struct io *io, uint32_t events)
{
	struct door *d = ((struct listener *)io)->door;
	unsigned i;

	(void)events;
	for (i = 0; i < TURN_MAX && mux_has_place(&d->mux); i++)
		if (!accept_one(d, io->fd))
			break;
	door_arm(d);
}

static void on_resolver(struct io *io, uint32_t events)
{
	struct door *d = ((struct listener *)io)->door;

	(void)events;
	grams_read(d, io->fd);
}

static void arm(struct door *d, enum door_fd which, bool on, io_fn *fn)
{
	struct listener *l = &d->listeners[which];

	if (!on || d->fds[which] < 0)
		io_del(&d->loop, &l->io);
	else if (!l->io.armed &&
		 io_add(&d->loop, &l->io, d->fds[which], EPOLLIN, fn) < 0)
		door_die("watch a socket of the door");
}

static void watch(struct door *d, bool streams, bool grams)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(listeners); i++)
		arm(d, listeners[i], streams, on_listener);
	for (i = 0; i < ARRAY_LEN(resolvers); i++)
		arm(d, resolvers[i], grams, on_resolver);
}

void door_arm(struct door *d)
{
	watch(d, mux_has_place(&d->mux), d->mux.state == MUX_UP);
}

/* --- in --- */

static bool is_loopback(const struct door_addr *a)
{
	static const uint8_t v4[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };
	static const uint8_t v6[16] = { [15] = 1 };

	return memcmp(a->ip, v4, sizeof(v4)) == 0 ||
	       memcmp(a->ip, v6, sizeof(v6)) == 0;
}

static int on_dial(struct mux *m, const struct door_addr *a)
{
	(void)m;
	return is_loopback(a) ? mux_dial(a, SOCK_STREAM) : -EACCES;
}

/* --- the line --- */

static void make(struct door *d, const struct door_msg *msg)
{
	struct door_code made = { 0 };
	struct err e = { 0 };
	uint32_t flags;
	int r;

	memcpy(&flags, msg->body, sizeof(flags));
	watch(d, false, false); /* they are closed if one cannot be made */
	r = door_sockets(d->home_fd, flags & DOOR_SELF, d->fds, &e);
	if (r != 0)
		dprintf(STDERR_FILENO, "guest: door: %s\n", e.msg);
	if (r < 0)
		made.code = (uint32_t)e.code;
	door_arm(d);
	mux_say(&d->mux, DOOR_MADE, msg->id, &made, sizeof(made));
}

static void on_heard(struct mux *m, const struct door_msg *msg)
{
	if (msg->kind == DOOR_MAKE)
		make(door_of(m), msg);
	else if (msg->kind == DOOR_GRAM)
		gram_answer(door_of(m), msg);
}

static void on_changed(struct mux *m)
{
	door_arm(door_of(m));
}

/* Never: what it opens has no tag. */
static void on_answered(struct mux *m, uint64_t tag, int code)
{
	(void)m;
	(void)tag;
	(void)code;
}

static bool host_is_there(const struct door *d)
{
	struct pollfd p = { .fd = d->port_fd, .events = POLLOUT };

	return poll(&p, 1, 0) >= 0 && !(p.revents & POLLHUP);
}

/* The port says by a signal that somebody came, and is asked for it only while
 * there is nobody: it would tell of each piece of data, too. */
static void call_me(const struct door *d, bool on)
{
	if (fcntl(d->port_fd, F_SETFL,
		  O_RDWR | O_NONBLOCK | (on ? O_ASYNC : 0)) < 0)
		door_die("watch the port");
}

static void look(struct door *d)
{
	if (d->mux.state != MUX_DOWN || !host_is_there(d))
		return;
	call_me(d, false);
	if (mux_line(&d->mux, d->port_fd) < 0)
		door_die("watch the port");
}

static void on_ended(struct mux *m)
{
	struct door *d = door_of(m);

	mux_hang_up(m);
	call_me(d, true);
	look(d);
}

static void on_signal(struct io *io, uint32_t events)
{
	struct door *d = container_of(io, struct door, signals);
	struct signalfd_siginfo si;

	(void)events;
	while (read(io->fd, &si, sizeof(si)) > 0)
		;
	look(d);
}

static void watch_port(struct door *d)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigprocmask(SIG_SETMASK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0 || fcntl(d->port_fd, F_SETOWN, getpid()) < 0 ||
	    io_add(&d->loop, &d->signals, fd, EPOLLIN, on_signal) < 0)
		door_die("watch the port");
	call_me(d, true);
	look(d);
}

/* --- the process --- */

void door_die(const char *what)
{
	dprintf(STDERR_FILENO, "guest: door: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void __attribute__((noreturn)) serve(const struct guest *g)
{
	static struct door d = { .mux = { .dial = on_dial,
					  .answered = on_answered,
					  .heard = on_heard,
					  .changed = on_changed,
					  .freed = on_changed,
					  .ended = on_ended } };
	const struct rlimit files = { FILES, FILES };
	size_t i;

	for (i = 0; i < GATE_FDS_MAX; i++) {
		d.fds[i] = -1;
		d.listeners[i].io.fd = -1;
		d.listeners[i].door = &d;
	}
	d.mux.loop = &d.loop;
	d.port_fd = g->port_fd[GUEST_PORT_DOOR];
	signal(SIGPIPE, SIG_IGN);
	d.home_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (d.home_fd < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0 ||
	    setns(g->part.netns_fd, CLONE_NEWNET) < 0)
		door_die("enter the sandbox's network");
	if (loop_init(&d.loop) < 0)
		door_die("event loop");
	mux_init(&d.mux);
	watch_port(&d);
	loop_run(&d.loop);
	door_die("event loop");
	_exit(1);
}

/* Starts it again if it ends: then there is no door for a moment, and the
 * sandbox goes on. */
static void __attribute__((noreturn)) keep(const struct guest *g)
{
	for (;;) {
		pid_t pid = fork();

		if (pid == 0)
			serve(g);
		while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		usleep(AGAIN_MS * 1000);
	}
}

int door_start(struct guest *g, struct err *e)
{
	pid_t pid = fork();

	if (pid == 0)
		keep(g);
	return pid < 0 ? err_sys(e, "fork") : 0;
}
