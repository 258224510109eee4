/*
 * A channel is one client of one process: the one that asked for it, or one
 * that attached to it. It lives as long as the connection, at most; processes
 * do not notice that channels come and go, but by what they wait for.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "wire/pack.h"

struct chan *chan_find(struct agent *a, uint32_t number)
{
	struct entry *e;

	e = table_find(&a->chan_numbers, number);
	return e ? container_of(e, struct chan, by_number) : NULL;
}

struct chan *chan_new(struct agent *a, uint32_t number)
{
	struct chan *c = xcalloc(1, sizeof(*c));

	c->agent = a;
	c->number = number;
	list_init(&c->of_proc);
	list_init(&c->out[0].ready);
	list_init(&c->out[1].ready);
	list_add(&a->chans, &c->node);
	table_add(&a->chan_numbers, &c->by_number, number);
	a->n_chans++;
	return c;
}

static void chan_free(struct deferred *d)
{
	free(container_of(d, struct chan, deferred));
}

static void chan_drop(struct chan *c)
{
	struct agent *a = c->agent;

	list_del(&c->out[0].ready);
	list_del(&c->out[1].ready);
	list_del(&c->of_proc);
	list_del(&c->node);
	table_del(&a->chan_numbers, &c->by_number);
	a->n_chans--;
	if (c->proc && !c->mute)
		c->proc->n_readers--;
	buf_done(&c->request);
	loop_defer(&a->loop, &c->deferred, chan_free);
}

static void join(struct chan *c, struct proc *p, const uint64_t from[2])
{
	int i;

	c->proc = p;
	list_add(&p->chans, &c->of_proc);
	for (i = 0; i < 2; i++)
		tap_init(&c->out[i], c, &p->out[i], from[i]);
	if (!c->mute)
		p->n_readers++;
}

void chan_join(struct chan *c, struct proc *p)
{
	join(c, p, (const uint64_t[2]){ 0, 0 });
}

static void send_gap(struct chan *c, const struct tap *t)
{
	struct buf payload = { 0 };

	pack_u8(&payload, t->stream->number);
	pack_u64(&payload, t->sent);
	frame_put(&c->agent->out, FRAME_GAP, 0, c->number, buf_data(&payload),
		  buf_len(&payload));
	buf_done(&payload);
}

void chan_greet(struct chan *c)
{
	struct proc *p = c->proc;
	struct started s = { .pid = (uint32_t)p->pid,
			     .number = p->number,
			     .in = p->in.end,
			     .pty = p->pty };
	int i;

	started_put(&c->agent->out,
		    c->attached ? FRAME_ATTACHED : FRAME_STARTED, c->number,
		    &s);
	if (c->attached)
		c->in.end = c->in.told = p->in.end;
	c->greeted = true;
	for (i = 0; i < 2; i++) {
		if (c->out[i].gap)
			send_gap(c, &c->out[i]);
		tap_ready(&c->out[i]);
	}
}

/*
 * From where a client gets a stream of which it has `offset` bytes. Only what
 * is there: what is not is told by a gap.
 */
static int find_place(const struct stream *s, uint64_t offset, uint64_t *from,
		      struct err *e)
{
	if (offset == OFFSET_NOW)
		offset = s->end;
	if (offset > s->end)
		return err_set(e, EINVAL,
			       "offset %llu is beyond the end of output %d "
			       "(%llu)",
			       (unsigned long long)offset,
			       (int)(s - s->proc->out) + 1,
			       (unsigned long long)s->end);
	*from = offset > stream_start(s) ? offset : stream_start(s);
	return 0;
}

/* Whether this is who was lost: others know less, or want only news. */
static bool is_back(const struct proc *p, const struct attach *at)
{
	int i;

	for (i = 0; i < 2; i++)
		if (at->out[i] == OFFSET_NOW ||
		    at->out[i] < p->out[i].held_from)
			return false;
	return true;
}

static int attach(struct chan *c, const struct attach *at, struct err *e)
{
	struct proc *p = proc_find(c->agent, at->number, at->tag);
	uint64_t from[2] = { 0 };
	int i, r = 0;

	if (!p && at->number)
		return err_set(e, ESRCH, "there is no process %u", at->number);
	if (!p && *at->tag == ':')
		return err_set(e, ESRCH, "there is no process with pid %s",
			       at->tag + 1);
	if (!p)
		return err_set(e, ESRCH, "no process has the tag %s", at->tag);
	c->mute = at->out[0] == OFFSET_NONE;
	for (i = 0; i < 2 && r == 0 && !c->mute; i++)
		r = find_place(&p->out[i], at->out[i], &from[i], e);
	if (r < 0)
		return r;
	kept_del(p);
	if (!c->mute && is_back(p, at))
		timer_del(&c->agent->loop, &p->lost);
	join(c, p, from);
	for (i = 0; i < 2; i++) {
		c->out[i].gap = !c->mute && from[i] != at->out[i] &&
				(at->out[i] != OFFSET_NOW || from[i] > 0);
		stream_resume(&p->out[i]);
	}
	if (p->state != PROC_STARTING) /* else when it runs */
		chan_greet(c);
	if (c->mute)
		chan_finish(c);
	return 0;
}

void chan_attach(struct chan *c, const struct frame *f)
{
	struct attach at;
	struct err e = { 0 };
	int r;

	c->attached = true;
	if (c->agent->n_chans > CHANNELS_MAX)
		r = err_set(&e, EAGAIN, "%d channels are open already",
			    CHANNELS_MAX);
	else if (attach_get(f, &at) < 0)
		r = err_set(&e, EINVAL, "the request is malformed");
	else
		r = attach(c, &at, &e);
	if (r < 0)
		chan_fail(c, &e);
}

void chan_fail(struct chan *c, const struct err *e)
{
	struct proc *p = c->proc;
	struct buf payload = { 0 };

	pack_u32(&payload, (uint32_t)e->code);
	pack_str(&payload, e->msg);
	frame_put(&c->agent->out, FRAME_FAILED, 0, c->number,
		  buf_data(&payload), buf_len(&payload));
	buf_done(&payload);
	chan_drop(c);
	if (p)
		proc_left(p);
}

/* It has all of the output that it gets. */
static bool is_served(const struct chan *c)
{
	return c->mute || (c->out[0].eof_sent && c->out[1].eof_sent);
}

void chan_finish(struct chan *c)
{
	struct proc *p = c->proc;

	if (p->state != PROC_EXITED || !c->greeted || !is_served(c))
		return;
	exit_put(&c->agent->out, c->number, &p->exit);
	p->told = true;
	chan_drop(c);
	proc_left(p);
}

void chan_leave(struct chan *c, bool lost)
{
	struct proc *p = c->proc;

	if (p && lost && !c->mute)
		proc_hold(p, c);
	chan_drop(c);
	if (p)
		proc_left(p);
}

int chan_hush(struct chan *c, bool lost)
{
	struct proc *p = c->proc;

	if (!p)
		return -EBADMSG;
	if (c->mute)
		return 0;
	if (lost)
		proc_hold(p, c);
	c->mute = true;
	p->n_readers--;
	list_del(&c->out[0].ready);
	list_del(&c->out[1].ready);
	if (p->builtin)
		proc_signal(p, SIGHUP); /* it ends with its client */
	proc_left(p);
	chan_finish(c);
	return 0;
}
