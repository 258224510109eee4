/*
 * What a spec wants done when its sandbox runs, before anybody is told: its
 * door is opened (gate.h), its files are written, one after the other, by the
 * agent's own "file.write"; then its start commands are started. Those are
 * lines for the shell, in the background; nobody waits for them, and they are
 * processes like others, with the tags start-1, start-2...
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/process.h"
#include "base/auto.h"
#include "base/base64.h"
#include "wire/file.h"

/* --- start commands --- */

struct start {
	struct process process;
	struct sandbox *box; /* outlives its processes */
	char tag[32];
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

static const struct process_ops start_ops = {
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

	st->process.ops = &start_ops;
	st->box = s;
	snprintf(st->tag, sizeof(st->tag), "start-%zu", i + 1);
	if (process_spawn(&st->process, s, &sp, &e) < 0) {
		log_warn("sandbox=%s %s: %s, ignoring", s->id, st->tag, e.msg);
		free(st);
	}
}

static void start_all(struct sandbox *s)
{
	size_t i, n = json_array_size(s->spec.start);

	for (i = 0; i < n; i++)
		start_one(s, i,
			  json_string_value(json_array_get(s->spec.start, i)));
}

/* --- files --- */

struct set_up {
	struct process process;
	struct sandbox *box;
	struct gate_up door;
	void (*done)(struct sandbox *s, const struct err *e);
	size_t i; /* the file that is being written */
	struct buf content;
	char words[FILE_ERROR_MAX + 1]; /* of its writer, on stderr */
	size_t n_words;
	struct deferred gone;
};

static void set_up_free(struct deferred *d)
{
	struct set_up *u = container_of(d, struct set_up, gone);

	buf_done(&u->content);
	free(u);
}

/* `e` NULL: all is written. */
static void finish(struct set_up *u, const struct err *e)
{
	struct sandbox *s = u->box;

	if (!e) {
		json_decref(s->spec.files);
		s->spec.files = NULL;
		start_all(s);
	}
	loop_defer(&s->api->loop, &u->gone, set_up_free);
	u->done(s, e);
}

static void send_content(struct process *p)
{
	struct set_up *u = container_of(p, struct set_up, process);

	buf_eat(&u->content,
		process_input(p, buf_data(&u->content), buf_len(&u->content)));
	if (buf_len(&u->content) == 0)
		process_input_eof(p);
}

static void on_words(struct process *p, unsigned stream, const void *data,
		     size_t n)
{
	struct set_up *u = container_of(p, struct set_up, process);
	size_t room = sizeof(u->words) - 1 - u->n_words;

	if (stream == 2) {
		memcpy(u->words + u->n_words, data, n < room ? n : room);
		u->n_words += n < room ? n : room;
	}
	process_consumed(p, stream, n);
}

static void next_file(struct set_up *u);

/*
 * "ERRNO MESSAGE\n". Whatever went wrong with a path inside is a fault of the
 * request, except for a disk that is full.
 */
static void refused(struct set_up *u, struct err *e)
{
	char *msg = NULL, *c;
	unsigned long code = strtoul(u->words, &msg, 10);

	msg += *msg == ' ';
	for (c = msg; *c; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = *c == '\n' ? '\0' : '?';
	err_set(e, code == ENOSPC || code == EDQUOT ? ENOSPC : EINVAL,
		"files: %.200s", *msg ? msg : "not written");
}

/* Was it not even started because of us, or of what was asked for? */
static bool is_ours(int code)
{
	return code != ENOENT && code != EINVAL && code != EPERM &&
	       code != EACCES;
}

static void on_written(struct process *p, const struct exit_info *x,
		       const struct err *why)
{
	struct set_up *u = container_of(p, struct set_up, process);
	struct err e = { 0 };

	if (x && !x->signaled && x->code == 0) {
		u->i++;
		next_file(u);
		return;
	}
	if (why)
		err_set(&e, is_ours(why->code) ? EIO : EINVAL, "files: %s",
			why->msg);
	else
		refused(u, &e);
	finish(u, &e);
}

static const struct process_ops file_ops = {
	.started = send_content,
	.output = on_words,
	.room = send_content,
	.ended = on_written,
};

static void take_content(struct set_up *u, const json_t *file)
{
	const json_t *text = json_object_get(file, "content"),
		     *coded = json_object_get(file, "base64");

	buf_clear(&u->content);
	if (text)
		buf_add(&u->content, json_string_value(text),
			json_string_length(text));
	else if (base64_get(&u->content, json_string_value(coded),
			    json_string_length(coded)) < 0)
		buf_clear(&u->content); /* the spec was checked */
}

static int write_file(struct set_up *u, const json_t *file, struct err *e)
{
	const char *path = json_string_value(json_object_get(file, "path")),
		   *mode = json_string_value(json_object_get(file, "mode")),
		   *user = json_string_value(json_object_get(file, "user"));
	const char *env[] = { NULL };
	const char *argv[] = { "file.write", path, "parents", NULL, NULL };
	struct spawn sp = { .flags = SPAWN_BUILTIN | SPAWN_STDIN,
			    .user = user ? user : "",
			    .cwd = "",
			    .tag = "",
			    .argc = mode ? 4 : 3,
			    .argv = argv,
			    .env = env };
	char mode_word[16];

	snprintf(mode_word, sizeof(mode_word), "mode=%s", mode ? mode : "");
	if (mode)
		argv[3] = mode_word;
	take_content(u, file);
	u->process = (struct process){ .ops = &file_ops };
	u->n_words = 0;
	memset(u->words, 0, sizeof(u->words));
	return process_spawn(&u->process, u->box, &sp, e);
}

static void next_file(struct set_up *u)
{
	const json_t *file = json_array_get(u->box->spec.files, u->i);
	struct err e = { 0 };

	if (!file)
		finish(u, NULL);
	else if (write_file(u, file, &e) < 0)
		finish(u, &e);
}

static void on_door(struct gate_up *d, const struct err *e)
{
	struct set_up *u = container_of(d, struct set_up, door);

	if (e)
		finish(u, e);
	else
		next_file(u);
}

int box_set_up(struct sandbox *s,
	       void (*done)(struct sandbox *s, const struct err *e),
	       struct err *e)
{
	struct set_up *u;
	int r;

	drive_door_open(s);
	volumes_attached(s);
	if (json_array_size(s->spec.files) == 0 && !spec_has_door(&s->spec)) {
		start_all(s);
		return 1;
	}
	u = xcalloc(1, sizeof(*u));
	u->box = s;
	u->done = done;
	if (gate_box_up(s, &u->door, on_door) == 0)
		return 0;
	r = write_file(u, json_array_get(s->spec.files, 0), e);
	if (r < 0)
		set_up_free(&u->gone);
	return r;
}
