/*
 * process.Process: calls that are over at once. Each has a channel of its own
 * to the process, which does not notice; see h_process.c.
 */
#include "api/e2b/envd_process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/connect.h"
#include "api/inner.h"
#include "api/proc_json.h"
#include "api/process.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/str.h"

enum { EXIT_MS = 2000 }; /* how long a kill waits for what it does */

struct op {
	struct process proc;
	struct api *api;
	struct http_conn *conn;
	char id[ID_CAP];
	struct timer timer;
	/* Takes what it needs from the message. */
	int (*parse)(struct op *o, const json_t *m, struct err *e);
	/* The process is there, and runs. */
	void (*act)(struct op *o);
	struct envd_ref ref;
	int sig;
	bool killed;
	uint16_t rows, cols;
	bool to_pty;
	struct buf input;
};

static void op_free(struct op *o)
{
	process_close(&o->proc, false);
	timer_del(&o->api->loop, &o->timer);
	buf_done(&o->input);
	free(o);
}

static void op_gone(struct http_conn *c, void *owner)
{
	(void)c;
	op_free(owner);
}

static void op_done(struct op *o)
{
	connect_reply(o->api, o->conn, json_object());
	op_free(o);
}

static void op_fail(struct op *o, const char *word, const char *msg)
{
	connect_fail_as(o->api, o->conn, word, msg);
	op_free(o);
}

static void op_fail_err(struct op *o, const struct err *e)
{
	op_fail(o, connect_code(e->code), e->msg);
}

/* --- which process --- */

/* 64-bit numbers may be strings in the JSON of protobuf; so may these. */
static bool number_of(const json_t *v, uint64_t max, uint64_t *out)
{
	if (json_is_string(v))
		return parse_u64(json_string_value(v), max, out) == 0;
	*out = (uint64_t)json_integer_value(v);
	return json_is_integer(v) && json_integer_value(v) >= 0 && *out <= max;
}

int envd_ref_parse(const json_t *selector, struct envd_ref *ref, struct err *e)
{
	const json_t *pid = json_object_get(selector, "pid");
	const char *tag = json_string_value(json_object_get(selector, "tag"));
	uint64_t n = 0;

	ref->at = (struct attach){ .tag = ref->tag,
				   .out = { OFFSET_NONE, OFFSET_NONE } };
	if (pid && number_of(pid, UINT32_MAX, &n)) {
		snprintf(ref->tag, sizeof(ref->tag), ":%u", (uint32_t)n);
		return 0;
	}
	if (!pid && tag && proc_tag_valid(tag))
		return str_copy(ref->tag, sizeof(ref->tag), tag);
	return err_set(e, EINVAL, "process is neither a pid nor a tag");
}

/* One that has exited tells so right behind its greeting: not before all that
 * came is looked at. */
static void on_greeted(struct timer *t)
{
	struct op *o = container_of(t, struct op, timer);

	o->act(o);
}

static void on_started(struct process *p)
{
	struct op *o = container_of(p, struct op, proc);

	timer_set(&o->api->loop, &o->timer, 0, on_greeted);
}

static void no_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	(void)data;
	process_consumed(p, stream, n);
}

static void on_room(struct process *p)
{
	struct op *o = container_of(p, struct op, proc);

	o->act(o);
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	struct op *o = container_of(p, struct op, proc);
	char msg[64];

	snprintf(msg, sizeof(msg), "process with pid %u has exited", p->pid);
	if (x && o->killed)
		op_done(o);
	else if (x)
		op_fail(o, "not_found", msg);
	else
		op_fail_err(o, e);
}

static const struct process_ops ops = {
	.started = on_started,
	.output = no_output,
	.room = on_room,
	.ended = on_ended,
};

static int attach(struct op *o, const json_t *m, struct err *e)
{
	struct sandbox *s = box_by_id(o->api, o->id);
	int r = envd_ref_parse(json_object_get(m, "process"), &o->ref, e);

	if (r == 0 && o->parse)
		r = o->parse(o, m, e);
	if (r < 0)
		return r;
	if (!s)
		return err_set(e, ENOENT, "sandbox %s is gone", o->id);
	return process_attach(&o->proc, s, &o->ref.at, e);
}

static void op_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct op *o = owner;
	struct err e = { 0 };
	json_t *m = connect_message(c, body, n, &e);
	int r = m ? attach(o, m, &e) : -e.code;

	json_decref(m);
	if (r < 0)
		op_fail_err(o, &e);
}

static void op_start(struct api *a, struct http_conn *c,
		     const struct envd_call *call,
		     int (*parse)(struct op *o, const json_t *m, struct err *e),
		     void (*act)(struct op *o))
{
	struct op *o = xcalloc(1, sizeof(*o));

	o->proc.ops = &ops;
	o->api = a;
	o->conn = c;
	memcpy(o->id, call->box->id, ID_CAP);
	o->parse = parse;
	o->act = act;
	http_own(c, o, op_gone);
	http_read_body(c, ENVD_INPUT_MAX, op_body);
}

/* --- SendSignal --- */

static int signal_parse(struct op *o, const json_t *m, struct err *e)
{
	const json_t *v = json_object_get(m, "signal");
	const char *name = json_string_value(v);
	json_int_t n = json_integer_value(v);

	if ((name && strcmp(name, "SIGNAL_SIGKILL") == 0) || n == SIGKILL)
		o->sig = SIGKILL;
	else if ((name && strcmp(name, "SIGNAL_SIGTERM") == 0) || n == SIGTERM)
		o->sig = SIGTERM;
	else
		return err_set(e, ENOTSUP,
			       "signal is neither SIGNAL_SIGKILL nor "
			       "SIGNAL_SIGTERM");
	return 0;
}

static void exit_late(struct timer *t)
{
	op_done(container_of(t, struct op, timer));
}

/* Clients look for the process right after they killed it: it is gone then. */
static void signal_act(struct op *o)
{
	process_signal(&o->proc, o->sig);
	if (o->sig != SIGKILL) {
		op_done(o);
		return;
	}
	o->killed = true;
	timer_set(&o->api->loop, &o->timer, EXIT_MS, exit_late);
}

static void envd_signal(struct api *a, struct http_conn *c,
			const struct envd_call *call)
{
	op_start(a, c, call, signal_parse, signal_act);
}

/* --- SendInput, CloseStdin --- */

static int input_parse(struct op *o, const json_t *m, struct err *e)
{
	const json_t *input = json_object_get(m, "input");
	const json_t *v = json_object_get(input, "stdin");

	if (!v) {
		v = json_object_get(input, "pty");
		o->to_pty = true;
	}
	if (!json_is_string(v) || base64_get(&o->input, json_string_value(v),
					     json_string_length(v)) < 0)
		return err_set(e, EINVAL,
			       "input has neither stdin nor pty in base64");
	return 0;
}

static void input_act(struct op *o)
{
	size_t n;

	if (o->to_pty != o->proc.tty) {
		op_fail(o, "internal",
			o->to_pty ? "the process has no terminal"
				  : "the process has a terminal: send pty");
		return;
	}
	n = process_input(&o->proc, buf_data(&o->input), buf_len(&o->input));
	buf_eat(&o->input, n);
	if (buf_len(&o->input) == 0)
		op_done(o);
}

static void envd_input(struct api *a, struct http_conn *c,
		       const struct envd_call *call)
{
	op_start(a, c, call, input_parse, input_act);
}

static void close_act(struct op *o)
{
	if (o->proc.tty) {
		op_fail(o, "internal",
			"the process has a terminal: send it the end-of-file "
			"character");
		return;
	}
	process_input_eof(&o->proc);
	op_done(o);
}

static void envd_close(struct api *a, struct http_conn *c,
		       const struct envd_call *call)
{
	op_start(a, c, call, NULL, close_act);
}

/* --- Update --- */

static int size_parse(struct op *o, const json_t *m, struct err *e)
{
	const json_t *pty = json_object_get(m, "pty");

	if (!pty || json_is_null(pty))
		return 0;
	return proc_size_parse(json_object_get(pty, "size"), &o->rows, &o->cols,
			       e);
}

static void size_act(struct op *o)
{
	if (o->rows && !o->proc.tty) {
		op_fail(o, "internal", "the process has no terminal");
		return;
	}
	if (o->rows)
		process_resize(&o->proc, o->rows, o->cols);
	op_done(o);
}

static void envd_update(struct api *a, struct http_conn *c,
			const struct envd_call *call)
{
	op_start(a, c, call, size_parse, size_act);
}

/* --- Connect --- */

struct joining {
	struct api *api;
	struct envd_stream_request request;
};

static void joining_gone(struct http_conn *c, void *owner)
{
	(void)c;
	free(owner);
}

static void connect_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	AUTO_FREE struct joining *j = owner;
	struct envd_ref ref;
	struct err e = { 0 };
	json_t *m = connect_message(c, body, n, &e);
	int r = m ? envd_ref_parse(json_object_get(m, "process"), &ref, &e)
		  : -e.code;

	json_decref(m);
	http_own(c, NULL, NULL);
	if (r == 0)
		r = envd_stream_timeout(c, &j->request.timeout_ms, &e);
	if (r < 0) {
		connect_refuse(j->api, c, connect_code(e.code), e.msg);
		return;
	}
	/* What was written before is not told again. */
	ref.at.out[0] = ref.at.out[1] = OFFSET_NOW;
	envd_stream(j->api, c, &j->request, NULL, &ref.at);
}

static void envd_connect(struct api *a, struct http_conn *c,
			 const struct envd_call *call)
{
	struct joining *j = xcalloc(1, sizeof(*j));

	j->api = a;
	j->request.who = call->who;
	memcpy(j->request.id, call->box->id, ID_CAP);
	http_own(c, j, joining_gone);
	http_read_body(c, BODY_MAX, connect_body);
}

/* --- List --- */

struct listing {
	struct inner_ask ask;
	struct api *api;
	struct http_conn *conn;
	struct identity who;
	char id[ID_CAP];
};

static void listing_gone(struct http_conn *c, void *owner)
{
	struct listing *l = owner;

	(void)c;
	inner_ask_close(&l->ask);
	free(l);
}

static json_t *info_json(json_t *p)
{
	json_t *argv = json_object_get(p, "argv"), *args = json_array();
	const json_t *cmd = json_array_get(argv, 0);
	json_t *info;
	size_t i;

	for (i = 1; i < json_array_size(argv); i++)
		json_array_append(args, json_array_get(argv, i));
	info = json_pack("{s:{s:s, s:o, s:{}}, s:O}", "config", "cmd",
			 cmd ? json_string_value(cmd) : "", "args", args,
			 "envs", "pid", json_object_get(p, "pid"));
	if (json_is_string(json_object_get(p, "tag")))
		json_object_set(info, "tag", json_object_get(p, "tag"));
	return info;
}

static void on_list(struct inner_ask *q, int status, json_t *answer)
{
	struct listing *l = container_of(q, struct listing, ask);
	json_t *list = json_object_get(answer, "processes"), *p;
	json_t *running = json_array();
	size_t i;

	json_array_foreach (list, i, p) {
		const char *state =
			json_string_value(json_object_get(p, "state"));

		if (state && strcmp(state, "running") == 0)
			json_array_append_new(running, info_json(p));
	}
	if (status == 200) {
		connect_reply(l->api, l->conn,
			      json_pack("{s:o}", "processes", running));
	} else {
		json_decref(running);
		connect_fail_as(l->api, l->conn,
				status == 429 ? "resource_exhausted"
					      : "internal",
				inner_message(status, answer));
	}
	inner_ask_close(q);
	free(l);
}

static void list_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct listing *l = owner;
	char target[64];
	struct err e = { 0 };

	(void)body; /* a message without fields */
	(void)n;
	snprintf(target, sizeof(target), "/v1/sandboxes/%s/processes", l->id);
	if (inner_ask(&l->ask,
		      &(struct inner_json){ l->api, &l->who, http_request_id(c),
					    "GET", target, NULL, on_list },
		      &e) < 0) {
		connect_fail(l->api, c, e.code, e.msg);
		free(l);
	}
}

static void envd_list(struct api *a, struct http_conn *c,
		      const struct envd_call *call)
{
	struct listing *l = xcalloc(1, sizeof(*l));

	l->api = a;
	l->conn = c;
	l->who = call->who;
	memcpy(l->id, call->box->id, ID_CAP);
	http_own(c, l, listing_gone);
	http_read_body(c, BODY_MAX, list_body);
}

/* --- what there is not --- */

static void envd_stream_input(struct api *a, struct http_conn *c,
			      const struct envd_call *call)
{
	(void)call;
	connect_refuse(a, c, "unimplemented",
		       "streams of input are not taken: use SendInput");
}

const struct envd_route envd_process_routes[] = {
	{ "POST", "/process.Process/Start", envd_start, 0 },
	{ "POST", "/process.Process/Connect", envd_connect, 0 },
	{ "POST", "/process.Process/List", envd_list, 0 },
	{ "POST", "/process.Process/SendInput", envd_input, 0 },
	{ "POST", "/process.Process/StreamInput", envd_stream_input, 0 },
	{ "POST", "/process.Process/SendSignal", envd_signal, 0 },
	{ "POST", "/process.Process/Update", envd_update, 0 },
	{ "POST", "/process.Process/CloseStdin", envd_close, 0 },
	{ 0 },
};
