/*
 * What a process reads: frames go straight into its pipe or terminal; what
 * does not fit waits, at most one window of it. Input for a process that has
 * closed its end is taken and forgotten, as a shell's pipe would.
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

/* Once per frame or write: at once when nothing waits, else by quarters. */
static void tell(struct proc *p)
{
	struct input *in = &p->in;
	struct buf *out = conn_out(p);
	uint64_t more = in->done - in->told;
	struct buf payload = { 0 };

	if (!out || more == 0)
		return;
	if (buf_len(&in->waiting) > 0 && more < WIRE_WINDOW / 4)
		return;
	in->told = in->done;
	pack_u64(&payload, in->told);
	frame_put(out, FRAME_INPUT_ACK, 0, p->channel, buf_data(&payload),
		  buf_len(&payload));
	buf_done(&payload);
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
	if (p->pty)
		end_terminal(p);
	else
		input_close(p);
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
	tell(p);
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

int input_add(struct proc *p, uint64_t offset, const void *data, size_t n)
{
	struct input *in = &p->in;

	if (offset != in->end || in->eof ||
	    n > WIRE_WINDOW - (size_t)(in->end - in->told))
		return -EBADMSG;
	if (n == 0)
		return 0;
	in->end += n;
	in->line = ((const char *)data)[n - 1] == '\n';
	if (in->io.fd >= 0)
		push(p, data, n);
	else
		in->done = in->end;
	tell(p);
	return 0;
}

void input_eof(struct proc *p)
{
	p->in.eof = true;
	finish(p);
}
