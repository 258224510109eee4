/*
 * What a process reads: frames go straight into its pipe or terminal; what
 * does not fit waits in one queue, at most a window of each channel. Input for
 * a process that has closed its end is taken and forgotten, as a shell's pipe
 * would. What a channel sent goes on when it leaves.
 */
#include <errno.h>
#include <termios.h>
#include <unistd.h>

#include "agent/agent.h"
#include "wire/pack.h"

static void input_close(struct proc *p)
{
	io_close(&p->agent->loop, &p->in.io);
	p->in.done += buf_len(&p->in.waiting);
	buf_done(&p->in.waiting);
}

void input_done(struct proc *p)
{
	input_close(p);
}

/*
 * How much of the channel's own input is consumed. Exactly, while it writes
 * alone; where others came between, what was before its latest run of bytes
 * counts when that is reached: later, never too early.
 */
static uint64_t consumed(struct chan *c)
{
	uint64_t done = c->proc->in.done;

	if (done >= c->in.run_end)
		c->in.waiting = 0;
	else if (done > c->in.run_at)
		c->in.waiting = c->in.run_end - done;
	return c->in.end - c->in.waiting;
}

/* Once per frame or write: at once when nothing waits, else by quarters. */
static void tell(struct chan *c)
{
	uint64_t more = consumed(c) - c->in.told;
	struct buf payload = { 0 };

	if (more == 0)
		return;
	if (buf_len(&c->proc->in.waiting) > 0 && more < WIRE_WINDOW / 4)
		return;
	c->in.told += more;
	pack_u64(&payload, c->in.told);
	frame_put(&c->agent->out, FRAME_INPUT_ACK, 0, c->number,
		  buf_data(&payload), buf_len(&payload));
	buf_done(&payload);
}

static void tell_all(struct proc *p)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &p->chans)
		tell(container_of(pos, struct chan, of_proc));
}

/* A terminal has no end: its reader is told by the end-of-file character. */
static void end_terminal(struct proc *p)
{
	char eof[2];
	struct termios t;

	if (tcgetattr(p->in.io.fd, &t) < 0 || !(t.c_lflag & ICANON))
		return;
	/* In the middle of a line the first one only hands the line over. */
	eof[0] = eof[1] = (char)t.c_cc[VEOF];
	if (write(p->in.io.fd, eof, p->in.line ? 1 : 2) < 0)
		return; /* full: its reader is not waiting for us */
}

static void finish(struct proc *p)
{
	if (!p->in.eof || p->in.io.fd < 0 || buf_len(&p->in.waiting) > 0)
		return;
	if (!p->pty) {
		input_close(p);
		return;
	}
	end_terminal(p);
	p->in.eof = false; /* others may type on */
}

static void input_writable(struct io *io, uint32_t events)
{
	struct proc *p = container_of(io, struct proc, in.io);
	ssize_t n = buf_write(&p->in.waiting, io->fd);

	(void)events;
	if (n == -EAGAIN)
		return;
	if (n < 0)
		input_close(p);
	else
		p->in.done += (uint64_t)n;
	if (buf_len(&p->in.waiting) == 0)
		io_del(&p->agent->loop, io);
	finish(p);
	tell_all(p);
}

/* As much as the pipe takes now; the rest waits for the loop. */
static void push(struct proc *p, const char *data, size_t n)
{
	struct input *in = &p->in;
	ssize_t w = 0;

	if (buf_len(&in->waiting) == 0) {
		do
			w = write(in->io.fd, data, n);
		while (w < 0 && errno == EINTR);
		if (w < 0 && errno != EAGAIN) {
			input_close(p);
			in->done = in->end;
			return;
		}
		if (w < 0)
			w = 0;
		in->done += (uint64_t)w;
	}
	if ((size_t)w == n)
		return;
	buf_add(&in->waiting, data + w, n - (size_t)w);
	if (!in->io.armed && io_add(&p->agent->loop, &in->io, in->io.fd,
				    EPOLLOUT, input_writable) < 0)
		input_close(p);
}

/* Into the queue, and that to the process. */
static void give(struct chan *c, const void *data, size_t n)
{
	struct proc *p = c->proc;
	struct input *in = &p->in;

	if (c->in.run_end != in->end)
		c->in.run_at = in->end;
	in->end += n;
	c->in.run_end = in->end;
	c->in.waiting += n;
	in->line = ((const char *)data)[n - 1] == '\n';
	push(p, data, n);
}

int input_add(struct chan *c, uint64_t offset, const void *data, size_t n)
{
	struct input *in = &c->proc->in;
	struct err e = { 0 };

	if (offset != c->in.end || c->in.eof || (c->attached && !c->greeted) ||
	    n > WIRE_WINDOW - (size_t)(c->in.end - c->in.told))
		return -EBADMSG;
	if (n == 0)
		return 0;
	if (buf_len(&in->waiting) + n > INPUT_WAIT_MAX) {
		err_set(&e, EAGAIN, "process %u does not read its input",
			c->proc->number);
		chan_fail(c, &e);
		return 0;
	}
	c->in.end += n;
	if (in->io.fd >= 0 && !in->eof)
		give(c, data, n);
	tell_all(c->proc);
	return 0;
}

void input_eof(struct chan *c)
{
	c->in.eof = true;
	c->proc->in.eof = true;
	finish(c->proc);
}
