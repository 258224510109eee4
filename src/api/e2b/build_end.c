/*
 * The end of a build: its disk is kept as it is before anything is started,
 * so that what a sandbox of it starts finds what it found here. Then it is
 * tried: what cannot be started, or is never ready, is no template.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/build.h"
#include "base/auto.h"

static const char *text_of(const struct build_work *w, const char *key)
{
	const char *s =
		json_string_value(json_object_get(w->build->about, key));

	return s ? s : "";
}

static json_t *process(const struct build_work *w, const char *command)
{
	return json_pack("{s:s, s:O, s:s, s:s}", "command", command, "env",
			 w->env, "user", w->user, "cwd", w->workdir);
}

static void on_ready(struct inner_ask *q, int status, json_t *answer)
{
	struct build_work *w = container_of(q, struct build_work, ask);
	const json_t *code =
		json_object_get(json_object_get(answer, "exit"), "code");

	if (status == 200 && json_is_integer(code) &&
	    json_integer_value(code) == 0)
		build_done(w);
	else if (status == 200)
		build_fail(w, "ready command '%.100s' did not succeed in %d s",
			   text_of(w, "ready"), BUILD_READY_S);
	else
		build_fail(w, "ready command: %s",
			   inner_message(status, answer));
}

static void wait_ready(struct build_work *w)
{
	AUTO(buf_done) struct buf loop = { 0 };
	const char *ready = text_of(w, "ready");
	char target[BUILD_TARGET_CAP];
	json_t *body;

	if (!*ready) {
		build_done(w);
		return;
	}
	build_logf(w, "info", "Waiting for: %s", ready);
	buf_printf(&loop, "until %s\ndo sleep 0.1; done", ready);
	body = process(w, buf_str(&loop));
	json_object_set_new(body, "timeout", json_integer(BUILD_READY_S));
	json_object_set_new(body, "max_output", json_integer(0));
	build_ask(w, "POST", build_target(w, "/run", target), body, on_ready);
}

static void on_started(struct inner_ask *q, int status, json_t *answer)
{
	struct build_work *w = container_of(q, struct build_work, ask);

	if (status / 100 == 2)
		wait_ready(w);
	else
		build_fail(w, "start command: %s",
			   inner_message(status, answer));
}

static void start(struct build_work *w)
{
	const char *command = text_of(w, "start");
	char target[BUILD_TARGET_CAP];
	json_t *body;

	if (!*command) {
		wait_ready(w);
		return;
	}
	build_logf(w, "info", "Starting: %s", command);
	body = process(w, command);
	json_object_set_new(body, "detach", json_true());
	build_ask(w, "POST", build_target(w, "/processes", target), body,
		  on_started);
}

static void on_snapshot(struct inner_ask *q, int status, json_t *answer)
{
	struct build_work *w = container_of(q, struct build_work, ask);
	const char *id = json_string_value(json_object_get(answer, "id"));

	if (status / 100 != 2 || !id ||
	    str_copy(w->build->snapshot, sizeof(w->build->snapshot), id) < 0)
		build_fail(w, "its disk could not be kept: %s",
			   inner_message(status, answer));
	else
		start(w);
}

void build_end(struct build_work *w)
{
	char name[NAME_CAP], target[BUILD_TARGET_CAP];

	snprintf(name, sizeof(name), TEMPLATE_SNAPSHOT "%s", w->build->id);
	build_ask(w, "POST", build_target(w, "/snapshots", target),
		  json_pack("{s:s}", "name", name), on_snapshot);
}
