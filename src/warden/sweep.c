/*
 * Discarded volumes are destroyed by a child: a large one takes half a second
 * and more, and nobody waits for it.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "sandbox/container/clone.h"
#include "warden/warden.h"

enum { SWEEP_AFTER_MS = 100, SWEEP_RETRY_MS = 10000 };

static void sweep_start(struct timer *t);

static void __attribute__((noreturn)) sweep_child(struct warden *w)
{
	struct err e = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpriority(PRIO_PROCESS, 0, 15);
	if (store_sweep(&w->store, &e) < 0) {
		log_warn("sweep: %s, trying again later", e.msg);
		_exit(1);
	}
	_exit(0);
}

static void sweep_ended(struct io *io, uint32_t events)
{
	struct warden *w = container_of(io, struct warden, sweep_io);
	siginfo_t si = { 0 };

	(void)events;
	waitid(P_PIDFD, (id_t)io->fd, &si, WEXITED);
	io_close(&w->loop, io);
	if (si.si_code != CLD_EXITED || si.si_status != 0)
		timer_set(&w->loop, &w->sweep_timer, SWEEP_RETRY_MS,
			  sweep_start);
	else if (w->sweep_again)
		sweep_soon(w);
	w->sweep_again = false;
}

static void sweep_start(struct timer *t)
{
	struct warden *w = container_of(t, struct warden, sweep_timer);
	struct clone_args a = { .flags = CLONE_PIDFD, .exit_signal = SIGCHLD };
	int pid_fd = -1;
	long pid;

	a.pidfd = (uint64_t)(uintptr_t)&pid_fd;
	pid = syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0)
		sweep_child(w);
	if (pid < 0 ||
	    io_add(&w->loop, &w->sweep_io, pid_fd, EPOLLIN, sweep_ended) < 0) {
		log_warn("sweep: cannot start, trying again later");
		timer_set(&w->loop, t, SWEEP_RETRY_MS, sweep_start);
	}
}

void sweep_soon(struct warden *w)
{
	if (w->sweep_io.fd >= 0)
		w->sweep_again = true;
	else if (w->sweep_timer.slot == 0)
		timer_set(&w->loop, &w->sweep_timer, SWEEP_AFTER_MS,
			  sweep_start);
}
