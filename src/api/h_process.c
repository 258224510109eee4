/*
 * Requests about processes. Each opens a channel of its own, for as long as
 * the request lasts; the process does not notice.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/event_stream.h"
#include "api/proc_json.h"
#include "api/proc_stream.h"
#include "api/process.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/str.h"
#include "http/target.h"

enum { WAIT_MAX_MS = 24 * 3600 * 1000 };

struct op {
	struct process proc;
	struct api *api;
	struct http_conn *conn;
	struct call call;
	struct timer timeout;
	bool stream, eof, detach;
	int sig;
	uint16_t rows, cols;
	char tag[TAG_MAX + 1];
};

static void op_free(struct op *o)
{
	process_close(&o->proc, false);
	timer_del(&o->api->loop, &o->timeout);
	free(o);
}

static void op_gone(struct http_conn *c, void *owner)
{
	(void)c;
	op_free(owner);
}

static struct op *op_new(struct api *a, struct http_conn *c,
			 const struct call *call)
{
	struct op *o = xcalloc(1, sizeof(*o));

	o->api = a;
	o->conn = c;
	o->call = *call;
	http_own(c, o, op_gone);
	return o;
}

static void op_fail(struct op *o, const struct err *e)
{
	reply_spawn_err(o->api, o->conn, e);
	op_free(o);
}

/* A request that makes no sense, or is about nothing there. */
static void op_refuse(struct op *o, const struct err *e)
{
	reply_err(o->api, o->conn, e);
	op_free(o);
}

static void op_done(struct op *o)
{
	reply_empty(o->api, o->conn, 204);
	op_free(o);
}

/* Why it failed, or there is nothing left to ask of it. */
static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	struct op *o = container_of(p, struct op, proc);
	struct err gone = { 0 };

	if (x) {
		err_set(&gone, ESRCH, "process %u has exited", p->number);
		e = &gone;
	}
	op_fail(o, e);
}

static void no_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	(void)data;
	process_consumed(p, stream, n);
}

static struct sandbox *find_box(struct op *o, struct err *e)
{
	return box_find(o->api, &o->call.who, o->call.arg[0], e);
}

/* A channel that gets nothing of what the process writes. */
static void attach_mute(struct op *o, const struct process_ops *ops)
{
	struct err e = { 0 };
	struct sandbox *s = find_box(o, &e);
	struct attach at;

	o->proc.ops = ops;
	if (!s || proc_ref_parse(o->call.arg[1], &at, &e) < 0) {
		op_refuse(o, &e);
		return;
	}
	at.out[0] = at.out[1] = OFFSET_NONE;
	if (process_attach(&o->proc, s, &at, &e) < 0)
		op_fail(o, &e);
}

/* --- starting --- */

static void start_started(struct process *p)
{
	struct op *o = container_of(p, struct op, proc);

	reply_json(o->api, o->conn, 201,
		   started_json(p->number, p->pid, o->tag));
	/* Whoever asked comes for the output in a moment. */
	process_close(p, !o->detach);
	op_free(o);
}

static const struct process_ops start_ops = {
	.started = start_started,
	.output = no_output,
	.ended = on_ended,
};

static void start(struct op *o, struct sandbox *s, const struct proc_request *q)
{
	struct err e = { 0 };

	o->proc.ops = &start_ops;
	o->proc.who = &o->call.who;
	o->proc.request_id = http_request_id(o->conn);
	o->detach = q->detach;
	if (q->spawn.tag)
		memcpy(o->tag, q->spawn.tag, strlen(q->spawn.tag));
	if (process_spawn(&o->proc, s, &q->spawn, &e) < 0)
		op_fail(o, &e);
}

static void start_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	AUTO(proc_request_done) struct proc_request q = { 0 };
	struct op *o = owner;
	struct err e = { 0 };
	struct sandbox *s = find_box(o, &e);
	json_t *j = s ? parse_body(body, n, &e) : NULL;

	if (!j || proc_request_parse(&q, j, PROC_START, &e) < 0) {
		op_refuse(o, &e);
	} else if (o->stream && !q.detach) {
		proc_stream_start(o->api, c, s, &o->call.who, &q.spawn, NULL);
		op_free(o);
	} else {
		start(o, s, &q);
	}
}

static void h_start(struct api *a, struct http_conn *c, const struct call *call)
{
	bool stream = event_stream_wanted(c);
	struct err e = { 0 };
	struct op *o;

	if (query_bool(http_request(c), "stream", &stream, &e) < 0) {
		reply_err(a, c, &e);
		return;
	}
	o = op_new(a, c, call);
	o->stream = stream;
	http_read_body(c, BODY_MAX, start_body);
}

/* --- its output --- */

/* Browsers that come back say so: the offsets of the last event they saw. */
static int last_event(const struct http_head *h, uint64_t out[2], struct err *e)
{
	const char *id = http_header(h, "last-event-id");
	char text[48], *second;

	if (!id)
		return 0;
	if (str_copy(text, sizeof(text), id) == 0 &&
	    (second = strchr(text, '.'))) {
		*second++ = '\0';
		if (parse_u64(text, OFFSET_MAX, &out[0]) == 0 &&
		    parse_u64(second, OFFSET_MAX, &out[1]) == 0)
			return 0;
	}
	return err_set(e, EINVAL, "Last-Event-ID is none of this stream");
}

static void h_connect(struct api *a, struct http_conn *c,
		      const struct call *call)
{
	const struct http_head *h = http_request(c);
	struct err e = { 0 };
	struct sandbox *s = box_find(a, &call->who, call->arg[0], &e);
	struct attach at;

	if (!s || proc_ref_parse(call->arg[1], &at, &e) < 0 ||
	    last_event(h, at.out, &e) < 0 ||
	    query_number(h, "stdout", OFFSET_MAX, &at.out[0], &e) < 0 ||
	    query_number(h, "stderr", OFFSET_MAX, &at.out[1], &e) < 0)
		reply_err(a, c, &e);
	else
		proc_stream_start(a, c, s, &call->who, NULL, &at);
}

/* --- its input --- */

static size_t input_data(struct http_conn *c, const char *p, size_t n,
			 void *owner)
{
	struct op *o = owner;

	(void)c;
	return process_input(&o->proc, p, n);
}

static void input_end(struct http_conn *c, void *owner)
{
	struct op *o = owner;

	(void)c;
	if (o->eof)
		process_input_eof(&o->proc);
	op_done(o);
}

static void input_started(struct process *p)
{
	struct op *o = container_of(p, struct op, proc);

	http_slow_body(o->conn);
	http_stream_body(o->conn, input_data, input_end);
}

static void input_room(struct process *p)
{
	http_resume_body(container_of(p, struct op, proc)->conn);
}

static const struct process_ops input_ops = {
	.started = input_started,
	.output = no_output,
	.room = input_room,
	.ended = on_ended,
};

static void h_input(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	bool eof = false;
	struct op *o;

	if (query_bool(http_request(c), "eof", &eof, &e) < 0) {
		reply_err(a, c, &e);
		return;
	}
	o = op_new(a, c, call);
	o->eof = eof;
	attach_mute(o, &input_ops);
}

/* --- signals and sizes --- */

static void poke_started(struct process *p)
{
	struct op *o = container_of(p, struct op, proc);

	if (o->sig)
		process_signal(p, o->sig);
	else
		process_resize(p, o->rows, o->cols);
	op_done(o);
}

static const struct process_ops poke_ops = {
	.started = poke_started,
	.output = no_output,
	.ended = on_ended,
};

static int signal_parse(struct op *o, const json_t *j, struct err *e)
{
	o->sig = proc_signal_parse(json_object_get(j, "signal"));
	return o->sig ? 0
		      : err_set(e, EINVAL,
				"signal is not a number from 1 to 64 or a "
				"name such as \"TERM\"");
}

static int resize_parse(struct op *o, const json_t *j, struct err *e)
{
	return proc_size_parse(j, &o->rows, &o->cols, e);
}

static void poke(struct op *o, const char *body, size_t n,
		 int (*parse)(struct op *o, const json_t *j, struct err *e))
{
	struct err e = { 0 };
	json_t *j = parse_body(body, n, &e);
	int r = j ? parse(o, j, &e) : -EINVAL;

	json_decref(j);
	if (r < 0)
		op_refuse(o, &e);
	else
		attach_mute(o, &poke_ops);
}

static void signal_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	(void)c;
	poke(owner, body, n, signal_parse);
}

static void resize_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	(void)c;
	poke(owner, body, n, resize_parse);
}

static void h_signal(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	op_new(a, c, call);
	http_read_body(c, BODY_MAX, signal_body);
}

static void h_resize(struct api *a, struct http_conn *c,
		     const struct call *call)
{
	op_new(a, c, call);
	http_read_body(c, BODY_MAX, resize_body);
}

/* --- its end --- */

static void wait_started(struct process *p)
{
	(void)p;
}

static void wait_ended(struct process *p, const struct exit_info *x,
		       const struct err *e)
{
	struct op *o = container_of(p, struct op, proc);

	if (x)
		reply_json(o->api, o->conn, 200,
			   json_pack("{s:o}", "exit", exit_json(x)));
	else
		reply_spawn_err(o->api, o->conn, e);
	op_free(o);
}

static const struct process_ops wait_ops = {
	.started = wait_started,
	.output = no_output,
	.ended = wait_ended,
};

static void wait_too_long(struct timer *t)
{
	struct op *o = container_of(t, struct op, timeout);

	reply_error(o->api, o->conn, 408, "timeout",
		    "the process has not exited yet");
	op_free(o);
}

static void h_wait(struct api *a, struct http_conn *c, const struct call *call)
{
	char text[32];
	uint64_t ms = 0;
	int given = http_query(http_request(c), "timeout", text, sizeof(text));
	struct op *o;

	if (given < 0 ||
	    (given && (parse_duration(text, &ms) < 0 || ms > WAIT_MAX_MS))) {
		reply_error(a, c, 400, "bad_request",
			    "timeout is not a number of seconds up to 24h");
		return;
	}
	o = op_new(a, c, call);
	if (given)
		timer_set(&a->loop, &o->timeout, ms, wait_too_long);
	attach_mute(o, &wait_ops);
}

static const struct route_query start_query[] = {
	{ "stream", "boolean", "answer with its events until it exits" },
	{ 0 },
};
static const struct route_query connect_query[] = {
	{ "stdout", "integer", "the offset to begin at; the oldest kept" },
	{ "stderr", "integer", "the same for the other stream" },
	{ 0 },
};
static const struct route_query input_query[] = {
	{ "eof", "boolean", "close its input behind this" },
	{ 0 },
};
static const struct route_query wait_query[] = {
	{ "timeout", "string", "seconds, or \"5m\"; else as long as it takes" },
	{ 0 },
};

static const struct route_query run_query[] = {
	{ "progress", "boolean",
	  "lines of JSON: how far it is, twice a second, then the result" },
	{ 0 },
};

static const struct route_query terminal_query[] = {
	{ "command", "string", "a line for /bin/sh -c; else a login shell" },
	{ "user", "string", "a name or a number" },
	{ "cwd", "string", "where it starts; the user's home" },
	{ "rows", "integer", "its size" },
	{ "cols", "integer", NULL },
	{ "tag", "string", "a name to find the process by" },
	{ "process", "integer", "instead: a process that has a terminal" },
	{ "stdout", "integer", "with it: the offset to begin at" },
	{ "record", "boolean", "keep what it shows, as an asciicast" },
	{ 0 },
};

const struct route process_routes[] = {
	{ "POST", "/v1/sandboxes/{id}/processes", h_start, SCOPE_USE,
	  ROUTE_WAKE | ROUTE_EXEC, "Start a process", start_query,
	  "ProcessRequest", "Started", 201 },
	{ "GET", "/v1/sandboxes/{id}/processes", h_process_list, SCOPE_READ,
	  ROUTE_WAKE,
	  "List the processes that were started, and those that exited lately",
	  NULL, NULL, "ProcessList", 200 },
	{ "GET", "/v1/sandboxes/{id}/processes/{number}", h_connect, SCOPE_USE,
	  ROUTE_WAKE, "Connect to a process: its events until it exits",
	  connect_query, NULL, "application/x-ndjson", 200 },
	{ "POST", "/v1/sandboxes/{id}/processes/{number}/input", h_input,
	  SCOPE_USE, ROUTE_WAKE, "Bytes for its standard input or terminal",
	  input_query, "application/octet-stream", NULL, 204 },
	{ "POST", "/v1/sandboxes/{id}/processes/{number}/resize", h_resize,
	  SCOPE_USE, ROUTE_WAKE, "Change the size of its terminal", NULL,
	  "TerminalSize", NULL, 204 },
	{ "POST", "/v1/sandboxes/{id}/processes/{number}/signal", h_signal,
	  SCOPE_USE, ROUTE_WAKE, "Send a signal to it and its group", NULL,
	  "Signal", NULL, 204 },
	{ "GET", "/v1/sandboxes/{id}/processes/{number}/wait", h_wait,
	  SCOPE_READ, ROUTE_WAKE, "Wait for its exit", wait_query, NULL,
	  "Exited", 200 },
	{ "POST", "/v1/sandboxes/{id}/run", h_process_run, SCOPE_USE,
	  ROUTE_WAKE | ROUTE_EXEC,
	  "Run a process to its end, and get its output", run_query,
	  "RunRequest", "RunResult", 200 },
	{ "GET", "/v1/sandboxes/{id}/terminal", h_terminal, SCOPE_USE,
	  ROUTE_WAKE | ROUTE_EXEC, "A terminal: upgrade to a WebSocket",
	  terminal_query, NULL, NULL, 101 },
	{ 0 },
};
