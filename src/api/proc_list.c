/*
 * The list of processes: the agent's builtin `ps`, read by us. What it writes
 * is as trustworthy as the sandbox.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/json_text.h"
#include "api/proc_json.h"
#include "api/process.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/clock.h"
#include "wire/ps.h"

enum {
	RECORDS_MAX = 2048,
	WORDS_MAX = 64 * 1024, /* of all argument lists */
	LIST_MS = 10 * 1000,
};

/* The last millisecond of the year 9999. */
static const uint64_t wall_max_ms = 253402300799999;

struct listing {
	struct process proc;
	struct api *api;
	struct http_conn *conn;
	struct buf in;
	json_t *found;
	size_t n_words;
	struct timer late;
};

static void listing_free(struct listing *l)
{
	process_close(&l->proc, false);
	timer_del(&l->api->loop, &l->late);
	buf_done(&l->in);
	json_decref(l->found);
	free(l);
}

static void listing_gone(struct http_conn *c, void *owner)
{
	(void)c;
	listing_free(owner);
}

static json_t *text(const char *s)
{
	return json_lossy(s, strlen(s));
}

static void give_up(struct listing *l)
{
	reply_error(l->api, l->conn, 502, "agent_failed",
		    "the sandbox gave no proper list");
	listing_free(l);
}

static void on_late(struct timer *t)
{
	give_up(container_of(t, struct listing, late));
}

static json_t *argv_json(struct listing *l, const struct ps *r)
{
	json_t *list = json_array();
	const char *word;
	size_t at = 0;

	while (l->n_words++ < WORDS_MAX && (word = ps_arg(r, &at)))
		json_array_append_new(list, text(word));
	return list;
}

static json_t *record_json(struct listing *l, const struct ps *r)
{
	const struct ps_proc *p = &r->proc;
	bool exited = p->state == PS_EXITED;
	char started[CLOCK_STAMP];

	clock_stamp(p->started_ms < wall_max_ms ? p->started_ms : wall_max_ms,
		    started);
	return json_pack(
		"{s:I, s:I, s:o, s:o, s:b, s:o, s:b, s:s, s:s, s:o, "
		"s:I, s:I}",
		"number", (json_int_t)p->number, "pid", (json_int_t)p->pid,
		"tag", *p->tag ? text(p->tag) : json_null(), "argv",
		argv_json(l, r), "argv_cut", r->cut, "user", text(p->user),
		"tty", p->pty, "state", exited ? "exited" : "running",
		"started_at", started, "exit",
		exited ? exit_json(&p->exit) : json_null(), "stdout_end",
		(json_int_t)p->out[0], "stderr_end", (json_int_t)p->out[1]);
}

/* What is left is the start of a record; -EBADMSG. */
static int take_records(struct listing *l)
{
	struct ps r;
	int n;

	while ((n = ps_get(&l->in, &r)) > 0) {
		if (json_array_size(l->found) == RECORDS_MAX ||
		    l->n_words > WORDS_MAX)
			return -EBADMSG;
		if (r.kind == PS_PROC)
			json_array_append_new(l->found, record_json(l, &r));
		buf_eat(&l->in, (size_t)n);
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
	struct listing *l = container_of(p, struct listing, proc);

	process_consumed(p, stream, n);
	if (stream != 1)
		return;
	buf_add(&l->in, data, n);
	if (take_records(l) < 0)
		give_up(l);
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	struct listing *l = container_of(p, struct listing, proc);

	if (x && (buf_len(&l->in) > 0 || x->signaled || x->code)) {
		give_up(l);
		return;
	}
	if (e)
		reply_err(l->api, l->conn, e);
	else
		reply_json(l->api, l->conn, 200,
			   json_pack("{s:O}", "processes", l->found));
	listing_free(l);
}

static const struct process_ops ops = {
	.started = on_started,
	.output = on_output,
	.ended = on_ended,
};

void h_process_list(struct api *a, struct http_conn *c, const struct call *call)
{
	const char *argv[] = { "ps", NULL };
	struct spawn sp = { .flags = SPAWN_BUILTIN, .argc = 1, .argv = argv };
	struct err e = { 0 };
	struct sandbox *s = box_find(a, &call->who, call->arg[0], &e);
	struct listing *l;

	if (!s) {
		reply_err(a, c, &e);
		return;
	}
	l = xcalloc(1, sizeof(*l));
	l->proc.ops = &ops;
	l->api = a;
	l->conn = c;
	l->found = json_array();
	if (process_spawn(&l->proc, s, &sp, &e) < 0) {
		reply_err(a, c, &e);
		listing_free(l);
		return;
	}
	http_own(c, l, listing_gone);
	timer_set(&a->loop, &l->late, LIST_MS, on_late);
}
