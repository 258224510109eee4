/*
 * Start commands of a spec: each is a line for the shell, started in the
 * background when the sandbox runs. Nobody waits for them; they are processes
 * like others, with the tags start-1, start-2...
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"
#include "api/process.h"

struct start {
	struct process process;
	struct sandbox *box; /* outlives its processes */
	char tag[16];
	struct deferred gone;
};

static void start_free(struct deferred *d)
{
	free(container_of(d, struct start, gone));
}

static void on_started(struct process *p)
{
	struct start *st = container_of(p, struct start, process);
	struct api *a = st->box->api;

	process_close(p, false);
	loop_defer(&a->loop, &st->gone, start_free);
}

static void on_output(struct process *p, unsigned stream, const void *data,
		      size_t n)
{
	(void)data;
	process_consumed(p, stream, n);
}

/* Before on_started(): it never ran. */
static void on_ended(struct process *p, const struct exit_info *x,
		     const struct err *e)
{
	struct start *st = container_of(p, struct start, process);

	(void)x;
	if (e)
		log_warn("sandbox=%s %s: %s, ignoring", st->box->id, st->tag,
			 e->msg);
	loop_defer(&st->box->api->loop, &st->gone, start_free);
}

static const struct process_ops ops = {
	.started = on_started,
	.output = on_output,
	.ended = on_ended,
};

static void start_one(struct sandbox *s, size_t i, const char *command)
{
	const char *argv[] = { "/bin/sh", "-c", command, NULL };
	const char *env[] = { NULL };
	struct start *st = xcalloc(1, sizeof(*st));
	struct spawn sp = { .flags = SPAWN_DETACHED,
			    .user = "",
			    .cwd = "",
			    .tag = st->tag,
			    .argc = 3,
			    .argv = argv,
			    .env = env };
	struct err e = { 0 };

	st->process.ops = &ops;
	st->box = s;
	snprintf(st->tag, sizeof(st->tag), "start-%zu", i + 1);
	if (process_spawn(&st->process, s, &sp, &e) < 0) {
		log_warn("sandbox=%s %s: %s, ignoring", s->id, st->tag, e.msg);
		free(st);
	}
}

void box_start_commands(struct sandbox *s)
{
	const json_t *command;
	size_t i;

	json_array_foreach (s->spec.start, i, command)
		start_one(s, i, json_string_value(command));
}
