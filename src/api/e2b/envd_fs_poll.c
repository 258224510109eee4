/*
 * CreateWatcher, GetWatcherEvents, RemoveWatcher: events for clients that have
 * no streams. A watcher lives here until it is removed, nobody asks for its
 * events any more, or we end; after that its id is unknown.
 *
 * What is not fetched waits: first here, up to EVENTS_MAX and EVENTS_BYTES,
 * then in the sandbox, whose kernel tells when it had to drop some.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/api.h"
#include "api/e2b/connect.h"
#include "api/e2b/envd_fs.h"
#include "base/auto.h"

enum {
	EVENTS_MAX = 1024,
	EVENTS_BYTES = 256 * 1024, /* of the native ones */
	PER_SANDBOX = 32,
	WATCHERS_MAX = 1024,
	IDLE_MS = 30 * 60 * 1000,
	WATCHER_ID = 17,
};

struct watcher {
	struct list all;
	char id[WATCHER_ID];
	struct fs_watch watch;
	struct http_conn *conn; /* who asked for it, until it is ready */
	json_t *events;
	size_t bytes; /* of them */
	struct timer idle;
	struct deferred gone;
};

static void watcher_free(struct deferred *d)
{
	struct watcher *w = container_of(d, struct watcher, gone);

	json_decref(w->events);
	free(w);
}

static void watcher_end(struct watcher *w)
{
	struct loop *l = &w->watch.fs.api->loop;

	list_del(&w->all);
	timer_del(l, &w->idle);
	fs_watch_close(&w->watch);
	loop_defer(l, &w->gone, watcher_free);
}

static void on_idle(struct timer *t)
{
	watcher_end(container_of(t, struct watcher, idle));
}

static void touch(struct watcher *w)
{
	timer_set(&w->watch.fs.api->loop, &w->idle, IDLE_MS, on_idle);
}

/* --- its events --- */

static void on_ready(struct fs_watch *f)
{
	struct watcher *w = container_of(f, struct watcher, watch);
	struct http_conn *c = w->conn;

	w->conn = NULL;
	touch(w);
	connect_reply(f->fs.api, c, json_pack("{s:s}", "watcherId", w->id));
}

static void on_event(struct fs_watch *f, json_t *event)
{
	struct watcher *w = container_of(f, struct watcher, watch);

	json_array_append_new(w->events, event);
	w->bytes += f->event_n;
	if (json_array_size(w->events) >= EVENTS_MAX ||
	    w->bytes >= EVENTS_BYTES)
		fs_watch_hold(f, true);
}

/* One that was told about stays, with what it has. */
static void on_ended(struct fs_watch *f, const struct envd_error *e)
{
	struct watcher *w = container_of(f, struct watcher, watch);
	struct http_conn *c = w->conn;

	if (!c)
		return;
	watcher_end(w);
	connect_fail_as(f->fs.api, c, e->word, e->msg);
}

static const struct fs_watch_ops ops = {
	.ready = on_ready,
	.event = on_event,
	.ended = on_ended,
};

/* --- CreateWatcher --- */

static int may_create(struct api *a, const char *box, struct err *e)
{
	unsigned all = 0, own = 0;
	struct list *n, *next;

	list_each (n, next, &a->e2b_watchers) {
		struct watcher *w = container_of(n, struct watcher, all);

		/* Nobody can ask for those of a sandbox that is gone. */
		if (!box_by_id(a, w->watch.fs.box)) {
			watcher_end(w);
			continue;
		}
		all++;
		own += strcmp(w->watch.fs.box, box) == 0;
	}
	if (own >= PER_SANDBOX || all >= WATCHERS_MAX)
		return err_set(e, EUSERS,
			       "too many watchers: remove some with "
			       "RemoveWatcher");
	return 0;
}

static void create_gone(struct http_conn *c, void *owner)
{
	(void)c;
	watcher_end(owner);
}

static int make_id(char out[WATCHER_ID], struct err *e)
{
	unsigned long long v;

	if (getrandom(&v, sizeof(v), 0) != sizeof(v))
		return err_sys(e, "random bytes");
	snprintf(out, WATCHER_ID, "%016llx", v);
	return 0;
}

static void create_body(struct http_conn *c, char *body, size_t n, void *owner)
{
	struct watcher *w = owner;
	struct api *a = w->watch.fs.api;
	struct err e = { 0 };
	json_t *message = connect_message(c, body, n, &e);

	if (!message || may_create(a, w->watch.fs.box, &e) < 0 ||
	    make_id(w->id, &e) < 0 ||
	    fs_watch_start(&w->watch, message, &e) < 0) {
		watcher_end(w);
		connect_fail(a, c, e.code, e.msg);
	} else {
		list_add(&a->e2b_watchers, &w->all);
	}
	json_decref(message);
}

void envd_create_watcher(struct api *a, struct http_conn *c,
			 const struct envd_call *call)
{
	struct watcher *w = xcalloc(1, sizeof(*w));

	list_init(&w->all);
	w->conn = c;
	w->events = json_array();
	w->watch.ops = &ops;
	envd_fs_init(&w->watch.fs, a, c, call);
	http_own(c, w, create_gone);
	http_read_body(c, BODY_MAX, create_body);
}

/* --- by their id --- */

/* One of this sandbox, which whoever made it was told about. */
static struct watcher *find(struct fs_call *q)
{
	const char *id =
		json_string_value(json_object_get(q->message, "watcherId"));
	struct list *n, *next;
	char msg[96];

	list_each (n, next, &q->fs.api->e2b_watchers) {
		struct watcher *w = container_of(n, struct watcher, all);

		if (id && !w->conn && strcmp(w->id, id) == 0 &&
		    strcmp(w->watch.fs.box, q->fs.box) == 0)
			return w;
	}
	snprintf(msg, sizeof(msg), "watcher with id %.32s not found",
		 id ? id : "");
	fs_call_fail(q, "not_found", msg);
	return NULL;
}

static void events_start(struct fs_call *q)
{
	struct watcher *w = find(q);
	json_t *events;

	if (!w)
		return;
	events = w->events;
	w->events = json_array();
	w->bytes = 0;
	touch(w);
	fs_watch_hold(&w->watch, false);
	fs_call_reply(q, json_pack("{s:o}", "events", events));
}

void envd_watcher_events(struct api *a, struct http_conn *c,
			 const struct envd_call *call)
{
	fs_call_read(a, c, call, events_start);
}

static void remove_start(struct fs_call *q)
{
	struct watcher *w = find(q);

	if (!w)
		return;
	watcher_end(w);
	fs_call_reply(q, json_object());
}

void envd_remove_watcher(struct api *a, struct http_conn *c,
			 const struct envd_call *call)
{
	fs_call_read(a, c, call, remove_start);
}
