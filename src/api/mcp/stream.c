#include "api/mcp/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/json_text.h"
#include "api/mcp/rpc.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/buf.h"

/* --- events that are kept --- */

struct event {
	struct list node;
	unsigned at;
	size_t n;
	char text[];
};

static void event_drop(struct mcp_stream *st, struct event *ev)
{
	list_del(&ev->node);
	st->session->kept -= ev->n;
	st->session->api->mcp.kept -= ev->n;
	free(ev);
}

static void events_drop(struct mcp_stream *st)
{
	struct list *n, *next;

	list_each (n, next, &st->events)
		event_drop(st, container_of(n, struct event, node));
}

static void bury(struct deferred *d)
{
	struct mcp_stream *st = container_of(d, struct mcp_stream, bury);

	json_decref(st->answers);
	free(st);
}

/* --- what its calls remember --- */

bool mcp_stream_fits(const struct mcp_session *s, size_t n)
{
	struct err e = { 0 };
	struct share *share;

	if (n <= MCP_SMALL)
		return true;
	share = share_take(&s->api->pools.messages, s->who.project, n, &e);
	share_give(share, n);
	return s->held + n <= MCP_HELD_MAX && e.code == 0;
}

void mcp_stream_charge(struct mcp_stream *st, size_t n)
{
	struct err e = { 0 };

	if (n <= MCP_SMALL)
		return;
	st->held = n;
	st->session->held += n;
	st->share = share_take(&st->session->api->pools.messages,
			       st->session->who.project, n, &e);
}

static void discharge(struct mcp_stream *st)
{
	st->session->held -= st->held;
	share_give(st->share, st->held);
	st->share = NULL;
	st->held = 0;
}

/* --- its memory --- */

static void forget(struct mcp_stream *st)
{
	discharge(st);
	timer_del(&st->session->api->loop, &st->timer);
	events_drop(st);
	list_del(&st->node);
	loop_defer(&st->session->api->loop, &st->bury, bury);
}

static bool is_finished(const struct mcp_stream *st)
{
	return st->number > 0 && st->n_calls == 0 && !st->busy;
}

static struct mcp_stream *oldest_finished(struct mcp_session *s,
					  const struct mcp_stream *but)
{
	struct list *n, *next;

	list_each (n, next, &s->streams) {
		struct mcp_stream *st =
			container_of(n, struct mcp_stream, node);

		if (st != but && !st->conn && is_finished(st))
			return st;
	}
	return NULL;
}

static bool keeps_too_much(const struct mcp_session *s)
{
	return s->kept > MCP_KEPT_MAX ||
	       (s->kept > MCP_KEPT_MIN && s->api->mcp.kept > MCP_KEPT_ALL_MAX);
}

/* What is over goes first, then what this one said first. */
static void keep_bounds(struct mcp_stream *st)
{
	struct mcp_session *s = st->session;
	struct list *n, *next;
	struct mcp_stream *old;

	while (keeps_too_much(s) && (old = oldest_finished(s, st)))
		forget(old);
	list_each (n, next, &st->events)
		if (keeps_too_much(s))
			event_drop(st, container_of(n, struct event, node));
}

static void keep(struct mcp_stream *st, const struct buf *text)
{
	size_t n = buf_len(text);
	struct event *ev = xcalloc(1, sizeof(*ev) + n);

	ev->at = st->n_events;
	ev->n = n;
	memcpy(ev->text, buf_data(text), n);
	list_add(&st->events, &ev->node);
	st->session->kept += n;
	st->session->api->mcp.kept += n;
}

/* --- the connection --- */

static void on_ready(struct http_conn *c, void *owner)
{
	struct mcp_stream *st = owner;

	(void)c;
	st->full = false;
}

static void on_gone(struct http_conn *c, void *owner)
{
	struct mcp_stream *st = owner;

	(void)c;
	st->conn = NULL;
	timer_del(&st->session->api->loop, &st->timer);
	mcp_session_touch(st->session);
	if (st->number == 0)
		forget(st);
}

static void put(struct mcp_stream *st, const void *p, size_t n)
{
	if (st->conn && !http_reply_data(st->conn, p, n))
		st->full = true;
}

static void on_ping(struct timer *t)
{
	struct mcp_stream *st = container_of(t, struct mcp_stream, timer);
	static const char ping[] = ": ping\n\n";

	put(st, ping, sizeof(ping) - 1);
	timer_set(&st->session->api->loop, t, STREAM_PING_MS, on_ping);
}

static void open_events(struct mcp_stream *st)
{
	static const struct http_field fields[] = {
		{ "Content-Type", "text/event-stream" },
		{ "Cache-Control", "no-store" },
		{ NULL, NULL },
	};
	struct api *a = st->session->api;

	a->metrics.requests[2]++;
	http_reply_start(st->conn, 200, fields, on_ready);
	timer_set(&a->loop, &st->timer, STREAM_PING_MS, on_ping);
}

/* An id to come back with, before there is anything to say. Clients of
 * earlier versions take it for a message. */
static void put_first(struct mcp_stream *st)
{
	char text[64];
	int n;

	if (st->session->version < MCP_2025_11_25)
		return;
	n = snprintf(text, sizeof(text), "id: %u-0\nretry: %d\ndata: \n\n",
		     st->number, STREAM_RETRY_MS);
	put(st, text, (size_t)n);
}

static void push(struct mcp_stream *st, json_t *msg)
{
	AUTO(buf_done) struct buf text = { 0 };

	st->n_events++;
	buf_printf(&text, "id: %u-%u\nevent: message\ndata: ", st->number,
		   st->n_events);
	json_add(&text, msg);
	buf_puts(&text, "\n\n");
	json_decref(msg);
	keep(st, &text);
	put(st, buf_data(&text), buf_len(&text));
	keep_bounds(st);
}

static void become_events(struct mcp_stream *st)
{
	json_t *msg;
	size_t i;

	st->sse = true;
	open_events(st);
	put_first(st);
	json_array_foreach (st->answers, i, msg) {
		push(st, json_incref(msg));
	}
	json_array_clear(st->answers);
}

static void on_slow(struct timer *t)
{
	become_events(container_of(t, struct mcp_stream, timer));
}

/* --- its end --- */

static void finish_json(struct mcp_stream *st)
{
	struct api *a = st->session->api;
	json_t *answer =
		st->batch ? st->answers : json_array_get(st->answers, 0);

	if (st->conn)
		reply_json(a, st->conn, 200, json_incref(answer));
	st->conn = NULL;
	forget(st);
}

static void prune(struct mcp_session *s)
{
	struct list *n, *next;
	unsigned finished = 0;

	list_each (n, next, &s->streams)
		finished +=
			is_finished(container_of(n, struct mcp_stream, node));
	while (finished-- > STREAM_FINISHED_MAX)
		forget(oldest_finished(s, NULL));
}

static void close_events(struct mcp_stream *st)
{
	timer_del(&st->session->api->loop, &st->timer);
	if (st->conn)
		http_reply_end(st->conn);
	st->conn = NULL;
}

static void finish(struct mcp_stream *st)
{
	mcp_session_touch(st->session);
	discharge(st);
	if (!st->sse) {
		finish_json(st);
		return;
	}
	close_events(st);
	if (list_empty(&st->events))
		forget(st);
	else
		prune(st->session);
}

/* --- for the others --- */

struct mcp_stream *mcp_stream_new(struct mcp_session *s, struct http_conn *c,
				  bool can_sse, bool batch)
{
	struct mcp_stream *st = xcalloc(1, sizeof(*st));

	st->session = s;
	st->conn = c;
	st->can_sse = can_sse;
	st->batch = batch;
	st->number = ++s->n_streams;
	st->answers = json_array();
	snprintf(st->request_id, sizeof(st->request_id), "%s",
		 http_request_id(c));
	list_init(&st->events);
	list_add(&s->streams, &st->node);
	http_own(c, st, on_gone);
	if (can_sse)
		timer_set(&s->api->loop, &st->timer, STREAM_JSON_MS, on_slow);
	return st;
}

void mcp_stream_hold(struct mcp_stream *st)
{
	st->busy = true;
}

void mcp_stream_release(struct mcp_stream *st)
{
	st->busy = false;
	if (is_finished(st))
		finish(st);
}

void mcp_stream_answer(struct mcp_stream *st, json_t *msg)
{
	if (st->sse)
		push(st, msg);
	else
		json_array_append_new(st->answers, msg);
	if (is_finished(st))
		finish(st);
}

bool mcp_stream_tell(struct mcp_stream *st, json_t *msg, bool must)
{
	if (!st->sse && st->can_sse && st->conn)
		become_events(st);
	if (!st->sse || (!must && (st->full || !st->conn))) {
		json_decref(msg);
		return false;
	}
	push(st, msg);
	return true;
}

void mcp_stream_pause(struct mcp_stream *st)
{
	if (!st->sse && st->can_sse && st->conn)
		become_events(st);
	if (st->sse)
		close_events(st);
}

void mcp_stream_end(struct mcp_stream *st, const char *why)
{
	if (st->conn && !st->sse)
		reply_error(st->session->api, st->conn, 404, "session_ended",
			    why);
	else
		close_events(st);
	st->conn = NULL;
	forget(st);
}

static struct mcp_stream *by_number(struct mcp_session *s, uint64_t number)
{
	struct list *n, *next;

	list_each (n, next, &s->streams) {
		struct mcp_stream *st =
			container_of(n, struct mcp_stream, node);

		if (st->number == number)
			return st;
	}
	return NULL;
}

void mcp_stream_listen(struct mcp_session *s, struct http_conn *c)
{
	struct mcp_stream *st = by_number(s, 0);

	if (st)
		mcp_stream_end(st, "another stream took its place");
	st = xcalloc(1, sizeof(*st));
	st->session = s;
	st->conn = c;
	st->can_sse = st->sse = true;
	list_init(&st->events);
	list_add(&s->streams, &st->node);
	http_own(c, st, on_gone);
	open_events(st);
	put_first(st);
}

/* "STREAM-EVENT", as they were given. */
static int read_id(const char *text, uint64_t *stream, uint64_t *at)
{
	char first[16];
	size_t n = strcspn(text, "-");

	if (n >= sizeof(first) || text[n] != '-')
		return -EINVAL;
	memcpy(first, text, n);
	first[n] = '\0';
	if (parse_u64(first, UINT32_MAX, stream) < 0)
		return -EINVAL;
	return parse_u64(text + n + 1, UINT32_MAX, at);
}

static void replay(struct mcp_stream *st, uint64_t behind)
{
	struct list *n, *next;

	list_each (n, next, &st->events) {
		struct event *ev = container_of(n, struct event, node);

		if (ev->at > behind)
			put(st, ev->text, ev->n);
	}
}

int mcp_stream_resume(struct mcp_session *s, struct http_conn *c,
		      const char *last, struct err *e)
{
	struct mcp_stream *st;
	uint64_t number, at;

	if (read_id(last, &number, &at) < 0)
		return err_set(e, EINVAL, "Last-Event-ID is none of ours");
	if (number == 0) {
		mcp_stream_listen(s, c);
		return 0;
	}
	st = by_number(s, number);
	if (!st || !st->sse)
		return err_set(e, EINVAL,
			       "Last-Event-ID: what came behind it is not kept "
			       "any more");
	close_events(st);
	st->conn = c;
	st->full = false;
	http_own(c, st, on_gone);
	open_events(st);
	replay(st, at);
	if (is_finished(st))
		close_events(st);
	return 0;
}
