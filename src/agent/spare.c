/*
 * One child made ahead, while nothing else is to be done, or while the agent
 * starts, for which another processor may have time: it has joined the
 * group of user processes and has their session and filter, and waits
 * for its plan. A spawn then pays for neither a fork nor a filter. (A builtin
 * needs a fork of the agent as it is now.)
 *
 * It is a child between fork and exec like any other, only for longer: it still
 * has the agent's id, so that nobody inside may do more to it than end it, and
 * nothing open but the null device and its end of a pair of sockets. The order
 * comes through that pair, and its own end is what exec closes: for the agent
 * the other one is the status pipe of child_start().
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/environ.h"
#include "base/auto.h"
#include "base/fd.h"
#include "sandbox/walls.h"

enum {
	IDLE_MS = 10,          /* after the last spawn */
	ORDER_MAX = 32 * 1024, /* a larger one goes to a child of its own */
};

/* The request follows, as it came. */
struct order {
	struct user user;
	bool tty;
};

/* Of both sides: a buffer from the heap would be more pages to touch. */
static _Alignas(struct order) char text[ORDER_MAX];

/* All are blocked still: what root inside sent was not for the new process. */
static void forget_signals(void)
{
	const struct timespec at_once = { 0 };
	sigset_t all;

	sigfillset(&all);
	while (sigtimedwait(&all, NULL, &at_once) > 0)
		continue;
}

static int MUST_CHECK obey(const struct confine *c, int *fd, struct err *e)
{
	const struct order *o = (const struct order *)text;
	int fds[FD_PASS_MAX];
	ssize_t n = recv_msg_fds(*fd, text, sizeof(text), fds);
	struct plan plan = { .confine = c, .cwd_fd = -1 };
	struct environment env;
	struct spawn s;

	if (n < (ssize_t)sizeof(*o) || fds[2] < 0 ||
	    spawn_get(text + sizeof(*o), (size_t)n - sizeof(*o), &s) < 0)
		_exit(1); /* nobody needs us */
	forget_signals();
	plan.user = o->user;
	plan.tty = o->tty;
	plan.argv = (char **)s.argv;
	plan.cwd = s.cwd;
	memcpy(plan.fds, fds, sizeof(plan.fds));
	if (environment_make(&env, &s, &plan.user, plan.tty, e) < 0)
		return -e->code;
	plan.env = env.v;
	return child_finish(&plan, fd, e);
}

static void __attribute__((noreturn)) wait_for_order(const struct agent *a,
						     int fd)
{
	struct err e = { 0 };

	if (child_prepare(&a->confine, &e) == 0 && child_keep(&fd, &e) == 0 &&
	    obey(&a->confine, &fd, &e) == 0)
		_exit(1);   /* we would be another program by now */
	child_fail(fd, &e); /* for who may have sent an order already */
}

/* What the next spawn will look up: then the kernel has it in memory. */
static void look_ahead(void)
{
	struct user u;
	struct err e = { 0 };

	if (user_find("", &u, &e) == 0 && access(u.home, F_OK) < 0)
		return; /* it will be told */
}

/* Without one a spawn forks, so nothing here is an error. */
void spare_make(struct agent *a)
{
	struct err e = { 0 };
	int ends[2];
	pid_t pid;

	/* It cannot be without that wall: it would hold everybody's pipes. */
	if (a->spare.pid || !WALL(CLOSEFDS) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return;
	pid = fd_set_nonblock(ends[0], true);
	if (pid == 0)
		pid = child_ahead(&a->confine, &e);
	if (pid == 0)
		wait_for_order(a, ends[1]);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return;
	}
	a->spare.pid = pid;
	a->spare.fd = ends[0];
}

static void on_idle(struct timer *t)
{
	struct agent *a = container_of(t, struct agent, idle);

	agent_settle();
	look_ahead();
	spare_make(a);
}

void spare_later(struct agent *a)
{
	timer_set(&a->loop, &a->idle, IDLE_MS, on_idle);
}

/* The next one is made after the next spawn: who ends it does not keep us busy.
 */
bool spare_ended(struct agent *a, pid_t pid)
{
	if (pid != a->spare.pid)
		return false;
	close(a->spare.fd);
	a->spare.pid = 0;
	return true;
}

pid_t spare_use(struct agent *a, const struct plan *p,
		const struct buf *request, int *status_fd)
{
	struct order o = { .user = p->user, .tty = p->tty };
	pid_t pid = a->spare.pid;
	size_t len = buf_len(request);
	ssize_t n;

	spare_later(a);
	if (!pid || p->builtin || len > ORDER_MAX - sizeof(o))
		return 0;
	memcpy(text, &o, sizeof(o));
	memcpy(text + sizeof(o), buf_data(request), len);
	n = send_msg_fds(a->spare.fd, text, sizeof(o) + len, p->fds, 3);
	if (n < 0) /* it was ended: spare_ended() follows */
		return 0;
	/* Root inside may stop what it sees; a new process is not stopped. */
	kill(pid, SIGCONT);
	agent_settle();
	*status_fd = a->spare.fd;
	a->spare.pid = 0;
	return pid;
}
