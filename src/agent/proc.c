/*
 * One process of the client: PROC_ASKED while its request arrives, STARTING
 * until exec, RUNNING, EXITED until all of its output is sent. Also the duty
 * of PID 1: whatever ends in this sandbox is reaped here.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "wire/pack.h"

enum {
	REAP_MAX = 256, /* in one turn: others have work, too */
	REAP_PAUSE_MS = 1,
};

struct proc *proc_find(struct agent *a, uint32_t channel)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &a->procs) {
		struct proc *p = container_of(pos, struct proc, node);

		if (p->channel == channel && !p->lost)
			return p;
	}
	return NULL;
}

struct proc *proc_new(struct agent *a, uint32_t channel)
{
	struct proc *p = xcalloc(1, sizeof(*p));
	int i;

	p->agent = a;
	p->channel = channel;
	p->number = ++a->n_made;
	p->status.fd = p->in.io.fd = -1;
	p->in.line = true;
	for (i = 0; i < 2; i++) {
		p->out[i].proc = p;
		p->out[i].io.fd = -1;
		/* Without a descriptor there is nothing to wait for. */
		p->out[i].eof = p->out[i].eof_sent = true;
		list_init(&p->out[i].ready);
	}
	list_add(&a->procs, &p->node);
	a->n_procs++;
	return p;
}

static void proc_free(struct deferred *d)
{
	free(container_of(d, struct proc, deferred));
}

static void proc_drop(struct proc *p)
{
	struct agent *a = p->agent;

	io_close(&a->loop, &p->status);
	input_done(p);
	stream_done(&p->out[0]);
	stream_done(&p->out[1]);
	buf_done(&p->request);
	free(p->args);
	timer_del(&a->loop, &p->lost_timer);
	list_del(&p->node);
	a->n_procs--;
	loop_defer(&a->loop, &p->deferred, proc_free);
}

void proc_fail(struct proc *p, const struct err *e)
{
	struct buf *out = conn_out(p), payload = { 0 };

	if (out) {
		pack_u32(&payload, (uint32_t)e->code);
		pack_str(&payload, e->msg);
		frame_put(out, FRAME_FAILED, 0, p->channel, buf_data(&payload),
			  buf_len(&payload));
		buf_done(&payload);
	}
	proc_drop(p);
}

void proc_finish(struct proc *p)
{
	struct buf *out = conn_out(p);

	if (p->state != PROC_EXITED || !p->out[0].eof_sent ||
	    !p->out[1].eof_sent)
		return;
	if (out)
		exit_put(out, p->channel, &p->exit);
	proc_drop(p);
}

static void deliver(struct proc *p, int sig)
{
	/* It leads its own group; ESRCH: it has just ended. */
	if (kill(-p->pid, sig) < 0)
		return;
}

static void proc_started(struct proc *p)
{
	struct buf *out = conn_out(p);
	struct started s = { .pid = (uint32_t)p->pid, .number = p->number };
	int i;

	p->state = PROC_RUNNING;
	io_close(&p->agent->loop, &p->status);
	if (out)
		started_put(out, FRAME_STARTED, p->channel, &s);
	for (i = 0; i < 64; i++)
		if (p->signals >> i & 1)
			deliver(p, i + 1);
}

static void on_status(struct io *io, uint32_t events)
{
	struct proc *p = container_of(io, struct proc, status);
	struct err e = { 0 };
	int r = child_status(io->fd, &e);

	(void)events;
	if (r > 0)
		proc_started(p);
	else if (r < 0)
		proc_fail(p, &e);
}

int proc_watch(struct proc *p, struct err *e)
{
	int i, r = 0;

	p->state = PROC_STARTING;
	for (i = 0; i < 2 && r == 0; i++)
		if (p->out[i].io.fd >= 0)
			r = stream_open(&p->out[i], (uint8_t)(i + 1));
	if (r == 0)
		r = io_add(&p->agent->loop, &p->status, p->status.fd, EPOLLIN,
			   on_status);
	return r < 0 ? err_set(e, -r, "watch a process") : 0;
}

void proc_signal(struct proc *p, int sig)
{
	if (p->state == PROC_RUNNING)
		deliver(p, sig);
	else if (p->state == PROC_STARTING)
		p->signals |= 1ULL << (sig - 1);
}

void proc_detach(struct proc *p)
{
	int i;

	for (i = 0; i < 2; i++)
		if (p->out[i].number)
			stream_drop(&p->out[i]);
	proc_finish(p);
}

static void lost_long(struct timer *t)
{
	proc_detach(container_of(t, struct proc, lost_timer));
}

void proc_lose(struct proc *p)
{
	int i;

	if (p->lost)
		return;
	p->lost = true;
	if (p->state == PROC_ASKED) {
		proc_drop(p);
		return;
	}
	for (i = 0; i < 2; i++)
		list_del(&p->out[i].ready);
	if (p->state == PROC_EXITED)
		proc_detach(p);
	else
		timer_set(&p->agent->loop, &p->lost_timer, LOST_MS, lost_long);
}

static uint64_t micros(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_usec;
}

static void proc_exited(struct proc *p, int status, const struct rusage *ru)
{
	int i;

	p->state = PROC_EXITED;
	p->exit.signaled = WIFSIGNALED(status) ? 1 : 0;
	p->exit.code = (uint32_t)(WIFSIGNALED(status) ? WTERMSIG(status)
						      : WEXITSTATUS(status));
	p->exit.user_us = micros(&ru->ru_utime);
	p->exit.sys_us = micros(&ru->ru_stime);
	p->exit.max_rss_bytes = (uint64_t)ru->ru_maxrss * 1024;
	input_done(p);
	if (p->lost) {
		proc_detach(p);
		return;
	}
	for (i = 0; i < 2; i++)
		if (p->out[i].number)
			stream_drain(&p->out[i]);
	proc_finish(p);
}

static struct proc *find_pid(struct agent *a, pid_t pid)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &a->procs) {
		struct proc *p = container_of(pos, struct proc, node);

		if (p->pid == pid && p->state != PROC_EXITED)
			return p;
	}
	return NULL;
}

static void reap(struct agent *a);

static void reap_more(struct timer *t)
{
	reap(container_of(t, struct agent, reap_timer));
}

static void reap(struct agent *a)
{
	int i;

	for (i = 0; i < REAP_MAX; i++) {
		struct rusage ru;
		struct proc *p;
		int status;
		pid_t pid = wait4(-1, &status, WNOHANG | __WALL, &ru);

		if (pid <= 0)
			return;
		if (broker_ended(a, pid) || spare_ended(a, pid))
			continue;
		p = find_pid(a, pid);
		/* What it told before it ended is in the pipe. */
		if (p && p->state == PROC_STARTING)
			on_status(&p->status, 0);
		p = p ? find_pid(a, pid) : NULL;
		if (p)
			proc_exited(p, status, &ru);
	}
	timer_set(&a->loop, &a->reap_timer, REAP_PAUSE_MS, reap_more);
}

static void on_child(struct io *io, uint32_t events)
{
	struct agent *a = container_of(io, struct agent, children);
	struct signalfd_siginfo info;

	(void)events;
	if (read(io->fd, &info, sizeof(info)) == sizeof(info))
		reap(a);
}

/* All signals stay blocked: whatever comes in from outside does not end us. */
int reap_init(struct agent *a)
{
	sigset_t all, child;
	int fd;

	sigfillset(&all);
	if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
		return -errno;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	return io_add(&a->loop, &a->children, fd, EPOLLIN, on_child);
}
