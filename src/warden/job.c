/*
 * Slow work on the pool in a child of the warden, which has all it needs by
 * inheritance. The child ends with the warden: whatever it was at is found and
 * finished by the next one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

static void job_ended(struct io *io, uint32_t events)
{
	struct job *j = container_of(io, struct job, pid_io);
	struct err e = { 0 };
	siginfo_t si = { 0 };

	(void)events;
	if (read_full(j->err_fd, &e, sizeof(e)) != (ssize_t)sizeof(e) ||
	    (j->answer_len > 0 &&
	     read_full(j->err_fd, j->answer, j->answer_len) !=
		     (ssize_t)j->answer_len))
		e = (struct err){ EIO, "the child of the warden died" };
	waitid(P_PIDFD, (id_t)io->fd, &si, WEXITED);
	io_close(&j->w->loop, io);
	auto_close(&j->err_fd);
	j->done(j, &e);
}

int job_start(struct job *j, struct err *e)
{
	struct clone_args a = { .flags = CLONE_PIDFD, .exit_signal = SIGCHLD };
	int pair[2], pid_fd = -1;
	long pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	a.pidfd = (uint64_t)(uintptr_t)&pid_fd;
	pid = syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0)
		job_child(j, pair[1]);
	close(pair[1]);
	j->err_fd = pair[0];
	if (pid < 0) {
		auto_close(&j->err_fd);
		return err_sys(e, "start a child");
	}
	if (io_add(&j->w->loop, &j->pid_io, pid_fd, EPOLLIN, job_ended) < 0) {
		close(pid_fd);
		auto_close(&j->err_fd);
		return err_set(e, EIO, "watch a child");
	}
	return 0;
}

void job_kill(const struct job *j)
{
	if (j->pid_io.fd >= 0)
		syscall(SYS_pidfd_send_signal, j->pid_io.fd, SIGKILL, NULL, 0);
}
