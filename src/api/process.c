/* Frames of a channel as callbacks; agent_link.c has checked each of them. */
#include "api/process.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/proc_log.h"
#include "api/spawn_spec.h"
#include "http/target.h"
#include "wire/pack.h"

enum {
	ACK_STEP = WIRE_WINDOW / 4, /* consumed before we say so */
	INPUT_PIECE = 32 * 1024,
	ERRNO_MAX = 4095,
};

/* --- from the agent --- */

static void frame_started(struct process *p, const struct frame *f)
{
	struct started s;
	int i;

	if (started_get(f, &s) < 0)
		return;
	p->number = s.number;
	p->pid = s.pid;
	p->tty |= s.pty;
	p->in = p->chan->in;
	for (i = 0; i < 2; i++)
		if (p->out[i] == OFFSET_NOW)
			p->out[i] = p->consumed[i] = p->acked[i] = 0;
	p->started = true;
	p->ops->started(p);
}

static void frame_output(struct process *p, const struct frame *f)
{
	enum { DATA = 1 + 8 };
	unsigned stream = f->payload[0];

	p->out[stream - 1] = p->chan->out[stream - 1];
	p->ops->output(p, stream, f->payload + DATA, f->len - DATA);
}

static void frame_gap(struct process *p, const struct frame *f)
{
	unsigned stream = f->payload[0], i = stream - 1;
	uint64_t had = p->out[i], now = p->chan->out[i];

	p->out[i] = p->consumed[i] = p->acked[i] = now;
	if (p->ops->gap)
		p->ops->gap(p, stream, now - had);
}

static void make_room(struct process *p)
{
	if (!p->want_room)
		return;
	p->want_room = false;
	if (p->ops->room)
		p->ops->room(p);
}

/* Words of an agent go into our log: one line of text, whatever they are. */
static void clean(char *s)
{
	bool text = http_is_utf8(s, strlen(s));

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c == 0x7f || (c > 0x7f && !text))
			*s = '?';
	}
}

static void frame_failed(struct process *p, const struct frame *f)
{
	struct unpack u = unpack_init(f->payload, f->len);
	uint32_t code = unpack_u32(&u);
	struct err e = { 0 };

	err_set(&e, code > 0 && code <= ERRNO_MAX ? (int)code : EIO, "%s",
		unpack_str(&u));
	clean(e.msg);
	p->ops->ended(p, NULL, &e);
}

static void frame_exit(struct process *p, const struct frame *f)
{
	struct exit_info x = { 0 };

	if (exit_get(f, &x) == 0)
		p->ops->ended(p, &x, NULL);
}

static void frame_last(struct process *p, const struct frame *f)
{
	p->chan = NULL;
	if (f->type == FRAME_FAILED)
		frame_failed(p, f);
	else
		frame_exit(p, f);
}

static int chan_frame(struct chan *ch, const struct frame *f, uint8_t *raw,
		      bool last)
{
	struct process *p = ch->owner;

	(void)raw;
	if (last)
		frame_last(p, f);
	else if (f->type == FRAME_STARTED || f->type == FRAME_ATTACHED)
		frame_started(p, f);
	else if (f->type == FRAME_OUTPUT)
		frame_output(p, f);
	else if (f->type == FRAME_GAP)
		frame_gap(p, f);
	else if (f->type == FRAME_INPUT_ACK)
		make_room(p);
	return FRAME_GO_ON;
}

static void chan_failed(struct chan *ch, int code, const char *msg)
{
	struct process *p = ch->owner;
	struct err e = { 0 };

	p->chan = NULL;
	err_set(&e, code, "%s", msg);
	p->ops->ended(p, NULL, &e);
}

static void acknowledge(struct process *p, unsigned stream);

static void chan_drained(struct chan *ch)
{
	struct process *p = ch->owner;

	acknowledge(p, 1);
	acknowledge(p, 2);
	make_room(p);
}

static const struct chan_ops process_chan = {
	.frame = chan_frame,
	.failed = chan_failed,
	.drained = chan_drained,
};

/* --- to the agent --- */

static int open_chan(struct process *p, struct sandbox *s, struct err *e)
{
	int r = 0;

	if (!p->between)
		r = box_usable(s, p->who, p->request_id, e);
	if (r == 0)
		r = agent_connect(s, e);
	if (r < 0)
		return r;
	/* Requests stay queued when those who made them leave. */
	if (agent_is_full(&s->agent))
		return err_set(e, EAGAIN,
			       "sandbox %s does not take what it is sent",
			       s->id);
	p->chan = chan_new(&s->agent, &process_chan, p, 0);
	if (!p->chan)
		return err_set(e, EMFILE,
			       "sandbox %s has too many processes with "
			       "clients",
			       s->id);
	return 0;
}

static struct buf *out_of(struct process *p)
{
	return endpoint_out(&p->chan->agent->ep);
}

int process_spawn(struct process *p, struct sandbox *s, const struct spawn *sp,
		  struct err *e)
{
	json_t *more;
	int r = open_chan(p, s, e);

	if (r < 0)
		return r;
	more = gate_env(s);
	p->tty = sp->flags & SPAWN_PTY;
	p->chan->note = proc_note_new(s, sp, p->who, p->request_id);
	r = spawn_put_spec(out_of(p), p->chan->agent_no, sp, &s->spec, more);
	json_decref(more);
	if (r < 0) {
		chan_free(p->chan);
		p->chan = NULL;
		return err_set(e, E2BIG, "arguments and environment too large");
	}
	return 0;
}

int process_attach(struct process *p, struct sandbox *s,
		   const struct attach *at, struct err *e)
{
	int r = open_chan(p, s, e), i;

	if (r < 0)
		return r;
	for (i = 0; i < 2; i++)
		p->out[i] = p->consumed[i] = p->acked[i] = at->out[i];
	chan_attach(p->chan, at);
	return 0;
}

/* An agent that takes nothing gets no further window, either. */
static void acknowledge(struct process *p, unsigned stream)
{
	unsigned i = stream - 1;
	struct buf b = { 0 };

	if (p->consumed[i] - p->acked[i] < ACK_STEP)
		return;
	if (agent_is_full(p->chan->agent)) {
		p->chan->agent->starved = true;
		return;
	}
	p->acked[i] = p->chan->out_acked[i] = p->consumed[i];
	pack_u8(&b, (uint8_t)stream);
	pack_u64(&b, p->acked[i]);
	frame_put(out_of(p), FRAME_ACK, 0, p->chan->agent_no, buf_data(&b),
		  buf_len(&b));
	buf_done(&b);
}

void process_consumed(struct process *p, unsigned stream, size_t n)
{
	p->consumed[stream - 1] += n;
	if (p->chan)
		acknowledge(p, stream);
}

size_t process_input(struct process *p, const void *data, size_t n)
{
	struct chan *ch = p->chan;
	const char *at = data;
	size_t room, left;

	if (!ch || ch->in_eof)
		return n; /* nobody reads it: as for a closed pipe */
	room = WIRE_WINDOW - (size_t)(ch->in - ch->in_acked);
	if (ch->attach && !p->started)
		return 0;
	if (agent_is_full(ch->agent)) {
		ch->agent->starved = true;
		room = 0;
	}
	left = n < room ? n : room;
	p->want_room = left < n;
	n = left;
	while (left > 0) {
		size_t piece = left < INPUT_PIECE ? left : INPUT_PIECE;

		frame_put_data(out_of(p), FRAME_INPUT, ch->agent_no, 0, ch->in,
			       at, piece);
		ch->in += piece;
		at += piece;
		left -= piece;
	}
	p->in = ch->in;
	return n;
}

void process_input_eof(struct process *p)
{
	if (!p->chan || p->chan->in_eof)
		return;
	p->chan->in_eof = true;
	frame_put(out_of(p), FRAME_INPUT_EOF, 0, p->chan->agent_no, NULL, 0);
}

void process_resize(struct process *p, uint16_t rows, uint16_t cols)
{
	struct buf b = { 0 };

	if (!p->chan)
		return;
	pack_u16(&b, rows);
	pack_u16(&b, cols);
	frame_put(out_of(p), FRAME_RESIZE, 0, p->chan->agent_no, buf_data(&b),
		  buf_len(&b));
	buf_done(&b);
}

void process_signal(struct process *p, int sig)
{
	if (p->chan)
		frame_put(out_of(p), FRAME_SIGNAL, 0, p->chan->agent_no,
			  &(uint8_t){ (uint8_t)sig }, 1);
}

void process_close(struct process *p, bool lost)
{
	if (p->chan)
		chan_leave(p->chan, lost);
	p->chan = NULL;
}
