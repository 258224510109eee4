/*
 * A terminal over a WebSocket: binary messages are its bytes, both ways; text
 * messages are JSON about it.
 *
 * The upgrade waits for the process, so that what goes wrong before is an
 * ordinary answer. As with event streams, output is acknowledged when the
 * client's socket has it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/cast.h"
#include "api/json_text.h"
#include "api/proc_json.h"
#include "api/process.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "http/target.h"
#include "http/websocket.h"

enum {
	MESSAGE_MAX = 256 * 1024,
	CONTROL_MAX = 4096, /* of a text message */
	PIECE = 32 * 1024,
};

struct terminal {
	struct websocket ws;
	struct process proc;
	struct api *api;
	struct http_conn *conn; /* NULL: it is a WebSocket now */
	struct sandbox *box;    /* until its process runs */
	char tag[TAG_MAX + 1];
	bool record;
	unsigned rows, cols;
	struct cast cast;
	struct buf in;   /* of the client, not taken yet */
	struct buf held; /* of the process */
	size_t given;    /* to the client, not acknowledged */
	bool waiting;    /* until the client took what was given */
	json_t *last;    /* what is said when `held` is out; then it ends */
	unsigned code;   /* of the end */
	struct share *place;
	struct deferred gone;
};

static void terminal_free(struct deferred *d)
{
	struct terminal *t = container_of(d, struct terminal, gone);

	process_close(&t->proc, true);
	cast_close(&t->cast);
	buf_done(&t->in);
	buf_done(&t->held);
	json_decref(t->last);
	share_give(t->place, 1);
	free(t);
}

static void terminal_gone(struct http_conn *c, void *owner)
{
	struct terminal *t = owner;

	(void)c;
	terminal_free(&t->gone);
}

/* {"WORD": VALUE}; takes the reference. */
static void say(struct terminal *t, const char *word, json_t *value)
{
	json_t *j = json_pack("{s:o}", word, value);
	struct buf b = { 0 };

	json_add(&b, j);
	json_decref(j);
	websocket_send(&t->ws, true, buf_data(&b), buf_len(&b));
	buf_done(&b);
}

static void send_held(struct terminal *t)
{
	bool more = true;

	while (more && buf_len(&t->held) > 0) {
		size_t n = buf_len(&t->held);

		n = n < PIECE ? n : PIECE;
		more = websocket_send(&t->ws, false, buf_data(&t->held), n);
		buf_eat(&t->held, n);
		t->given += n;
	}
	if (t->given > 0) {
		t->waiting = true;
		websocket_drain(&t->ws);
	}
	if (!t->last || buf_len(&t->held) > 0)
		return;
	say(t, t->code == WS_NORMAL ? "exit" : "error", t->last);
	t->last = NULL;
	websocket_close(&t->ws, t->code, NULL);
}

/* --- the client --- */

static void give_input(struct process *p)
{
	struct terminal *t = container_of(p, struct terminal, proc);

	buf_eat(&t->in, process_input(p, buf_data(&t->in), buf_len(&t->in)));
	if (buf_len(&t->in) == 0)
		websocket_resume(&t->ws);
	else
		websocket_pause(&t->ws);
}

static int obey(struct terminal *t, const json_t *j, struct err *e)
{
	const json_t *size = json_object_get(j, "resize");
	int sig = proc_signal_parse(json_object_get(j, "signal"));
	uint16_t rows, cols;

	if (json_object_size(j) != 1 || (!size && !sig))
		return err_set(e, EINVAL,
			       "neither {\"resize\": {..}} nor "
			       "{\"signal\": NUMBER}");
	if (sig) {
		process_signal(&t->proc, sig);
		return 0;
	}
	if (proc_size_parse(size, &rows, &cols, e) < 0)
		return -e->code;
	process_resize(&t->proc, rows, cols);
	cast_resize(&t->cast, rows, cols);
	return 0;
}

static void on_message(struct websocket *ws, bool text, char *p, size_t n)
{
	struct terminal *t = container_of(ws, struct terminal, ws);
	struct err e = { 0 };
	json_t *j;

	if (!text) {
		buf_add(&t->in, p, n);
		give_input(&t->proc);
		return;
	}
	if (n > CONTROL_MAX) {
		websocket_close(ws, WS_TOO_LARGE, "a long order");
		return;
	}
	j = parse_body(p, n, &e);
	if (!j || obey(t, j, &e) < 0)
		websocket_close(ws, WS_REFUSED, e.msg);
	json_decref(j);
}

static void on_ready(struct websocket *ws)
{
	struct terminal *t = container_of(ws, struct terminal, ws);

	t->waiting = false;
	process_consumed(&t->proc, 1, t->given);
	t->given = 0;
	send_held(t);
}

static void on_closed(struct websocket *ws, unsigned code)
{
	struct terminal *t = container_of(ws, struct terminal, ws);

	process_close(&t->proc, code != WS_NORMAL);
	loop_defer(&t->api->loop, &t->gone, terminal_free);
}

static const struct websocket_ops ws_ops = {
	.message = on_message,
	.ready = on_ready,
	.closed = on_closed,
};

/* --- the process --- */

/* Who asked for a recording does not get a terminal without one. */
static int start_recording(struct terminal *t, struct http_conn *c)
{
	struct err e = { 0 };

	if (!t->record)
		return 0;
	if (cast_open(&t->cast, t->box, t->proc.number, t->rows, t->cols, &e) <
	    0) {
		reply_err(t->api, c, &e);
		return -e.code;
	}
	audit_add(t->api, &(struct audit){
				  .type = "recording.start",
				  .box = t->box,
				  .who = audit_who(c),
				  .request_id = http_request_id(c),
				  .data = json_pack("{s:I}", "process",
						    (json_int_t)t->proc.number),
			  });
	return 0;
}

static void on_started(struct process *p)
{
	struct terminal *t = container_of(p, struct terminal, proc);
	struct http_conn *c = t->conn;

	if (!p->tty) {
		reply_error(t->api, c, 400, "no_terminal",
			    "the process has no terminal");
		process_close(p, false);
		terminal_free(&t->gone);
		return;
	}
	if (start_recording(t, c) < 0) {
		process_signal(p, SIGHUP);
		process_close(p, false);
		terminal_free(&t->gone);
		return;
	}
	t->conn = NULL;
	t->box = NULL;
	t->ws.max = MESSAGE_MAX;
	if (websocket_start(&t->ws, c, NULL, &ws_ops) < 0) {
		terminal_free(&t->gone);
		return;
	}
	t->api->metrics.requests[1]++;
	say(t, "started", started_json(p->number, p->pid, t->tag));
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	struct terminal *t = container_of(p, struct terminal, proc);

	/* A terminal has one stream, unless an agent lies. */
	if (stream != 1) {
		process_consumed(p, stream, n);
		return;
	}
	cast_output(&t->cast, data, n);
	buf_add(&t->held, data, n);
	if (!t->waiting)
		send_held(t);
}

static void on_gap(struct process *p, unsigned stream, uint64_t lost)
{
	struct terminal *t = container_of(p, struct terminal, proc);

	if (stream == 1)
		say(t, "gap",
		    json_pack("{s:s, s:I, s:I}", "stream", "stdout", "offset",
			      (json_int_t)p->out[0], "lost", (json_int_t)lost));
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	struct terminal *t = container_of(p, struct terminal, proc);

	if (t->conn) {
		reply_spawn_err(t->api, t->conn, e);
		terminal_free(&t->gone);
		return;
	}
	t->code = x ? WS_NORMAL : WS_INTERNAL;
	t->last = x ? exit_json(x) : error_json(e);
	if (!t->waiting)
		send_held(t);
}

static const struct process_ops proc_ops = {
	.started = on_started,
	.output = on_output,
	.gap = on_gap,
	.room = give_input,
	.ended = on_ended,
};

/* --- the request --- */

struct wish {
	char command[2048], user[256], cwd[1024], tag[TAG_MAX + 1];
	uint64_t rows, cols, process, offset;
	bool record;
};

static int text_of(const struct http_head *h, const char *name, char *out,
		   size_t cap, struct err *e)
{
	*out = '\0';
	if (http_query(h, name, out, cap) < 0)
		return err_set(e, EINVAL, "%s is malformed or too long", name);
	return 0;
}

static int parse_wish(const struct http_head *h, struct wish *w, struct err *e)
{
	*w = (struct wish){ 0 };
	if (text_of(h, "command", w->command, sizeof(w->command), e) < 0 ||
	    text_of(h, "user", w->user, sizeof(w->user), e) < 0 ||
	    text_of(h, "cwd", w->cwd, sizeof(w->cwd), e) < 0 ||
	    text_of(h, "tag", w->tag, sizeof(w->tag), e) < 0 ||
	    query_number(h, "rows", UINT16_MAX, &w->rows, e) < 0 ||
	    query_number(h, "cols", UINT16_MAX, &w->cols, e) < 0 ||
	    query_number(h, "process", UINT32_MAX, &w->process, e) < 0 ||
	    query_number(h, "stdout", OFFSET_MAX, &w->offset, e) < 0 ||
	    query_bool(h, "record", &w->record, e) < 0)
		return -e->code;
	if (*w->tag && !proc_tag_valid(w->tag))
		return err_set(e, EINVAL,
			       "tag is not letters, digits and \"._-\"");
	return 0;
}

/* The agent sets SHELL from /etc/passwd; not every image has that one. */
static const char login[] = "for s in \"$SHELL\" /bin/bash /bin/sh; do "
			    "[ -x \"$s\" ] && SHELL=$s exec \"$s\" -l; done";

static int begin(struct terminal *t, struct sandbox *s, const struct wish *w,
		 struct err *e)
{
	const char *argv[] = { "/bin/sh", "-c",
			       *w->command ? w->command : login, NULL };
	struct spawn sp = {
		.flags = SPAWN_PTY | SPAWN_STDIN,
		.rows = (uint16_t)w->rows,
		.cols = (uint16_t)w->cols,
		.user = w->user,
		.cwd = w->cwd,
		.tag = w->tag,
		.argc = 3,
		.argv = argv,
	};
	struct attach at = { .number = (uint32_t)w->process,
			     .out = { w->offset } };

	if (w->process)
		return process_attach(&t->proc, s, &at, e);
	memcpy(t->tag, w->tag, sizeof(t->tag));
	return process_spawn(&t->proc, s, &sp, e);
}

void h_terminal(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	struct sandbox *s;
	struct share *place = NULL;
	struct terminal *t;
	struct wish w;

	if (!websocket_wanted(c))
		return;
	s = box_find(a, &call->who, call->arg[0], &e);
	if (s && parse_wish(http_request(c), &w, &e) == 0)
		place = share_take(&a->pools.relays, call->who.project, 1, &e);
	if (!place) {
		reply_err(a, c, &e);
		return;
	}
	t = xcalloc(1, sizeof(*t));
	t->api = a;
	t->conn = c;
	t->proc.ops = &proc_ops;
	t->proc.who = &call->who;
	t->proc.request_id = http_request_id(c);
	t->box = s;
	t->record = w.record;
	t->rows = (unsigned)w.rows;
	t->cols = (unsigned)w.cols;
	t->place = place;
	if (begin(t, s, &w, &e) < 0) {
		reply_spawn_err(a, c, &e);
		terminal_free(&t->gone);
		return;
	}
	http_own(c, t, terminal_gone);
}
