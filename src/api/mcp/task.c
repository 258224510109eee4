#include "api/mcp/task.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/mcp/content.h"
#include "base/auto.h"
#include "http/target.h"

/* --- life --- */

static void task_free(struct deferred *d)
{
	struct task *t = container_of(d, struct task, gone);

	json_decref(t->args);
	free(t);
}

void task_end(struct task *t)
{
	if (t->ended)
		return;
	t->ended = true;
	t->call = NULL;
	inner_ask_close(&t->ask);
	task_fetch_close(t);
	if (t->done)
		t->done(t);
	loop_defer(&t->api->loop, &t->gone, task_free);
}

static void on_stop(struct mcp_call *c)
{
	task_end(c->state);
}

void *task_bare(struct mcp_call *c, const json_t *args, size_t size)
{
	struct task *t = xcalloc(1, size);

	t->api = c->api;
	t->call = c;
	t->args = args ? json_incref((json_t *)args) : json_object();
	c->state = t;
	c->stop = on_stop;
	return t;
}

static void on_box(struct mcp_call *c, const char *box)
{
	struct task *t = c->state;

	snprintf(t->box, sizeof(t->box), "%s", box);
	t->begin(t);
}

void *task_new(struct mcp_call *c, const json_t *args, size_t size,
	       task_fn *begin)
{
	struct task *t = task_bare(c, args, size);

	t->begin = begin;
	mcp_with_box(c, on_box);
	return t;
}

/* --- arguments --- */

const char *task_str(const struct task *t, const char *name, const char *def)
{
	const char *s = json_string_value(json_object_get(t->args, name));

	return s ? s : def;
}

json_int_t task_int(const struct task *t, const char *name, json_int_t def)
{
	const json_t *v = json_object_get(t->args, name);

	return json_is_integer(v) ? json_integer_value(v) : def;
}

bool task_bool(const struct task *t, const char *name, bool def)
{
	const json_t *v = json_object_get(t->args, name);

	return json_is_boolean(v) ? json_is_true(v) : def;
}

/* --- requests --- */

void task_target(const struct task *t, struct buf *out, const char *rest)
{
	buf_printf(out, "/v1/sandboxes/%s%s", t->box, rest);
}

void target_add(struct buf *target, const char *name, const char *value)
{
	bool first = !memchr(buf_data(target), '?', buf_len(target));

	buf_printf(target, "%c%s=", first ? '?' : '&', name);
	http_encode(target, value);
}

static void on_answer(struct inner_ask *q, int status, json_t *answer)
{
	struct task *t = container_of(q, struct task, ask);

	t->answered(t, status, answer);
}

void task_ask(struct task *t, const char *method, const char *target,
	      json_t *body, task_answer_fn *answered)
{
	struct err e = { 0 };

	t->answered = answered;
	if (inner_ask(&t->ask,
		      &(struct inner_json){ t->api, t->call->who,
					    t->call->request_id, method, target,
					    body, on_answer },
		      &e) < 0)
		task_error(t, "%s: try again in a moment", e.msg);
}

static void on_head(struct inner *in, const struct http_head *h)
{
	struct task *t = container_of(in, struct task, in);

	t->bytes->length = h->body == HTTP_LENGTH ? h->length : UINT64_MAX;
}

static void on_data(struct inner *in, const char *p, size_t n)
{
	struct task *t = container_of(in, struct task, in);
	struct task_bytes *b = t->bytes;

	if (in->status / 100 == 2)
		b->data(t, p, n);
	else if (buf_len(&b->error) + n <= TASK_ERROR_MAX)
		buf_add(&b->error, p, n);
}

static void on_ended(struct inner *in, bool whole)
{
	struct task *t = container_of(in, struct task, in);
	struct task_bytes *b = t->bytes;
	json_t *error = NULL;

	if (buf_len(&b->error) > 0)
		error = json_loadb(buf_data(&b->error), buf_len(&b->error), 0,
				   NULL);
	task_fetch_close(t);
	b->ended(t, whole ? in->status : 0, error, whole);
	json_decref(error);
}

static const struct inner_ops fetch_ops = { .head = on_head,
					    .data = on_data,
					    .ended = on_ended };

void task_fetch(struct task *t, const struct inner_request *q,
		struct task_bytes *b)
{
	struct err e = { 0 };

	t->in = (struct inner){ .ops = &fetch_ops };
	t->bytes = b;
	if (inner_start(&t->in, t->api, t->call->who, t->call->request_id, q,
			&e) < 0)
		task_error(t, "%s: try again in a moment", e.msg);
}

void task_fetch_close(struct task *t)
{
	inner_close(&t->in);
	if (t->bytes)
		buf_done(&t->bytes->error);
	t->bytes = NULL;
}

/* --- answers --- */

void task_reply(struct task *t, json_t *content)
{
	struct mcp_call *c = t->call;

	task_end(t);
	mcp_content(c, content, false);
}

static void say(struct task *t, bool is_error, const char *fmt, va_list ap)
{
	struct mcp_call *c = t->call;
	AUTO_FREE char *text = NULL;
	int n = vasprintf(&text, fmt, ap);

	/* The arguments may be the task's own: it goes last. */
	task_end(t);
	mcp_content(c, content_one(text, n < 0 ? 0 : (size_t)n), is_error);
}

void task_text(struct task *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(t, false, fmt, ap);
	va_end(ap);
}

void task_error(struct task *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(t, true, fmt, ap);
	va_end(ap);
}

/* What a model can do about a refusal that is not about its arguments. */
static const struct {
	int status;
	const char *hint;
} hints[] = {
	{ 0, "Try again." },
	{ 403, "The key of this session may not do that; tell the user." },
	{ 429, "Wait a little, then try again." },
	{ 503, "The host is busy: wait a little, then try again." },
};

void task_refused(struct task *t, const char *what, int status,
		  const json_t *answer)
{
	const char *msg = inner_message(status, answer), *hint = NULL;
	size_t i;

	for (i = 0; i < ARRAY_LEN(hints); i++)
		if (hints[i].status == status)
			hint = hints[i].hint;
	task_error(t, "%s: %s%s%s", what, msg, hint ? ". " : "",
		   hint ? hint : "");
}
