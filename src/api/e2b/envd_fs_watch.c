/*
 * WatchDir: what happens in a directory, from the native stream of events.
 *
 * Theirs are those of a program that looks through inotify with the Go
 * library: a rename is one of the old name and a creation of the new one. What
 * an upload of ours does until its file has its name is not told.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/connect.h"
#include "api/e2b/envd_fs.h"
#include "api/e2b/envd_process.h"
#include "base/auto.h"
#include "base/str.h"

enum { LINE_MAX_BYTES = 128 * 1024 };

/* --- events of ours as theirs --- */

static const struct {
	const char *type, *theirs;
} events[] = {
	{ "create", "EVENT_TYPE_CREATE" }, { "write", "EVENT_TYPE_WRITE" },
	{ "remove", "EVENT_TYPE_REMOVE" }, { "rename", "EVENT_TYPE_RENAME" },
	{ "chmod", "EVENT_TYPE_CHMOD" },
};

/* The name that a file of ours has for a moment: see agent/file/fresh.c. */
static bool is_passing(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	return str_starts(name, ".~") &&
	       strspn(name + 2, "0123456789abcdef") == 16 && name[18] == '\0';
}

/* Relative to the directory; "." is the directory itself. */
static const char *name_below(const struct fs_watch *w, const char *path)
{
	size_t n = strcmp(w->top, "/") == 0 ? 0 : strlen(w->top);

	if (strncmp(path, w->top, n) != 0 || path[n] != '/' || !path[n + 1])
		return ".";
	return path + n + 1;
}

static void tell(struct fs_watch *w, const char *type, const char *path,
		 const json_t *entry)
{
	json_t *event = json_pack("{s:s, s:s}", "name", name_below(w, path),
				  "type", type);

	if (w->with_entries && entry)
		json_object_set_new(event, "entry", envd_entry(entry));
	w->ops->event(w, event);
}

static void take_event(struct fs_watch *w, const json_t *j, const char *type)
{
	const char *path = json_string_value(json_object_get(j, "path"));
	const char *to = json_string_value(json_object_get(j, "to"));
	const json_t *entry = json_object_get(j, "file");
	size_t i;

	for (i = 0; i < ARRAY_LEN(events); i++)
		if (strcmp(events[i].type, type) == 0)
			break;
	if (i == ARRAY_LEN(events) || !path || is_passing(path))
		return;
	tell(w, events[i].theirs, path, to ? NULL : entry);
	if (to && w->in.api)
		tell(w, "EVENT_TYPE_CREATE", to, entry);
}

/* --- the native stream --- */

static void end(struct fs_watch *w, const struct envd_error *e)
{
	fs_watch_close(w);
	w->ops->ended(w, e);
}

static void fail(struct fs_watch *w, const char *word, const char *msg)
{
	struct envd_error e = { .word = word };

	snprintf(e.msg, sizeof(e.msg), "%s", msg);
	end(w, &e);
}

static void take_ready(struct fs_watch *w, const json_t *j)
{
	const char *path = json_string_value(json_object_get(j, "path"));
	const char *kind = json_string_value(json_object_get(j, "entry"));

	if (!kind || strcmp(kind, "directory") != 0 || !path) {
		fail(w, "invalid_argument", "path is not a directory");
		return;
	}
	w->top = xstrdup(path);
	w->ops->ready(w);
}

static void take_line(struct fs_watch *w, const char *p, size_t n)
{
	json_t *j = json_loadb(p, n, 0, NULL);
	const char *type = json_string_value(json_object_get(j, "type"));

	w->event_n = n;
	if (!type)
		fail(w, "internal", "an event is no JSON");
	else if (strcmp(type, "error") == 0)
		fail(w, "unavailable", inner_message(200, j));
	else if (strcmp(type, "ready") == 0 && !w->top)
		take_ready(w, j);
	else if (w->top)
		take_event(w, j, type);
	json_decref(j);
}

static void on_data(struct inner *in, const char *p, size_t n)
{
	struct fs_watch *w = container_of(in, struct fs_watch, in);
	const char *line, *nl;
	struct buf all;

	if (buf_len(&w->line) + n > LINE_MAX_BYTES) {
		fail(w, "internal", "an event is too long");
		return;
	}
	buf_add(&w->line, p, n);
	if (in->status != 200)
		return; /* an error, whole at its end */
	/* The owner may close us meanwhile. */
	all = w->line;
	w->line = (struct buf){ 0 };
	line = buf_data(&all);
	n = buf_len(&all);
	while (in->api && (nl = memchr(line, '\n', n))) {
		take_line(w, line, (size_t)(nl - line));
		n -= (size_t)(nl + 1 - line);
		line = nl + 1;
	}
	if (in->api)
		buf_add(&w->line, line, n);
	buf_done(&all);
}

static void on_ended(struct inner *in, bool whole)
{
	struct fs_watch *w = container_of(in, struct fs_watch, in);
	struct envd_error e;
	json_t *j;

	if (in->status == 200 && whole && w->top) {
		end(w, NULL);
		return;
	}
	j = json_loadb(buf_data(&w->line), buf_len(&w->line), 0, NULL);
	envd_fs_error(&w->fs, whole ? in->status : 0, j, &e);
	json_decref(j);
	end(w, &e);
}

static const struct inner_ops watch_inner = { .data = on_data,
					      .ended = on_ended };

int fs_watch_start(struct fs_watch *w, const json_t *message, struct err *e)
{
	const char *given = json_string_value(json_object_get(message, "path"));
	AUTO(buf_done) struct buf path = { 0 };
	AUTO(buf_done) struct buf target = { 0 };
	struct inner_request q = { .method = "GET" };

	if (envd_path(given ? given : "", &path, e) < 0)
		return -e->code;
	w->with_entries =
		json_is_true(json_object_get(message, "includeEntry"));
	envd_fs_target(&w->fs, &target, "watch", buf_data(&path));
	if (json_is_true(json_object_get(message, "recursive")))
		buf_puts(&target, "&recursive=true");
	if (w->with_entries)
		buf_puts(&target, "&detail=true");
	q.target = buf_str(&target);
	w->in.ops = &watch_inner;
	return inner_start(&w->in, w->fs.api, &w->fs.who, w->fs.request_id, &q,
			   e);
}

void fs_watch_hold(struct fs_watch *w, bool hold)
{
	inner_hold(&w->in, hold);
}

void fs_watch_close(struct fs_watch *w)
{
	inner_close(&w->in);
	buf_done(&w->line);
	free(w->top);
	w->top = NULL;
}

/* --- the stream --- */

struct watch_call {
	struct fs_watch watch;
	struct http_conn *conn;
	struct connect_stream stream;
	struct timer deadline;
	struct deferred gone;
};

static void call_free(struct deferred *d)
{
	free(container_of(d, struct watch_call, gone));
}

static void call_end(struct watch_call *q)
{
	fs_watch_close(&q->watch);
	connect_gone(&q->stream);
	timer_del(&q->watch.fs.api->loop, &q->deadline);
	loop_defer(&q->watch.fs.api->loop, &q->gone, call_free);
}

static void call_gone(struct http_conn *c, void *owner)
{
	(void)c;
	call_end(owner);
}

static void call_ready(struct http_conn *c, void *owner)
{
	struct watch_call *q = owner;

	(void)c;
	fs_watch_hold(&q->watch, false);
}

static void call_send(struct watch_call *q, json_t *message)
{
	if (!connect_send_json(&q->stream, message))
		fs_watch_hold(&q->watch, true);
}

static void on_ready(struct fs_watch *w)
{
	struct watch_call *q = container_of(w, struct watch_call, watch);

	connect_start(&q->stream, w->fs.api, q->conn, "{\"keepalive\":{}}",
		      call_ready);
	call_send(q, json_pack("{s:{}}", "start"));
}

static void on_event(struct fs_watch *w, json_t *event)
{
	call_send(container_of(w, struct watch_call, watch),
		  json_pack("{s:o}", "filesystem", event));
}

static void on_watch_ended(struct fs_watch *w, const struct envd_error *e)
{
	struct watch_call *q = container_of(w, struct watch_call, watch);

	if (q->stream.conn)
		connect_end(&q->stream, e ? e->word : NULL, e ? e->msg : NULL);
	else
		connect_refuse(w->fs.api, q->conn, e->word, e->msg);
	call_end(q);
}

static const struct fs_watch_ops stream_ops = {
	.ready = on_ready,
	.event = on_event,
	.ended = on_watch_ended,
};

/* The time that the client gave it, for those who do not leave then. */
static void on_deadline(struct timer *t)
{
	struct watch_call *q = container_of(t, struct watch_call, deadline);

	fs_watch_close(&q->watch);
	on_watch_ended(&q->watch,
		       &(struct envd_error){ .word = "deadline_exceeded",
					     .msg = "the time is over" });
}

static int set_deadline(struct watch_call *q, struct http_conn *c,
			struct err *e)
{
	uint64_t ms = 0;
	int r = envd_stream_timeout(c, &ms, e);

	if (r == 0 && ms > 0)
		timer_set(&q->watch.fs.api->loop, &q->deadline, ms,
			  on_deadline);
	return r;
}

static void on_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct watch_call *q = owner;
	struct err e = { 0 };
	json_t *message = connect_message(c, body, n, &e);

	if (!message || set_deadline(q, c, &e) < 0 ||
	    fs_watch_start(&q->watch, message, &e) < 0) {
		connect_refuse(q->watch.fs.api, c, connect_code(e.code), e.msg);
		call_end(q);
	}
	json_decref(message);
}

void envd_watch_dir(struct api *a, struct http_conn *c,
		    const struct envd_call *call)
{
	struct watch_call *q = xcalloc(1, sizeof(*q));

	q->conn = c;
	q->watch.ops = &stream_ops;
	envd_fs_init(&q->watch.fs, a, c, call);
	http_own(c, q, call_gone);
	http_read_body(c, BODY_MAX, on_body);
}
