/*
 * From a process to an event stream. What the client has not taken is held
 * here as bytes, at most a window of each stream, and is acknowledged to the
 * agent only when the client's socket has it: a client that comes back with
 * the offsets it saw misses nothing, even if this program was killed between.
 */
#include "api/proc_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/event_stream.h"
#include "api/json_text.h"
#include "api/proc_json.h"
#include "api/process.h"
#include "http/target.h"

enum { PIECE = 32 * 1024 }; /* of an event */

static const char *const stream_names[2] = { "stdout", "stderr" };

struct out {
	struct buf held;
	uint64_t next; /* offset of what is held, or comes */
	size_t given;  /* to the client, not yet acknowledged */
};

struct proc_stream {
	struct process proc;
	struct api *api;
	struct http_conn *conn;
	struct event_stream es;
	char tag[TAG_MAX + 1];
	struct out out[2];
	bool waiting; /* until the client took what was given */
	bool ended;
	json_t *last; /* the event of its end */
};

static void stream_free(struct proc_stream *ps)
{
	event_stream_gone(&ps->es);
	buf_done(&ps->out[0].held);
	buf_done(&ps->out[1].held);
	json_decref(ps->last);
	free(ps);
}

static void stream_gone(struct http_conn *c, void *owner)
{
	struct proc_stream *ps = owner;

	(void)c;
	process_close(&ps->proc, true);
	stream_free(ps);
}

/* The offsets that the client has once it has this event. */
static struct buf *begin_event(struct proc_stream *ps)
{
	char id[48];

	snprintf(id, sizeof(id), "%llu.%llu",
		 (unsigned long long)ps->out[0].next,
		 (unsigned long long)ps->out[1].next);
	return event_stream_begin(&ps->es, id);
}

static bool send_output(struct proc_stream *ps, unsigned i, size_t n)
{
	struct out *o = &ps->out[i];
	const char *p = buf_data(&o->held);
	uint64_t offset = o->next;
	struct buf *b;

	o->next += n;
	o->given += n;
	b = begin_event(ps);
	buf_printf(b, "{\"type\":\"output\",\"stream\":\"%s\",\"offset\":%llu,",
		   stream_names[i], (unsigned long long)offset);
	if (http_is_utf8(p, n)) {
		buf_puts(b, "\"data\":\"");
		json_text_add(b, p, n);
	} else {
		buf_puts(b, "\"base64\":\"");
		base64_add(b, p, n);
	}
	buf_puts(b, "\"}");
	buf_eat(&o->held, n);
	return event_stream_commit(&ps->es);
}

/*
 * As much as the client takes. The start of a character whose rest is missing
 * waits for it, unless `all` is to go.
 */
static void send_held(struct proc_stream *ps, bool all)
{
	bool more = true;
	unsigned i;

	for (i = 0; i < 2; i++)
		while (more && buf_len(&ps->out[i].held) > 0) {
			size_t n = buf_len(&ps->out[i].held), whole;

			n = n < PIECE ? n : PIECE;
			whole = utf8_whole(buf_data(&ps->out[i].held), n);
			if (whole == 0 && !all)
				break;
			more = send_output(ps, i, whole ? whole : n);
		}
	if (ps->out[0].given + ps->out[1].given > 0) {
		ps->waiting = true;
		http_reply_drain(ps->conn);
	}
}

/* True: it is over, and so is `ps`. */
static bool finish(struct proc_stream *ps)
{
	if (!ps->ended || buf_len(&ps->out[0].held) > 0 ||
	    buf_len(&ps->out[1].held) > 0)
		return false;
	event_stream_send(&ps->es, ps->last, NULL);
	ps->last = NULL;
	event_stream_end(&ps->es);
	stream_free(ps);
	return true;
}

static void on_ready(struct http_conn *c, void *owner)
{
	struct proc_stream *ps = owner;
	unsigned i;

	(void)c;
	ps->waiting = false;
	for (i = 0; i < 2; i++) {
		process_consumed(&ps->proc, i + 1, ps->out[i].given);
		ps->out[i].given = 0;
	}
	send_held(ps, ps->ended);
	finish(ps);
}

static void on_quiet(struct event_stream *es)
{
	struct proc_stream *ps = container_of(es, struct proc_stream, es);

	if (!ps->waiting)
		send_held(ps, true);
}

static void on_started(struct process *p)
{
	struct proc_stream *ps = container_of(p, struct proc_stream, proc);
	json_t *j = started_json(p->number, p->pid, ps->tag);

	json_object_set_new(j, "type", json_string("started"));
	event_stream_start(&ps->es, ps->api, ps->conn, on_ready);
	event_stream_send(&ps->es, j, NULL);
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	struct proc_stream *ps = container_of(p, struct proc_stream, proc);

	buf_add(&ps->out[stream - 1].held, data, n);
	if (!ps->waiting)
		send_held(ps, false);
}

static void on_gap(struct process *p, unsigned stream, uint64_t lost)
{
	struct proc_stream *ps = container_of(p, struct proc_stream, proc);

	ps->out[stream - 1].next = p->out[stream - 1];
	buf_printf(begin_event(ps),
		   "{\"type\":\"gap\",\"stream\":\"%s\",\"offset\":%llu,"
		   "\"lost\":%llu}",
		   stream_names[stream - 1],
		   (unsigned long long)p->out[stream - 1],
		   (unsigned long long)lost);
	event_stream_commit(&ps->es);
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	struct proc_stream *ps = container_of(p, struct proc_stream, proc);

	if (!ps->es.open) {
		reply_spawn_err(ps->api, ps->conn, e);
		stream_free(ps);
		return;
	}
	ps->ended = true;
	ps->last = x ? json_pack("{s:o}", "exit", exit_json(x)) : error_json(e);
	json_object_set_new(ps->last, "type",
			    json_string(x ? "exit" : "error"));
	if (!ps->waiting)
		send_held(ps, true);
	finish(ps);
}

static const struct process_ops ops = {
	.started = on_started,
	.output = on_output,
	.gap = on_gap,
	.ended = on_ended,
};

void proc_stream_start(struct api *a, struct http_conn *c, struct sandbox *s,
		       const struct identity *who, const struct spawn *sp,
		       const struct attach *at)
{
	const char *tag = sp ? sp->tag : at->tag;
	struct proc_stream *ps = xcalloc(1, sizeof(*ps));
	struct err e = { 0 };
	int i, r;

	ps->proc.ops = &ops;
	ps->proc.who = who;
	ps->proc.request_id = http_request_id(c);
	ps->api = a;
	ps->conn = c;
	ps->es.on_quiet = on_quiet;
	if (tag)
		memcpy(ps->tag, tag, strlen(tag));
	for (i = 0; i < 2 && !sp; i++)
		ps->out[i].next = at->out[i];
	r = sp ? process_spawn(&ps->proc, s, sp, &e)
	       : process_attach(&ps->proc, s, at, &e);
	if (r < 0) {
		reply_spawn_err(a, c, &e);
		stream_free(ps);
		return;
	}
	http_own(c, ps, stream_gone);
}
