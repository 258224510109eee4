/*
 * A process of a build's sandbox, whose events come as lines of JSON. Its
 * output goes into the log, line by line.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/build.h"
#include "base/auto.h"
#include "base/base64.h"

enum { LINE_MAX_BYTES = 512 * 1024, SAID_MAX = 32 * 1024 };

static const char *const levels[] = { "info", "warn" };

/* Whole lines, or `all` there is. */
static void log_lines(struct build_work *w, unsigned i, bool all)
{
	struct buf *b = &w->text[i];

	while (buf_len(b) > 0) {
		const char *p = buf_data(b);
		const char *nl = memchr(p, '\n', buf_len(b));
		size_t n = nl ? (size_t)(nl - p) : buf_len(b);

		if (!nl && !all && n < BUILD_LOG_LINE)
			return;
		while (n > 0 && p[n - 1] == '\r')
			n--;
		if (n > 0)
			build_log(w->build, levels[i], w->step, p, n);
		buf_eat(b, nl ? (size_t)(nl - p) + 1 : buf_len(b));
	}
}

static void take_output(struct build_work *w, const json_t *event)
{
	const char *data = json_string_value(json_object_get(event, "data"));
	const json_t *coded = json_object_get(event, "base64");
	const char *stream =
		json_string_value(json_object_get(event, "stream"));
	unsigned i = stream && strcmp(stream, "stderr") == 0;

	if (w->quiet)
		return;
	if (data)
		buf_puts(&w->text[i], data);
	else if (coded && base64_get(&w->text[i], json_string_value(coded),
				     json_string_length(coded)) < 0)
		buf_puts(&w->text[i], "?");
	if (!w->keep) {
		log_lines(w, i, false);
		return;
	}
	/* What is too much, or was said on stderr, is not waited for. */
	if (i == 0 && buf_len(&w->said) < SAID_MAX)
		buf_add(&w->said, buf_data(&w->text[0]), buf_len(&w->text[0]));
	buf_clear(&w->text[i]);
}

static void take_event(struct build_work *w, const json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));
	const json_t *code;

	if (!type)
		return;
	if (strcmp(type, "output") == 0) {
		take_output(w, event);
	} else if (strcmp(type, "exit") == 0) {
		code = json_object_get(json_object_get(event, "exit"), "code");
		w->code = json_is_integer(code) ? (int)json_integer_value(code)
						: -1;
		w->over = true;
	} else if (strcmp(type, "error") == 0) {
		snprintf(w->why, sizeof(w->why), "%s",
			 inner_message(200, event));
	}
}

static void on_data(struct inner *in, const char *p, size_t n)
{
	struct build_work *w = container_of(in, struct build_work, run);
	const char *nl;

	if (buf_len(&w->lines) + n > LINE_MAX_BYTES)
		return; /* no event is so long */
	buf_add(&w->lines, p, n);
	if (in->status != 200)
		return;
	while ((nl = memchr(buf_data(&w->lines), '\n', buf_len(&w->lines)))) {
		size_t len = (size_t)(nl - buf_data(&w->lines));
		json_t *event = json_loadb(buf_data(&w->lines), len, 0, NULL);

		take_event(w, event);
		json_decref(event);
		buf_eat(&w->lines, len + 1);
	}
}

/* The answer was an error: nothing ran. */
static void take_refusal(struct build_work *w)
{
	json_t *j =
		json_loadb(buf_data(&w->lines), buf_len(&w->lines), 0, NULL);

	snprintf(w->why, sizeof(w->why), "%s", inner_message(w->run.status, j));
	json_decref(j);
}

static void on_ended(struct inner *in, bool whole)
{
	struct build_work *w = container_of(in, struct build_work, run);

	if (in->status != 200)
		take_refusal(w);
	else if ((!whole || !w->over) && !*w->why)
		snprintf(w->why, sizeof(w->why),
			 "the sandbox ended, or was paused");
	if (!w->keep) {
		log_lines(w, 0, true);
		log_lines(w, 1, true);
	}
	buf_clear(&w->lines);
	buf_clear(&w->text[0]);
	buf_clear(&w->text[1]);
	w->ran(w);
}

static const struct inner_ops run_ops = { .data = on_data, .ended = on_ended };

static json_t *argv_json(const char *const *argv)
{
	json_t *j = json_array();

	for (; *argv; argv++)
		json_array_append_new(j, json_string(*argv));
	return j;
}

void build_run(struct build_work *w, const struct build_process *p,
	       void (*ran)(struct build_work *w))
{
	static const struct http_field fields[] = {
		{ "Content-Type", "application/json" }, { NULL, NULL }
	};
	json_t *body =
		json_pack("{s:o, s:O, s:s, s:s}", "argv", argv_json(p->argv),
			  "env", w->env, "user", p->user ? p->user : w->user,
			  "cwd", p->user ? "/" : w->workdir);
	AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	char target[BUILD_TARGET_CAP];
	const struct inner_request q = {
		.method = "POST",
		.target = build_target(w, "/processes?stream=true", target),
		.fields = fields,
		.body = text,
		.body_n = text ? strlen(text) : 0
	};
	struct err e = { 0 };

	json_decref(body);
	w->quiet = p->quiet;
	w->keep = p->keep;
	w->over = false;
	w->code = -1;
	w->why[0] = '\0';
	w->ran = ran;
	buf_clear(&w->said);
	w->run = (struct inner){ .ops = &run_ops };
	if (!text)
		build_fail(w, "an argument is not UTF-8");
	else if (inner_start(&w->run, w->api, &w->who, w->request, &q, &e) < 0)
		build_fail(w, "%s", e.msg);
}
