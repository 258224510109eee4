/*
 * Workers: programs that look at foreign bytes, each in a throw-away user
 * namespace, with a group and ids of its own, like a sandbox.
 *
 * A worker gets the host's mount namespace only to load its libraries; its
 * own first action is to leave it for an empty root (see worker/). All it has
 * are its descriptors: what it is given on 0, what it says on 1, the log on 2,
 * and those that its kind needs from 3 on, which are opened in the child while
 * that is still root, in a mount namespace of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/spaces.h"
#include "sandbox/container/clone.h"
#include "warden/warden.h"

/* 0, 1, 2, its own, and until exec its program. */
enum { STDIO = 3, ALL_FDS = STDIO + WORKER_FDS_MAX + 1 };
enum { RETRY_MS = 5 };

static const struct cgroup_limits worker_limits = { .mem_bytes = 2ULL << 30,
						    .cpus_milli = 4000,
						    .pids = 16 };

static int worker_ids(const struct worker_spec *s, const struct part *p,
		      struct err *e)
{
	int net = s->host_net ? 0 : CLONE_NEWNET;

	if (setgroups(0, NULL) < 0 || setns(p->userns_fd, CLONE_NEWUSER) < 0)
		return err_sys(e, "enter user namespace");
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(e, "become root inside");
	if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | net) < 0)
		return err_spaces(e, errno,
				  (uint64_t)(CLONE_NEWNS | CLONE_NEWIPC |
					     CLONE_NEWUTS | net),
				  "make namespaces");
	return 0;
}

/* The last of the `n` is the program's. */
static int move_fds(int *fds, int n, struct err *e)
{
	int i;

	for (i = 0; i < n; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64);
		if (fds[i] < 0)
			return err_sys(e, "move descriptor");
	}
	for (i = 0; i < n; i++)
		if (dup3(fds[i], i, i == n - 1 ? O_CLOEXEC : 0) < 0)
			return err_sys(e, "move descriptor");
	return 0;
}

static int child_steps(struct warden *w, const struct worker_spec *s,
		       const struct part *p, int io[2], struct err *e)
{
	const char *argv[] = { "worker", s->mode, s->arg, NULL };
	const char *env[] = { NULL };
	int fds[ALL_FDS] = { io[0], io[1], 2 }, n, r;

	r = cgroup_join(&w->cg, p->slot, true);
	if (r < 0)
		return err_set(e, -r, "join cgroups: %s", strerror(-r));
	if (unshare(CLONE_NEWNS) < 0)
		return err_spaces(e, errno, CLONE_NEWNS, "own mount namespace");
	n = s->open(w, s, p, fds + STDIO, e);
	if (n < 0)
		return n;
	n += STDIO;
	fds[n++] = s->program_fd;
	if (setns(w->host_mnt_fd, CLONE_NEWNS) < 0)
		return err_sys(e, "enter host's mounts");
	if (worker_ids(s, p, e) < 0 || move_fds(fds, n, e) < 0)
		return -e->code;
	io[1] = STDOUT_FILENO;
	/* Changing ids has cleared it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (close_range((unsigned)n, ~0U, 0) < 0)
		return err_sys(e, "close descriptors");
	syscall(SYS_execveat, n - 1, "", argv, env, AT_EMPTY_PATH);
	return err_sys(e, "execute the worker");
}

static void __attribute__((noreturn)) worker_child(struct warden *w,
						   const struct worker_spec *s,
						   const struct part *p,
						   int io[2])
{
	struct err e = { 0 };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (child_steps(w, s, p, io, &e) < 0)
		s->fail(io[1], &e);
	_exit(127);
}

static void worker_clean(struct timer *t)
{
	struct worker *k = container_of(t, struct worker, retry);
	struct err e = { 0 };

	if (cgroup_kill(&k->w->cg, k->slot, &e) < 0)
		log_warn("%s", e.msg);
	if (cgroup_remove(&k->w->cg, k->slot) < 0) {
		timer_set(&k->w->loop, t, RETRY_MS, worker_clean);
		return;
	}
	slot_free(k->w, k->slot);
	k->ended = true;
	k->gone(k);
}

static void worker_ended(struct io *io, uint32_t events)
{
	struct worker *k = container_of(io, struct worker, pid_io);
	siginfo_t si = { 0 };

	(void)events;
	waitid(P_PIDFD, (id_t)io->fd, &si, WEXITED);
	io_close(&k->w->loop, io);
	k->ok = si.si_code == CLD_EXITED && si.si_status == 0;
	worker_clean(&k->retry);
}

void worker_stop(struct worker *k)
{
	if (k->pid_io.fd >= 0)
		syscall(SYS_pidfd_send_signal, k->pid_io.fd, SIGKILL, NULL, 0);
}

static int spawn(struct warden *w, const struct worker_spec *s, struct part *p,
		 int out[2], struct err *e)
{
	int in[2] = { -1, -1 }, words[2] = { -1, -1 }, pid_fd = -1;
	pid_t pid = -1;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(words, O_CLOEXEC) < 0)
		err_sys(e, "pipe");
	else {
		int io[2] = { in[0], words[1] };

		pid = clone_into(CLONE_NEWPID, p->group_fd, &pid_fd);
		if (pid == 0)
			worker_child(w, s, p, io);
		if (pid < 0)
			err_spaces(e, -pid, CLONE_NEWPID, "clone");
	}
	auto_close(&in[0]);
	auto_close(&words[1]);
	if (pid < 0) {
		auto_close(&in[1]);
		auto_close(&words[0]);
		return -e->code;
	}
	out[0] = in[1];
	out[1] = words[0];
	return pid_fd;
}

static int start_in_part(struct worker *k, const struct worker_spec *s,
			 struct part *p, int out[2], struct err *e)
{
	struct warden *w = k->w;
	int pid_fd;

	if (part_start(&w->cg, p, e) < 0 ||
	    part_finish(&w->cg, w->launch.proc_fd, p, e) < 0 ||
	    cgroup_limit(&w->cg, p->slot, &worker_limits, e) < 0)
		return -e->code;
	pid_fd = spawn(w, s, p, out, e);
	if (pid_fd < 0)
		return pid_fd;
	if (io_add(&w->loop, &k->pid_io, pid_fd, EPOLLIN, worker_ended) < 0) {
		close(pid_fd);
		auto_close(&out[0]);
		auto_close(&out[1]);
		return err_set(e, EIO, "watch the worker");
	}
	return 0;
}

int worker_start(struct worker *k, const struct worker_spec *s, int out[2],
		 struct err *e)
{
	struct err ignored = { 0 };
	struct part p;
	int r;

	k->pid_io.fd = -1;
	r = part_take(k->w, PART_WORKER, &p, e);
	if (r < 0)
		return r;
	k->slot = p.slot;
	r = start_in_part(k, s, &p, out, e);
	part_close(&p);
	if (r < 0 && cgroup_kill(&k->w->cg, p.slot, &ignored) == 0 &&
	    cgroup_remove(&k->w->cg, p.slot) == 0)
		slot_free(k->w, p.slot);
	return r;
}
