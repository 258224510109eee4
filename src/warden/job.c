/*
 * Slow work on the pool in a child of the warden, which has all it needs by
 * inheritance. The child ends with the warden: whatever it was at is found and
 * finished by the next one.
 *
 * What it has to say is heard when it is said: its end, of a copy of all our
 * memory and descriptors, takes longer than some of the work.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "sandbox/container/clone.h"
#include "warden/warden.h"

enum { NICE = 10 };

static void __attribute__((noreturn)) job_child(struct job *j, int err_fd)
{
	struct err e = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!j->urgent)
		setpriority(PRIO_PROCESS, 0, NICE);
	if (j->work(j, &e) < 0 && e.code == 0)
		err_set(&e, EIO, "failed without a word");
	if (write_full(err_fd, &e, sizeof(e)) < 0 ||
	    (j->answer_len > 0 &&
	     write_full(err_fd, j->answer, j->answer_len) < 0))
		_exit(1);
	_exit(0);
}

/* A child that has nothing left to say. In a list, or who looks for leaks would
 * find those that a warden leaves behind at its end. */
struct ending {
	struct list node;
	struct io pid_io;
	struct warden *w;
	struct deferred gone;
};

static void ending_free(struct deferred *d)
{
	free(container_of(d, struct ending, gone));
}

static void ended(struct io *io, uint32_t events)
{
	struct ending *d = container_of(io, struct ending, pid_io);
	siginfo_t si = { 0 };

	(void)events;
	waitid(P_PIDFD, (id_t)io->fd, &si, WEXITED);
	io_close(&d->w->loop, io);
	list_del(&d->node);
	loop_defer(&d->w->loop, &d->gone, ending_free);
}

/* Takes `pid_fd`. */
static void reap_later(struct warden *w, int pid_fd)
{
	struct ending *d = xcalloc(1, sizeof(*d));

	d->w = w;
	list_add(&w->endings, &d->node);
	if (io_add(&w->loop, &d->pid_io, pid_fd, EPOLLIN, ended) == 0)
		return;
	d->pid_io.fd = pid_fd; /* now, then */
	ended(&d->pid_io, 0);
}

static void heard(struct io *io, uint32_t events)
{
	struct job *j = container_of(io, struct job, said);
	struct err e = { 0 };

	(void)events;
	if (read_full(io->fd, &e, sizeof(e)) != (ssize_t)sizeof(e) ||
	    (j->answer_len > 0 && read_full(io->fd, j->answer, j->answer_len) !=
					  (ssize_t)j->answer_len))
		e = (struct err){ EIO, "the child of the warden died" };
	io_close(&j->w->loop, io);
	reap_later(j->w, take_fd(&j->pid_fd));
	j->done(j, &e);
}

int job_start(struct job *j, struct err *e)
{
	struct clone_args a = { .flags = CLONE_PIDFD, .exit_signal = SIGCHLD };
	int pair[2], pid_fd = -1, r;
	long pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	/* Whoever cannot be heard is not started. */
	r = io_add(&j->w->loop, &j->said, pair[0], EPOLLIN, heard);
	if (r < 0) {
		close(pair[0]);
		close(pair[1]);
		j->said.fd = -1;
		return err_set(e, -r, "watch a child");
	}
	a.pidfd = (uint64_t)(uintptr_t)&pid_fd;
	pid = syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0)
		job_child(j, pair[1]);
	close(pair[1]);
	if (pid < 0) {
		err_sys(e, "start a child");
		io_close(&j->w->loop, &j->said);
		return -e->code;
	}
	j->pid_fd = pid_fd;
	return 0;
}

void job_kill(const struct job *j)
{
	if (j->pid_fd >= 0)
		syscall(SYS_pidfd_send_signal, j->pid_fd, SIGKILL, NULL, 0);
}
