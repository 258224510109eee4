#include "api/event_stream.h"

#include <stddef.h>

#include "api/api.h"
#include "api/json_text.h"
#include "base/clock.h"

enum { PING_MS = 15 * 1000 };

static const char sse_type[] = "text/event-stream";
static const char lines_type[] = "application/x-ndjson";

bool event_stream_wanted(const struct http_conn *c)
{
	const struct http_head *h = http_request(c);

	return http_has_token(h, "Accept", sse_type) ||
	       http_has_token(h, "Accept", lines_type);
}

struct buf *event_stream_begin(struct event_stream *es, const char *id)
{
	buf_clear(&es->line);
	if (es->sse && id)
		buf_printf(&es->line, "id: %s\n", id);
	if (es->sse)
		buf_puts(&es->line, "data: ");
	return &es->line;
}

bool event_stream_commit(struct event_stream *es)
{
	buf_puts(&es->line, es->sse ? "\n\n" : "\n");
	es->sent_ms = clock_boot_ms();
	return http_reply_data(es->conn, buf_data(&es->line),
			       buf_len(&es->line));
}

bool event_stream_send(struct event_stream *es, json_t *event, const char *id)
{
	json_add(event_stream_begin(es, id), event);
	json_decref(event);
	return event_stream_commit(es);
}

/* Set anew only when it fires: events are many, silence is rare. */
static void on_ping(struct timer *t)
{
	struct event_stream *es = container_of(t, struct event_stream, ping);
	uint64_t now = clock_boot_ms();

	if (now - es->sent_ms >= PING_MS && es->on_quiet)
		es->on_quiet(es);
	if (!es->open)
		return;
	if (now - es->sent_ms >= PING_MS) {
		buf_puts(event_stream_begin(es, NULL), "{\"type\":\"ping\"}");
		event_stream_commit(es);
	}
	timer_set(&es->api->loop, t, PING_MS - (now - es->sent_ms), on_ping);
}

void event_stream_start(struct event_stream *es, struct api *a,
			struct http_conn *c,
			void (*ready)(struct http_conn *c, void *owner))
{
	bool sse = http_has_token(http_request(c), "Accept", sse_type);
	const struct http_field extra[] = {
		{ "Content-Type", sse ? sse_type : lines_type },
		{ "Cache-Control", "no-store" },
		{ NULL, NULL },
	};

	es->api = a;
	es->conn = c;
	es->sse = sse;
	es->open = true;
	es->sent_ms = clock_boot_ms();
	a->metrics.requests[2]++;
	http_reply_start(c, 200, extra, ready);
	timer_set(&a->loop, &es->ping, PING_MS, on_ping);
}

void event_stream_end(struct event_stream *es)
{
	event_stream_gone(es);
	http_reply_end(es->conn);
}

void event_stream_gone(struct event_stream *es)
{
	if (!es->open)
		return;
	es->open = false;
	buf_done(&es->line);
	timer_del(&es->api->loop, &es->ping);
}
