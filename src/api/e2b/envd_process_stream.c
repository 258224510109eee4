/*
 * From a process to the envelopes of Start and Connect. As in proc_stream.c,
 * what the client's socket has not taken is not acknowledged: a slow client
 * slows the process, and nothing piles up here.
 *
 * A client that leaves does not end its process. The time that it gave the
 * process ends it, whether somebody is still listening or not: then this goes
 * on without a connection, and without output.
 */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/connect.h"
#include "api/e2b/envd_process.h"
#include "api/proc_json.h"
#include "api/process.h"
#include "base/base64.h"
#include "base/str.h"

enum {
	PIECE = 30 * 1024,  /* of an event; a multiple of 3 */
	STEP_MS = 5 * 1000, /* in which time is counted */
};

/* The longest time a client may name: ten digits. */
static const uint64_t timeout_max_ms = 9999999999;

struct out {
	struct buf held;
	size_t given; /* to the client, not yet acknowledged */
};

struct stream {
	struct process proc;
	struct api *api;
	struct http_conn *conn; /* NULL: the client left */
	struct connect_stream cs;
	struct envd_stream_request request;
	bool ours; /* we started it: its time is up when ours is */
	struct timer deadline;
	uint64_t left_ms, step_ms; /* of its time; until the timer */
	struct out out[2];
	bool waiting; /* until the client took what was given */
	bool ended;
	struct exit_info exit;
};

static void stream_free(struct stream *s)
{
	process_close(&s->proc, false);
	connect_gone(&s->cs);
	timer_del(&s->api->loop, &s->deadline);
	buf_done(&s->out[0].held);
	buf_done(&s->out[1].held);
	free(s);
}

/* --- without a client --- */

static const struct process_ops mute_ops;

/* Waits for the end of the process, or for that of its time. */
static void stay_mute(struct stream *s)
{
	struct sandbox *box = box_by_id(s->api, s->request.id);
	struct attach at = { .number = s->proc.number,
			     .out = { OFFSET_NONE, OFFSET_NONE } };
	struct err e = { 0 };

	process_close(&s->proc, false);
	s->proc = (struct process){ .ops = &mute_ops };
	if (!box || process_attach(&s->proc, box, &at, &e) < 0)
		stream_free(s);
}

static void mute_started(struct process *p)
{
	(void)p;
}

static void mute_output(struct process *p, unsigned stream, const void *data,
			size_t n)
{
	(void)data;
	process_consumed(p, stream, n);
}

static void mute_ended(struct process *p, const struct exit_info *x,
		       const struct err *e)
{
	(void)x;
	(void)e;
	stream_free(container_of(p, struct stream, proc));
}

static const struct process_ops mute_ops = {
	.started = mute_started,
	.output = mute_output,
	.ended = mute_ended,
};

static void stream_gone(struct http_conn *c, void *owner)
{
	struct stream *s = owner;

	(void)c;
	s->conn = NULL;
	connect_gone(&s->cs);
	buf_done(&s->out[0].held);
	buf_done(&s->out[1].held);
	if (!s->ours || !s->deadline.slot)
		stream_free(s);
	else if (s->proc.number)
		stay_mute(s);
}

/* --- events --- */

static void send_start(struct stream *s)
{
	buf_printf(connect_begin(&s->cs),
		   "{\"event\":{\"start\":{\"pid\":%u}}}", s->proc.pid);
	connect_commit(&s->cs);
}

static bool send_output(struct stream *s, unsigned i, size_t n)
{
	static const char *const names[] = { "stdout", "stderr" };
	struct out *o = &s->out[i];
	struct buf *b = connect_begin(&s->cs);

	buf_printf(b, "{\"event\":{\"data\":{\"%s\":\"",
		   s->proc.tty ? "pty" : names[i]);
	base64_add(b, buf_data(&o->held), n);
	buf_puts(b, "\"}}}");
	o->given += n;
	buf_eat(&o->held, n);
	return connect_commit(&s->cs);
}

/* As much as the client takes. */
static void send_held(struct stream *s)
{
	bool more = true;
	unsigned i;

	for (i = 0; i < 2; i++)
		while (more && buf_len(&s->out[i].held) > 0) {
			size_t n = buf_len(&s->out[i].held);

			more = send_output(s, i, n < PIECE ? n : PIECE);
		}
	if (s->out[0].given + s->out[1].given > 0) {
		s->waiting = true;
		http_reply_drain(s->conn);
	}
}

/* The words are those of Go's os.ProcessState, which clients may know. */
static void send_end(struct stream *s)
{
	const struct exit_info *x = &s->exit;
	const char *name = x->signaled ? sigdescr_np((int)x->code) : NULL;
	char status[64];
	json_t *end;

	if (name)
		snprintf(status, sizeof(status), "signal: %c%s",
			 tolower(name[0]), name + 1);
	else
		snprintf(status, sizeof(status), "%s %u",
			 x->signaled ? "signal:" : "exit status", x->code);
	end = json_pack("{s:i, s:b, s:s}", "exitCode",
			x->signaled ? -1 : (int)x->code, "exited", !x->signaled,
			"status", status);
	if (x->signaled || x->code)
		json_object_set_new(end, "error", json_string(status));
	connect_send_json(&s->cs, json_pack("{s:{s:o}}", "event", "end", end));
}

/* True: it is over, and so is `s`. */
static bool finish(struct stream *s)
{
	if (!s->ended || buf_len(&s->out[0].held) > 0 ||
	    buf_len(&s->out[1].held) > 0)
		return false;
	send_end(s);
	connect_end(&s->cs, NULL, NULL);
	stream_free(s);
	return true;
}

static void on_ready(struct http_conn *c, void *owner)
{
	struct stream *s = owner;
	unsigned i;

	(void)c;
	s->waiting = false;
	for (i = 0; i < 2; i++) {
		process_consumed(&s->proc, i + 1, s->out[i].given);
		s->out[i].given = 0;
	}
	send_held(s);
	finish(s);
}

/* --- the process --- */

static void on_started(struct process *p)
{
	struct stream *s = container_of(p, struct stream, proc);

	if (!s->conn) {
		stay_mute(s);
		return;
	}
	connect_start(&s->cs, s->api, s->conn, "{\"event\":{\"keepalive\":{}}}",
		      on_ready);
	send_start(s);
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	struct stream *s = container_of(p, struct stream, proc);

	buf_add(&s->out[stream - 1].held, data, n);
	if (!s->waiting)
		send_held(s);
}

/* A user that is not there is, to clients, somebody who may not. */
static void refuse(struct api *a, struct http_conn *c, const char *user,
		   const struct err *e)
{
	char msg[E2B_USER_CAP + 32];

	if (*user && e->code == EINVAL && str_starts(e->msg, "user '")) {
		snprintf(msg, sizeof(msg), "invalid username: '%s'", user);
		connect_refuse(a, c, "unauthenticated", msg);
		return;
	}
	connect_refuse(a, c,
		       spawn_err_is_ours(e->code) ? connect_code(e->code)
						  : "invalid_argument",
		       e->msg);
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	struct stream *s = container_of(p, struct stream, proc);
	struct http_conn *c = s->conn;

	if (x && c) {
		timer_del(&s->api->loop, &s->deadline);
		s->ended = true;
		s->exit = *x;
		if (!s->waiting)
			send_held(s);
		finish(s);
		return;
	}
	/* In the middle of it the sandbox is gone: clients take a connection
	 * that breaks for that, and ask. */
	if (c && s->cs.conn)
		http_reply_cut(c);
	else if (c)
		refuse(s->api, c, s->request.user, e);
	stream_free(s);
}

static const struct process_ops ops = {
	.started = on_started,
	.output = on_output,
	.ended = on_ended,
};

/* --- time --- */

int envd_stream_timeout(const struct http_conn *c, uint64_t *ms, struct err *e)
{
	const char *text = http_header(http_request(c), "connect-timeout-ms");

	*ms = 0;
	if (text && parse_u64(text, timeout_max_ms, ms) < 0)
		return err_set(e, EINVAL,
			       "Connect-Timeout-Ms is not a number of "
			       "milliseconds");
	return 0;
}

static void time_is_up(struct stream *s)
{
	if (s->ours)
		process_signal(&s->proc, SIGKILL);
	if (s->conn && s->cs.conn)
		connect_end(&s->cs, "deadline_exceeded",
			    "the time of this call is over");
	else if (s->conn)
		connect_refuse(s->api, s->conn, "deadline_exceeded",
			       "the time of this call is over");
	stream_free(s);
}

static void on_step(struct timer *t);

static void next_step(struct stream *s)
{
	s->step_ms = s->left_ms < STEP_MS ? s->left_ms : STEP_MS;
	timer_set(&s->api->loop, &s->deadline, s->step_ms, on_step);
}

/* While its sandbox is paused a process has no time, and uses none up. */
static void on_step(struct timer *t)
{
	struct stream *s = container_of(t, struct stream, deadline);
	const struct sandbox *box = box_by_id(s->api, s->request.id);

	if (!s->ours || !box || box->state != BOX_PAUSED)
		s->left_ms -= s->step_ms;
	if (s->left_ms > 0)
		next_step(s);
	else
		time_is_up(s);
}

void envd_stream(struct api *a, struct http_conn *c,
		 const struct envd_stream_request *q, const struct spawn *sp,
		 const struct attach *at)
{
	struct stream *s = xcalloc(1, sizeof(*s));
	struct sandbox *box = box_by_id(a, q->id);
	struct err e = { 0 };
	int r;

	s->proc.ops = &ops;
	s->proc.who = &q->who;
	s->proc.request_id = http_request_id(c);
	s->api = a;
	s->conn = c;
	s->request = *q;
	s->ours = sp;
	if (!box)
		r = err_set(&e, ENOENT, "sandbox %s is gone", q->id);
	else
		r = sp ? process_spawn(&s->proc, box, sp, &e)
		       : process_attach(&s->proc, box, at, &e);
	if (r < 0) {
		connect_refuse(a, c, connect_code(e.code), e.msg);
		stream_free(s);
		return;
	}
	s->left_ms = q->timeout_ms;
	if (s->left_ms > 0)
		next_step(s);
	http_own(c, s, stream_gone);
}
