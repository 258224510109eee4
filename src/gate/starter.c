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
	LINK_FD = 3, /* a door's descriptors */
	SPOOL_FD,
	LOCK_FD,
	FIRST_OTHER,
};

struct starter {
	struct gate *gate;
	int keeper_fd, lock_fd;
};

/* Moves them where they stay, and closes everything else. */
static int keep_some(const int fds[3], struct err *e)
{
	int high[3], i;

	for (i = 0; i < 3; i++) {
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_OTHER);
		if (high[i] < 0)
			return err_sys(e, "keep a descriptor");
	}
	for (i = 0; i < 3; i++)
		if (dup3(high[i], LINK_FD + i, O_CLOEXEC) < 0)
			return err_sys(e, "keep a descriptor");
	return close_range(FIRST_OTHER, ~0U, 0) < 0
		       ? err_sys(e, "close descriptors")
		       : 0;
}

static void __attribute__((noreturn))
be_door(struct starter *s, const char *name, const int *fds, pid_t parent)
{
	struct gate *g = s->gate;
	struct err e = { 0 };

	if (str_copy(g->door, sizeof(g->door), name) < 0 ||
	    confine_child("carrel-door", parent, &e) < 0 ||
	    keep_some((int[]){ fds[0], fds[1], s->lock_fd }, &e) < 0 ||
	    confine_door(&e) < 0)
		die("start a door: %s", e.msg);
	exit(door_run(g, LINK_FD, SPOOL_FD));
}

static void start_door(struct starter *s, const char *name, const int *fds)
{
	pid_t self = getpid(), pid = fork();

	if (pid == 0)
		be_door(s, name, fds, self);
	if (pid < 0)
		log_err("fork: %s", strerror(errno));
	else
		log_info("door '%s' pid=%d", name, (int)pid);
}

static int take_order(struct starter *s)
{
	static char order[ORDER_MAX];
	struct within_msg m;
	int fds[FD_PASS_MAX], i;
	ssize_t n = recv_msg_fds(s->keeper_fd, order, sizeof(order), fds);

	if (n <= 0)
		return n == 0 ? -EPIPE : (int)n;
	/* A link that nobody takes is closed, which the keeper notices. */
	if (within_get(order, (size_t)n, &m) == 0 && m.op == WITHIN_DOOR &&
	    fds[0] >= 0 && fds[1] >= 0)
		start_door(s, m.name, fds);
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
		if (pid == keeper || status)
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

int starter_run(struct gate *g, int keeper_fd, pid_t keeper, int lock_fd)
{
	struct starter s = { g, keeper_fd, lock_fd };
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
		if ((p[0].revents & (POLLIN | POLLHUP)) && take_order(&s) < 0)
			break;
	}
	log_err("the keeper is gone");
	return 1;
}
