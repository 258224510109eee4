#include "cli/long.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "cli/show.h"

struct lines {
	const struct long_phase *phases;
	struct progress *progress;
	struct buf text;
	json_t *last; /* the line with "done" or "error" */
};

static void show_progress(struct lines *l, const json_t *p)
{
	const char *step = show_str(p, "step");
	const struct long_phase *ph;

	for (ph = l->phases; ph->step; ph++)
		if (strcmp(ph->step, step) == 0)
			progress_phase(l->progress, ph->phase);
	l->progress->total =
		(uint64_t)json_integer_value(json_object_get(p, "total"));
	progress_bytes(l->progress, (uint64_t)json_integer_value(
					    json_object_get(p, "bytes")));
}

static void take_line(struct lines *l, const char *s, size_t n)
{
	json_t *j = json_loadb(s, n, 0, NULL);
	const json_t *progress = json_object_get(j, "progress");

	if (progress) {
		show_progress(l, progress);
		json_decref(j);
	} else if (j) {
		json_decref(l->last);
		l->last = j;
	}
}

static int take_piece(const char *p, size_t n, void *ctx, struct err *e)
{
	struct lines *l = ctx;
	char *nl;

	if (buf_len(&l->text) + n > ANSWER_MAX)
		return err_set(e, EMSGSIZE, "the daemon says too much");
	buf_add(&l->text, p, n);
	while ((nl = memchr(buf_data(&l->text), '\n', buf_len(&l->text)))) {
		size_t len = (size_t)(nl - buf_data(&l->text));

		take_line(l, buf_data(&l->text), len);
		buf_eat(&l->text, len + 1);
	}
	return 0;
}

json_t *long_ask(struct cli *cli, const char *target, const struct buf *body,
		 const struct long_phase *phases, struct progress *progress)
{
	static const struct http_field fields[] = {
		{ "Accept", "application/x-ndjson" },
		{ "Content-Type", "application/json" },
		{ 0 }
	};
	struct lines l = { .phases = phases, .progress = progress };
	struct http_call call = { .method = "POST",
				  .target = target,
				  .fields = fields,
				  .body = buf_data(body),
				  .body_n = buf_len(body) };
	char message[MESSAGE_CAP];
	struct http_client c;
	struct err e = { 0 };
	json_t *done, *answer = NULL;
	int status;

	server_open(cli, &c);
	if (http_send(&c, &call, &e) < 0 || http_recv_head(&c, &e) < 0)
		fail(cli, "%s", e.msg);
	if (c.head.status != 200) {
		status = server_answer(cli, &c, &answer);
		server_message(status, answer, message);
		fail(cli, "%s", message);
	}
	if (http_recv_stream(&c, take_piece, &l, &e) < 0)
		err_wrap(&e, "the daemon");
	http_client_done(&c);
	progress_clear(progress);
	buf_done(&l.text);
	done = json_incref(json_object_get(l.last, "done"));
	if (done) {
		json_decref(l.last);
		return done;
	}
	if (e.code == 0)
		clean_text(
			e.msg, sizeof(e.msg),
			show_str(json_object_get(l.last, "error"), "message"));
	fail(cli, "%s", *e.msg ? e.msg : "the connection to the daemon broke");
}
