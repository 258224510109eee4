#include "api/ps_query.h"

#include <errno.h>

#include "api/api.h"

enum { LATE_MS = 10 * 1000 };

void ps_query_stop(struct ps_query *q)
{
	process_close(&q->proc, false);
	if (q->loop)
		timer_del(q->loop, &q->late);
	buf_done(&q->in);
}

static void give_up(struct ps_query *q)
{
	struct err e = { 0 };

	ps_query_stop(q);
	err_set(&e, EPROTO, "the sandbox gave no proper list of processes");
	q->done(q, &e);
}

static void on_late(struct timer *t)
{
	give_up(container_of(t, struct ps_query, late));
}

/* What is left is the start of a record; -EBADMSG. */
static int take_records(struct ps_query *q)
{
	struct ps r;
	int n;

	while ((n = ps_get(&q->in, &r)) > 0) {
		if (++q->n > PS_RECORDS_MAX ||
		    (r.kind == PS_PROC && !q->found(q, &r)))
			return -EBADMSG;
		buf_eat(&q->in, (size_t)n);
	}
	return n;
}

static void on_started(struct process *p)
{
	(void)p;
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	struct ps_query *q = container_of(p, struct ps_query, proc);

	process_consumed(p, stream, n);
	if (stream != 1)
		return;
	buf_add(&q->in, data, n);
	if (take_records(q) < 0)
		give_up(q);
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	struct ps_query *q = container_of(p, struct ps_query, proc);

	if (x && (buf_len(&q->in) > 0 || x->signaled || x->code)) {
		give_up(q);
		return;
	}
	ps_query_stop(q);
	q->done(q, e);
}

static const struct process_ops ops = {
	.started = on_started,
	.output = on_output,
	.ended = on_ended,
};

int ps_query_start(struct ps_query *q, struct sandbox *s, struct err *e)
{
	const char *argv[] = { "ps", NULL };
	struct spawn sp = { .flags = SPAWN_BUILTIN, .argc = 1, .argv = argv };
	int r;

	q->proc.ops = &ops;
	q->loop = &s->api->loop;
	r = process_spawn(&q->proc, s, &sp, e);
	if (r < 0)
		return r;
	timer_set(q->loop, &q->late, LATE_MS, on_late);
	return 0;
}
