/*
 * A process: STARTING until exec, RUNNING, EXITED. Its channels come and go
 * (chan.c); with the last of them gone it runs on, and once it has exited it is
 * kept for a while. A builtin is only for its client and ends with it. Also the
 * duty of PID 1: whatever ends in this sandbox is reaped here.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

enum {
	REAP_MAX = 256, /* in one turn: others have work, too */
	REAP_PAUSE_MS = 1,
};

static struct proc *find_tag(struct list *list, const char *tag)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, list) {
		struct proc *p = container_of(pos, struct proc, node);

		if (!p->builtin && strcmp(p->tag, tag) == 0)
			return p;
	}
	return NULL;
}

static struct proc *find_number(struct agent *a, uint32_t number)
{
	struct entry *e;

	table_each (e, &a->proc_numbers, number) {
		struct proc *p = container_of(e, struct proc, by_number);

		if (!p->builtin)
			return p;
	}
	return NULL;
}

/* Pids are used again: one that lives, else the latest. */
static struct proc *find_by_pid(struct agent *a, const char *text)
{
	struct proc *found = NULL;
	struct entry *e;
	uint64_t pid;

	if (parse_u64(text, INT32_MAX, &pid) < 0)
		return NULL;
	table_each (e, &a->proc_pids, (uint32_t)pid) {
		struct proc *p = container_of(e, struct proc, by_pid);

		if (!p->builtin && (!found || (found->state == PROC_EXITED &&
					       p->state != PROC_EXITED)))
			found = p;
	}
	return found;
}

struct proc *proc_find(struct agent *a, uint32_t number, const char *tag)
{
	struct proc *p;

	if (number)
		return find_number(a, number);
	if (*tag == ':')
		return find_by_pid(a, tag + 1);
	p = find_tag(&a->procs, tag);
	return p ? p : find_tag(&a->kept, tag);
}

/* Of a process that lives as long as 2^32 others, too. */
static uint32_t next_number(struct agent *a)
{
	do
		a->last_number++;
	while (a->last_number == 0 || find_number(a, a->last_number));
	return a->last_number;
}

struct proc *proc_new(struct agent *a)
{
	struct proc *p = xcalloc(1, sizeof(*p));
	int i;

	p->agent = a;
	p->number = next_number(a);
	p->status.fd = p->in.io.fd = -1;
	p->in.line = true;
	list_init(&p->chans);
	for (i = 0; i < 2; i++) {
		p->out[i].proc = p;
		p->out[i].io.fd = -1;
		/* Without a descriptor there is nothing to wait for. */
		p->out[i].eof = true;
		list_init(&p->out[i].paced.node);
	}
	list_add(&a->procs, &p->node);
	table_add(&a->proc_numbers, &p->by_number, p->number);
	a->n_procs++;
	return p;
}

static void proc_free(struct deferred *d)
{
	free(container_of(d, struct proc, deferred));
}

void proc_drop(struct proc *p)
{
	struct agent *a = p->agent;

	kept_del(p);
	io_close(&a->loop, &p->status);
	input_done(p);
	stream_done(&p->out[0]);
	stream_done(&p->out[1]);
	free(p->args);
	timer_del(&a->loop, &p->lost);
	list_del(&p->node);
	table_del(&a->proc_numbers, &p->by_number);
	table_del(&a->proc_pids, &p->by_pid);
	a->n_procs--;
	loop_defer(&a->loop, &p->deferred, proc_free);
}

/* It could not be started: its clients hear why. */
static void proc_fail(struct proc *p, const struct err *e)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &p->chans)
		chan_fail(container_of(pos, struct chan, of_proc), e);
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
	struct list *pos, *tmp;
	int i;

	p->state = PROC_RUNNING;
	io_close(&p->agent->loop, &p->status);
	list_each (pos, tmp, &p->chans)
		chan_greet(container_of(pos, struct chan, of_proc));
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
	table_add(&p->agent->proc_pids, &p->by_pid, (uint32_t)p->pid);
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

static void resume(struct proc *p)
{
	stream_resume(&p->out[0]);
	stream_resume(&p->out[1]);
}

static void lost_long(struct timer *t)
{
	resume(container_of(t, struct proc, lost));
}

void proc_hold(struct proc *p, const struct chan *c)
{
	int i;

	/* The first of several that were lost at once may have had least. */
	for (i = 0; i < 2; i++)
		if (!p->lost.slot || c->out[i].acked < p->out[i].held_from)
			p->out[i].held_from = c->out[i].acked;
	timer_set(&p->agent->loop, &p->lost, LOST_MS, lost_long);
}

/* Nobody else may ever have what a builtin writes: it ends. */
static void builtin_left(struct proc *p)
{
	if (p->state == PROC_EXITED)
		proc_drop(p);
	else
		proc_signal(p, SIGHUP);
}

void proc_left(struct proc *p)
{
	bool alone = list_empty(&p->chans);

	if (alone && p->builtin) {
		builtin_left(p);
		return;
	}
	resume(p);
	if (alone && p->state == PROC_EXITED)
		kept_add(p);
}

static uint64_t micros(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_usec;
}

static void proc_exited(struct proc *p, int status, const struct rusage *ru)
{
	struct list *pos, *tmp;
	int i;

	p->state = PROC_EXITED;
	p->exit.signaled = WIFSIGNALED(status) ? 1 : 0;
	p->exit.code = (uint32_t)(WIFSIGNALED(status) ? WTERMSIG(status)
						      : WEXITSTATUS(status));
	p->exit.user_us = micros(&ru->ru_utime);
	p->exit.sys_us = micros(&ru->ru_stime);
	p->exit.max_rss_bytes = (uint64_t)ru->ru_maxrss * 1024;
	input_done(p);
	for (i = 0; i < 2; i++)
		if (p->out[i].number)
			stream_drain(&p->out[i]);
	if (list_empty(&p->chans))
		proc_left(p);
	list_each (pos, tmp, &p->chans)
		chan_finish(container_of(pos, struct chan, of_proc));
}

static struct proc *find_pid(struct agent *a, pid_t pid)
{
	struct entry *e;

	table_each (e, &a->proc_pids, (uint32_t)pid) {
		struct proc *p = container_of(e, struct proc, by_pid);

		if (p->state != PROC_EXITED)
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
	/* If whoever started us ignored it, we would hear of no exit. */
	if (signal(SIGCHLD, SIG_DFL) == SIG_ERR ||
	    sigprocmask(SIG_SETMASK, &all, NULL) < 0)
		return -errno;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	return io_add(&a->loop, &a->children, fd, EPOLLIN, on_child);
}
