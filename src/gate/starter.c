#include "gate/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "gate/confine.h"
#include "gate/door.h"
#include "gate/within.h"

enum {
	STOP_MS = 1500, /* what has not ended by then is killed */
	ORDER_MAX = 1024,
	LINK_FD = 3, /* a door's two descriptors */
	SPOOL_FD = 4,
};

/* Moves both where they stay, and closes everything else. */
static int keep_two(int fds[2], struct err *e)
{
	int link_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, SPOOL_FD + 1);
	int spool_fd = fcntl(fds[1], F_DUPFD_CLOEXEC, SPOOL_FD + 1);

	if (link_fd < 0 || spool_fd < 0 ||
	    dup3(link_fd, LINK_FD, O_CLOEXEC) < 0 ||
	    dup3(spool_fd, SPOOL_FD, O_CLOEXEC) < 0 ||
	    close_range(SPOOL_FD + 1, ~0U, 0) < 0)
		return err_sys(e, "keep two descriptors");
	return 0;
}

static void __attribute__((noreturn))
be_door(struct gate *g, const char *name, int fds[2], pid_t parent)
{
	struct err e = { 0 };

	if (str_copy(g->door, sizeof(g->door), name) < 0 ||
	    confine_child("carrel-door", parent, &e) < 0 ||
	    keep_two(fds, &e) < 0 || confine_door(&e) < 0)
		die("start a door: %s", e.msg);
	exit(door_run(g, LINK_FD, SPOOL_FD));
}

static int take_order(struct gate *g, int keeper_fd)
{
	static char order[ORDER_MAX];
	struct within_msg m;
	int fds[FD_PASS_MAX], i;
	pid_t self = getpid(), pid;
	ssize_t n = recv_msg_fds(keeper_fd, order, sizeof(order), fds);

	if (n <= 0)
		return n == 0 ? -EPIPE : (int)n;
	if (within_get(order, (size_t)n, &m) < 0 || m.op != WITHIN_DOOR ||
	    fds[0] < 0 || fds[1] < 0) {
		pid = 0;
	} else {
		pid = fork();
		if (pid == 0)
			be_door(g, m.name, fds, self);
		if (pid < 0)
			log_err("fork: %s", strerror(errno));
		else
			log_info("door '%s' pid=%d", m.name, (int)pid);
	}
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]);
	return 0;
}

/* -ECHILD: the keeper is among them. */
static int reap(pid_t keeper)
{
	int status, r = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == keeper)
			r = -ECHILD;
		log_warn("%s pid=%d ended status=%#x",
			 pid == keeper ? "keeper" : "door", (int)pid,
			 (unsigned)status);
	}
	return r;
}

/* They are our process group. */
static void end_all(int sig_fd)
{
	struct pollfd p = { .fd = sig_fd, .events = POLLIN };
	struct signalfd_siginfo si;
	uint64_t until = clock_boot_ms() + STOP_MS;

	kill(0, SIGTERM);
	while (clock_boot_ms() < until) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0)
			return;
		if (pid == 0 && poll(&p, 1, 50) > 0)
			(void)!read(sig_fd, &si, sizeof(si));
	}
}

static int catch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int starter_run(struct gate *g, int keeper_fd, pid_t keeper)
{
	AUTO_CLOSE int sig_fd = catch_signals();
	struct pollfd p[2] = {
		{ .fd = keeper_fd, .events = POLLIN },
		{ .fd = sig_fd, .events = POLLIN },
	};
	struct signalfd_siginfo si;

	if (sig_fd < 0)
		die("signalfd: %s", strerror(errno));
	for (;;) {
		if (reap(keeper) < 0)
			break;
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
		if (read(sig_fd, &si, sizeof(si)) == sizeof(si) &&
		    si.ssi_signo != SIGCHLD) {
			end_all(sig_fd);
			return 0;
		}
		if ((p[0].revents & (POLLIN | POLLHUP)) &&
		    take_order(g, keeper_fd) < 0)
			break;
	}
	log_err("the keeper is gone");
	return 1;
}
