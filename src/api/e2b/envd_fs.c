/* filesystem.Filesystem: the calls that are one question and one answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/connect.h"
#include "api/e2b/envd_fs.h"
#include "base/auto.h"

/* --- a call --- */

static void call_free(struct deferred *d)
{
	struct fs_call *q = container_of(d, struct fs_call, gone);

	json_decref(q->message);
	buf_done(&q->path);
	free(q->after);
	free(q);
}

void fs_call_end(struct fs_call *q)
{
	inner_ask_close(&q->ask);
	loop_defer(&q->fs.api->loop, &q->gone, call_free);
}

static void call_gone(struct http_conn *c, void *owner)
{
	(void)c;
	fs_call_end(owner);
}

void fs_call_reply(struct fs_call *q, json_t *answer)
{
	fs_call_end(q);
	connect_reply(q->fs.api, q->conn, answer);
}

void fs_call_fail(struct fs_call *q, const char *word, const char *msg)
{
	fs_call_end(q);
	if (q->begun)
		http_reply_cut(q->conn);
	else
		connect_fail_as(q->fs.api, q->conn, word, msg);
}

void fs_call_error(struct fs_call *q, int status, const json_t *answer)
{
	struct envd_error e;

	envd_fs_error(&q->fs, status, answer, &e);
	fs_call_fail(q, e.word, e.msg);
}

void fs_call_ask(struct fs_call *q, const char *method, const char *target,
		 json_t *body,
		 void (*done)(struct inner_ask *a, int status, json_t *answer))
{
	struct err e = { 0 };

	if (inner_ask(&q->ask,
		      &(struct inner_json){ q->fs.api, &q->fs.who,
					    q->fs.request_id, method, target,
					    body, done },
		      &e) < 0)
		fs_call_fail(q, connect_code(e.code), e.msg);
}

static int take_path(const json_t *message, const char *key, struct buf *path,
		     struct err *e)
{
	const json_t *v = json_object_get(message, key);

	if (v && !json_is_string(v))
		return err_set(e, EINVAL, "%s is not a string", key);
	return envd_path(v ? json_string_value(v) : "", path, e);
}

static void on_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct fs_call *q = owner;
	struct err e = { 0 };

	q->message = connect_message(c, body, n, &e);
	if (!q->message || take_path(q->message, "path", &q->path, &e) < 0)
		fs_call_fail(q, connect_code(e.code), e.msg);
	else
		q->start(q);
}

void fs_call_read(struct api *a, struct http_conn *c,
		  const struct envd_call *call,
		  void (*start)(struct fs_call *q))
{
	struct fs_call *q = xcalloc(1, sizeof(*q));

	envd_fs_init(&q->fs, a, c, call);
	q->conn = c;
	q->start = start;
	http_own(c, q, call_gone);
	http_read_body(c, BODY_MAX, on_body);
}

static void ask_path(struct fs_call *q, const char *what, const char *more,
		     void (*done)(struct inner_ask *a, int status,
				  json_t *answer))
{
	AUTO(buf_done) struct buf target = { 0 };

	envd_fs_target(&q->fs, &target, what, buf_data(&q->path));
	buf_puts(&target, more);
	fs_call_ask(q, "GET", buf_str(&target), NULL, done);
}

static void ask_change(struct fs_call *q, const char *what, json_t *body,
		       void (*done)(struct inner_ask *a, int status,
				    json_t *answer))
{
	AUTO(buf_done) struct buf target = { 0 };

	buf_printf(&target, "/v1/sandboxes/%s/files/%s", q->fs.box, what);
	fs_call_ask(q, "POST", buf_str(&target), body, done);
}

static void entry_done(struct inner_ask *a, int status, json_t *answer)
{
	struct fs_call *q = container_of(a, struct fs_call, ask);

	if (status != 200 && status != 201)
		fs_call_error(q, status, answer);
	else
		fs_call_reply(q,
			      json_pack("{s:o}", "entry", envd_entry(answer)));
}

/* --- Stat --- */

static void stat_done(struct inner_ask *a, int status, json_t *answer)
{
	struct fs_call *q = container_of(a, struct fs_call, ask);
	const char *word = json_string_value(json_object_get(answer, "error"));

	/* They ask whether it exists: below a file nothing does. */
	if (word && strcmp(word, "not_a_directory") == 0)
		fs_call_fail(q, "not_found", inner_message(status, answer));
	else
		entry_done(a, status, answer);
}

static void stat_start(struct fs_call *q)
{
	ask_path(q, "stat", "&detail=true", stat_done);
}

static void envd_stat(struct api *a, struct http_conn *c,
		      const struct envd_call *call)
{
	fs_call_read(a, c, call, stat_start);
}

/* --- MakeDir: one that is there is an error to them --- */

static void make_looked(struct inner_ask *a, int status, json_t *answer)
{
	struct fs_call *q = container_of(a, struct fs_call, ask);
	const char *type = json_string_value(json_object_get(answer, "type"));
	json_t *body;

	if (status == 200 && type && strcmp(type, "directory") == 0) {
		fs_call_fail(q, "already_exists", "directory already exists");
	} else if (status == 200) {
		fs_call_fail(q, "invalid_argument",
			     "path already exists but it is not a directory");
	} else if (status != 404) {
		fs_call_error(q, status, answer);
	} else {
		body = envd_fs_body(&q->fs, buf_data(&q->path), NULL);
		json_object_set_new(body, "parents", json_true());
		json_object_set_new(body, "detail", json_true());
		ask_change(q, "mkdir", body, entry_done);
	}
}

static void make_start(struct fs_call *q)
{
	ask_path(q, "stat", "&follow=true", make_looked);
}

static void envd_make_dir(struct api *a, struct http_conn *c,
			  const struct envd_call *call)
{
	fs_call_read(a, c, call, make_start);
}

/* --- Move --- */

static void move_start(struct fs_call *q)
{
	AUTO(buf_done) struct buf to = { 0 };
	struct err e = { 0 };
	json_t *body;

	if (take_path(q->message, "source", &q->path, &e) < 0 ||
	    take_path(q->message, "destination", &to, &e) < 0) {
		fs_call_fail(q, connect_code(e.code), e.msg);
		return;
	}
	body = envd_fs_body(&q->fs, buf_data(&q->path), buf_data(&to));
	json_object_set_new(body, "parents", json_true());
	json_object_set_new(body, "overwrite", json_true());
	json_object_set_new(body, "detail", json_true());
	ask_change(q, "move", body, entry_done);
}

static void envd_move(struct api *a, struct http_conn *c,
		      const struct envd_call *call)
{
	fs_call_read(a, c, call, move_start);
}

/* --- Remove: what is not there is removed --- */

static void remove_done(struct inner_ask *a, int status, json_t *answer)
{
	struct fs_call *q = container_of(a, struct fs_call, ask);

	if (status == 204 || status == 404)
		fs_call_reply(q, json_object());
	else
		fs_call_error(q, status, answer);
}

static void remove_start(struct fs_call *q)
{
	json_t *body = envd_fs_body(&q->fs, buf_data(&q->path), NULL);

	json_object_set_new(body, "recursive", json_true());
	ask_change(q, "remove", body, remove_done);
}

static void envd_remove(struct api *a, struct http_conn *c,
			const struct envd_call *call)
{
	fs_call_read(a, c, call, remove_start);
}

#define FS "/filesystem.Filesystem/"

const struct envd_route envd_fs_routes[] = {
	{ "POST", FS "Stat", envd_stat, 0 },
	{ "POST", FS "MakeDir", envd_make_dir, 0 },
	{ "POST", FS "Move", envd_move, 0 },
	{ "POST", FS "Remove", envd_remove, 0 },
	{ "POST", FS "ListDir", envd_list_dir, 0 },
	{ "POST", FS "WatchDir", envd_watch_dir, 0 },
	{ "POST", FS "CreateWatcher", envd_create_watcher, 0 },
	{ "POST", FS "GetWatcherEvents", envd_watcher_events, 0 },
	{ "POST", FS "RemoveWatcher", envd_remove_watcher, 0 },
	{ 0 },
};
