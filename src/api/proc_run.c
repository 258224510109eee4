/*
 * Running a process to its end: the answer is its exit and its output, of
 * which the first and the last half are kept when there is too much. Nobody
 * can come back for the result, so a client that leaves ends the process.
 *
 * The answer is written in pieces as the client takes them: escaped, the
 * output may be many times as large as what is kept of it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/box_log.h"
#include "api/clip.h"
#include "api/json_text.h"
#include "api/proc_json.h"
#include "api/process.h"
#include "api/reply.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/target.h"

enum {
	RUN_BODY_MAX = 1024 * 1024,
	FLOOR = 16 * 1024, /* of each stream, taken from the pool ahead */
	GRAIN = 64 * 1024, /* by which a stream takes more of it */
	KILL_MS = 5000,    /* for the exit, once it was killed */
	PIECE = 30 * 1024, /* of the answer; a multiple of 3 */
	TICK_MS = 500,
	LINE_CAP = 200, /* of a line that is told as progress */
};

#define LINES "application/x-ndjson"

struct run {
	struct process proc;
	struct api *api;
	struct http_conn *conn;
	struct call call;
	struct sandbox *box; /* of its own, until that is killed; or NULL */
	struct proc_request request;
	size_t charged[2], input_at;
	struct share *share; /* of pools.output; or NULL */
	uint64_t began_ms;
	struct timer timeout;
	bool timed_out;
	struct clip out[2];
	/* Lines that tell how far it is, for who asks for them: */
	bool progress;
	struct timer tick;
	bool begun; /* the answer is lines */
	bool slow;  /* the client has not taken what it was told */
	/* The answer: */
	bool answered; /* what follows is the result */
	bool text[2];
	struct buf piece;
	unsigned at; /* which stream is being written; 2: none any more */
};

/* --- the request's life --- */

static void drop_box(struct run *r)
{
	struct sandbox *s = r->box;

	r->box = NULL;
	if (s)
		box_kill(s, NULL);
}

static void run_free(struct run *r)
{
	int i;

	process_close(&r->proc, false);
	drop_box(r);
	timer_del(&r->api->loop, &r->timeout);
	timer_del(&r->api->loop, &r->tick);
	proc_request_done(&r->request);
	for (i = 0; i < 2; i++)
		clip_done(&r->out[i]);
	buf_done(&r->piece);
	share_give(r->share, r->charged[0] + r->charged[1]);
	free(r);
}

static void run_gone(struct http_conn *c, void *owner)
{
	struct run *r = owner;

	(void)c;
	process_signal(&r->proc, SIGKILL);
	run_free(r);
}

static void send_line(struct run *r, const char *type, json_t *j)
{
	json_object_set_new(j, "type", json_string(type));
	json_add(&r->piece, j);
	json_decref(j);
	buf_puts(&r->piece, "\n");
	r->slow = !http_reply_data(r->conn, buf_data(&r->piece),
				   buf_len(&r->piece));
	buf_clear(&r->piece);
}

static void run_fail(struct run *r, const struct err *e)
{
	if (r->begun) {
		send_line(r, "error", error_json(e));
		http_reply_end(r->conn);
	} else {
		reply_spawn_err(r->api, r->conn, e);
	}
	run_free(r);
}

/* --- the answer --- */

static void begin_output(struct run *r)
{
	static const char *const names[] = { "stdout", "stderr" };
	const char *name = names[r->at];

	if (r->text[r->at])
		buf_printf(&r->piece, ",\"%s\":\"", name);
	else
		buf_printf(&r->piece, ",\"%s\":null,\"%s_base64\":\"", name,
			   name);
}

static void add_output(struct run *r)
{
	struct clip *c = &r->out[r->at];
	size_t n = buf_len(&c->head) < PIECE ? buf_len(&c->head) : PIECE;

	if (r->text[r->at])
		json_text_add(&r->piece, buf_data(&c->head), n);
	else
		base64_add(&r->piece, buf_data(&c->head), n);
	buf_eat(&c->head, n);
	if (buf_len(&c->head) > 0)
		return;
	buf_puts(&r->piece, "\"");
	if (++r->at < 2)
		begin_output(r);
	else
		buf_puts(&r->piece, "}\n");
}

static void send_more(struct http_conn *c, void *owner)
{
	struct run *r = owner;
	bool more = true;

	r->slow = false;
	if (!r->answered)
		return;
	while (more && r->at < 2) {
		add_output(r);
		more = http_reply_data(c, buf_data(&r->piece),
				       buf_len(&r->piece));
		buf_clear(&r->piece);
	}
	if (r->at == 2) {
		http_reply_end(c);
		run_free(r);
	}
}

static json_t *result_json(const struct run *r, const struct exit_info *x)
{
	json_t *j = json_pack(
		"{s:o, s:b, s:I, s:{s:I, s:I}}", "exit",
		x ? exit_json(x) : json_null(), "timed_out", r->timed_out,
		"duration_ms", (json_int_t)(clock_boot_ms() - r->began_ms),
		"truncated", "stdout", (json_int_t)r->out[0].dropped, "stderr",
		(json_int_t)r->out[1].dropped);

	if (r->box)
		json_object_set_new(j, "sandbox", json_string(r->box->id));
	return j;
}

static void begin(struct run *r, const char *type)
{
	const struct http_field fields[] = { { "Content-Type", type },
					     { NULL, NULL } };

	r->api->metrics.requests[2]++;
	http_reply_start(r->conn, 200, fields, send_more);
}

static void answer(struct run *r, const struct exit_info *x)
{
	json_t *j;
	int i;

	timer_del(&r->api->loop, &r->timeout);
	timer_del(&r->api->loop, &r->tick);
	for (i = 0; i < 2; i++) {
		struct buf *b = &r->out[i].head;

		clip_close(&r->out[i]);
		r->text[i] = http_is_utf8(buf_data(b), buf_len(b));
	}
	j = result_json(r, x);
	if (r->progress)
		json_object_set_new(j, "type", json_string("result"));
	json_add(&r->piece, j);
	json_decref(j);
	r->piece.len--; /* its brace comes behind the output */
	drop_box(r);
	if (!r->begun)
		begin(r, r->progress ? LINES : "application/json");
	r->answered = true;
	begin_output(r);
	send_more(r->conn, r);
}

/* --- how far it is --- */

static void on_tick(struct timer *t)
{
	struct run *r = container_of(t, struct run, tick);
	const struct clip *c = &r->out[r->out[0].total == 0];
	char line[LINE_CAP];

	timer_set(&r->api->loop, t, TICK_MS, on_tick);
	if (r->slow)
		return;
	if (!r->begun)
		begin(r, LINES);
	r->begun = true;
	clip_last_line(c, line, sizeof(line));
	send_line(r, "progress",
		  json_pack("{s:I, s:I, s:I, s:o}", "elapsed_ms",
			    (json_int_t)(clock_boot_ms() - r->began_ms),
			    "stdout_bytes", (json_int_t)r->out[0].total,
			    "stderr_bytes", (json_int_t)r->out[1].total, "line",
			    json_lossy(line, strlen(line))));
}

/* --- the process --- */

static void give_input(struct process *p)
{
	struct run *r = container_of(p, struct run, proc);
	const struct proc_request *q = &r->request;

	if (!q->input)
		return;
	r->input_at += process_input(p, q->input + r->input_at,
				     q->input_len - r->input_at);
	if (r->input_at == q->input_len)
		process_input_eof(p);
}

static void on_started(struct process *p)
{
	struct run *r = container_of(p, struct run, proc);

	if (r->progress)
		timer_set(&r->api->loop, &r->tick, TICK_MS, on_tick);
	give_input(p);
}

static void never_ended(struct timer *t)
{
	struct run *r = container_of(t, struct run, timeout);

	process_close(&r->proc, false);
	answer(r, NULL);
}

static void on_timeout(struct timer *t)
{
	struct run *r = container_of(t, struct run, timeout);

	r->timed_out = true;
	process_signal(&r->proc, SIGKILL);
	timer_set(&r->api->loop, t, KILL_MS, never_ended);
}

/* Takes more of the pool for a stream that is to have `n` bytes. */
static bool grow(struct run *r, unsigned i, size_t n)
{
	size_t more = n - r->charged[i];
	struct err e = { 0 };

	more += GRAIN - more % GRAIN;
	if (!share_take(&r->api->pools.output, who_project(&r->call.who), more,
			&e))
		return false;
	r->charged[i] += more;
	return true;
}

/* Output is charged as it comes: a command that sleeps holds next to nothing.
 * When the project has its share, the middle is cut, as at max_output. */
static void keep_output(struct run *r, unsigned i, const char *data, size_t n)
{
	struct clip *c = &r->out[i];
	size_t most = 3 * c->half, want = clip_len(c) + n, fits = n;

	want = want < most ? want : most;
	if (want > r->charged[i] && !grow(r, i, want))
		fits = r->charged[i] - clip_len(c);
	fits = fits < n ? fits : n;
	clip_add(c, data, fits);
	if (fits < n)
		clip_add_still(c, data + fits, n - fits);
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	struct run *r = container_of(p, struct run, proc);

	keep_output(r, stream - 1, data, n);
	process_consumed(p, stream, n);
}

static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	struct run *r = container_of(p, struct run, proc);

	if (x)
		answer(r, x);
	else
		run_fail(r, e);
}

static const struct process_ops ops = {
	.started = on_started,
	.output = on_output,
	.room = give_input,
	.ended = on_ended,
};

static void run_in(struct run *r, struct sandbox *s)
{
	struct err e = { 0 };

	r->began_ms = clock_boot_ms();
	r->proc.who = &r->call.who;
	r->proc.request_id = http_request_id(r->conn);
	if (process_spawn(&r->proc, s, &r->request.spawn, &e) < 0)
		run_fail(r, &e);
	else if (r->request.timeout_ms)
		timer_set(&r->api->loop, &r->timeout, r->request.timeout_ms,
			  on_timeout);
}

/* --- requests --- */

static int charge(struct run *r, struct err *e)
{
	size_t half = r->request.max_output / 2;
	size_t n = 3 * half < FLOOR ? 3 * half : FLOOR;

	r->out[0].half = r->out[1].half = half;
	if (n == 0)
		return 0;
	r->share = share_take(&r->api->pools.output, who_project(&r->call.who),
			      2 * n, e);
	if (!r->share)
		return -e->code;
	r->charged[0] = r->charged[1] = n;
	return 0;
}

static int parse(struct run *r, const char *body, size_t n, enum proc_use use,
		 struct err *e)
{
	json_t *j = parse_body(body, n, e);
	int rc = j ? proc_request_parse(&r->request, j, use, e) : -EINVAL;

	return rc < 0 ? rc : charge(r, e);
}

static void run_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct run *r = owner;
	struct err e = { 0 };
	struct sandbox *s = box_find(r->api, &r->call.who, r->call.arg[0], &e);

	if (s && parse(r, body, n, PROC_RUN, &e) == 0) {
		run_in(r, s);
		return;
	}
	reply_err(r->api, c, &e);
	run_free(r);
}

static struct run *run_new(struct api *a, struct http_conn *c,
			   const struct call *call)
{
	struct run *r = xcalloc(1, sizeof(*r));

	r->proc.ops = &ops;
	r->api = a;
	r->conn = c;
	r->call = *call;
	http_own(c, r, run_gone);
	return r;
}

void h_process_run(struct api *a, struct http_conn *c, const struct call *call)
{
	struct err e = { 0 };
	bool progress = false;

	if (query_bool(http_request(c), "progress", &progress, &e) < 0) {
		reply_err(a, c, &e);
		return;
	}
	run_new(a, c, call)->progress = progress;
	http_read_body(c, RUN_BODY_MAX, run_body);
}

/* --- in a sandbox of its own --- */

static void run_in_own(struct run *r)
{
	box_log_ready(r->box, &r->call.who, r->conn);
	run_in(r, r->box);
}

static void on_box(void *arg, struct sandbox *s, const struct err *e)
{
	struct run *r = arg;

	if (s) {
		run_in_own(r);
		return;
	}
	r->box = NULL;
	reply_err(r->api, r->conn, e);
	run_free(r);
}

static int make_box(struct run *r, struct err *e)
{
	AUTO(spec_done) struct spec spec = { 0 };
	int rc = 0;

	spec_defaults(&spec, &r->api->conf);
	if (r->request.spec)
		rc = spec_from_json(&spec, r->request.spec, e);
	if (rc == 0)
		rc = rules_may_say(&r->call.who, r->request.spec, e);
	if (rc < 0)
		return rc;
	return box_create(r->api, who_project(&r->call.who), &spec, true,
			  &r->box, e);
}

static void once_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct run *r = owner;
	struct err e = { 0 };
	int rc = parse(r, body, n, PROC_ONCE, &e);

	if (rc == 0)
		rc = make_box(r, &e);
	if (rc >= 0)
		box_log_create(r->box, &r->call.who, c, true);
	if (rc < 0) {
		reply_err(r->api, c, &e);
		run_free(r);
	} else if (rc == 1) {
		run_in_own(r);
	} else {
		box_on_ready(r->box, on_box, r);
	}
}

void h_run_once(struct api *a, struct http_conn *c, const struct call *call)
{
	run_new(a, c, call);
	http_read_body(c, RUN_BODY_MAX, once_body);
}
