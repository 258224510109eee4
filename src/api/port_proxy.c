/*
 * One request to a server inside a sandbox, and its answer.
 *
 *	client --body--> out --> server inside
 *	client <-- (queue of http/) <-- in <-- server inside
 *
 * Each direction stops when the other end takes nothing: `out` is bounded by
 * PORT_BUFFER, and nothing is read from inside while the client's queue is
 * full. A fresh connection for each request, closed behind it: nothing of one
 * answer can be taken for a part of the next.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/auto.h"
#include "http/chunked.h"
#include "http/server.h"

enum { READ_MAX = 64 * 1024, INTERIM_MAX = 8 };

struct proxy {
	struct api *api;
	struct http_conn *conn; /* NULL: answered, or gone */
	struct port_dial dial;
	struct port_way way; /* only what answers need */
	char *prefix;
	char method[HTTP_METHOD_MAX + 1];
	enum http_body body; /* of the request */
	bool upgrade;

	struct buf out; /* for inside */
	bool deaf;      /* inside takes no more */
	bool paused;    /* the client's body waits */

	struct buf in; /* from inside */
	struct http_scan scan;
	struct http_head head;
	unsigned interim;
	bool answering;
	bool stopped; /* the client takes no more for now */
	uint64_t left;
	struct http_chunked chunked;

	struct timer timer; /* nothing moves inside */
	struct deferred gone;
};

static void on_event(struct http_stream *s, uint32_t events);

static void proxy_free(struct deferred *d)
{
	struct proxy *p = container_of(d, struct proxy, gone);

	buf_done(&p->out);
	buf_done(&p->in);
	http_head_done(&p->head);
	free(p->prefix);
	free(p);
}

static void proxy_end(struct proxy *p)
{
	p->conn = NULL;
	timer_del(&p->api->loop, &p->timer);
	port_hang_up(&p->dial);
	loop_defer(&p->api->loop, &p->gone, proxy_free);
}

static void on_gone(struct http_conn *c, void *owner)
{
	(void)c;
	proxy_end(owner);
}

/* The server inside is at fault: said so, or shown by a cut. */
static void fail(struct proxy *p, int status, const char *word, const char *msg)
{
	char text[256];

	snprintf(text, sizeof(text), "port %u of sandbox %s: %s", p->dial.port,
		 p->dial.id, msg);
	if (p->answering)
		http_reply_cut(p->conn);
	else
		reply_error(p->api, p->conn, status, word, text);
	proxy_end(p);
}

static void bad_answer(struct proxy *p, const char *msg)
{
	fail(p, 502, "bad_answer", msg);
}

static void set_timer(struct proxy *p);

/* A server that was paused is silent for as long as it is. */
static void on_timeout(struct timer *t)
{
	struct proxy *p = container_of(t, struct proxy, timer);
	const struct sandbox *s = box_by_id(p->api, p->dial.id);

	if (s && box_sleeps(s))
		set_timer(p);
	else
		fail(p, 504, "timeout", "the server inside does not answer");
}

/* Something moved inside, or its slowness is not its own fault. */
static void set_timer(struct proxy *p)
{
	if (p->stopped)
		timer_del(&p->api->loop, &p->timer);
	else
		timer_set(&p->api->loop, &p->timer,
			  p->api->conf.port_timeout_ms, on_timeout);
}

static void watch(struct proxy *p)
{
	uint32_t events = p->stopped ? 0 : EPOLLIN;

	if (buf_len(&p->out) > 0)
		events |= EPOLLOUT;
	if (http_stream_watch(&p->dial.stream, events, on_event) < 0)
		bad_answer(p, "the connection cannot be watched");
}

/* --- the request --- */

static void flush(struct proxy *p)
{
	while (buf_len(&p->out) > 0) {
		ssize_t n = http_stream_drain(&p->dial.stream, &p->out);

		if (n == -EAGAIN)
			break;
		if (n < 0) {
			/* It may have answered before it stopped to listen. */
			p->deaf = true;
			buf_clear(&p->out);
		}
		set_timer(p);
	}
	if (p->paused && buf_len(&p->out) < PORT_BUFFER / 2) {
		p->paused = false;
		http_resume_body(p->conn);
	}
}

static size_t on_body(struct http_conn *c, const char *data, size_t n,
		      void *owner)
{
	struct proxy *p = owner;

	(void)c;
	if (p->deaf)
		return n;
	if (buf_len(&p->out) >= PORT_BUFFER) {
		p->paused = true;
		return 0;
	}
	if (p->body == HTTP_CHUNKED)
		http_chunk_add(&p->out, data, n);
	else
		buf_add(&p->out, data, n);
	flush(p);
	watch(p);
	return n;
}

static void on_body_end(struct http_conn *c, void *owner)
{
	struct proxy *p = owner;

	(void)c;
	if (p->body != HTTP_CHUNKED || p->deaf)
		return;
	buf_puts(&p->out, HTTP_LAST_CHUNK);
	flush(p);
	watch(p);
}

/* --- the answer --- */

static void on_ready(struct http_conn *c, void *owner)
{
	struct proxy *p = owner;

	(void)c;
	p->stopped = false;
	set_timer(p);
	watch(p);
}

/* The last byte has been queued. */
static void complete(struct proxy *p)
{
	http_reply_end(p->conn);
	proxy_end(p);
}

/* 1: there is more to be had of `in`; 0: not now, or it is over. */
static int pass_content(struct proxy *p)
{
	size_t used, n = buf_len(&p->in);
	int r = HTTP_CHUNK_DATA;

	if (n == 0)
		return 0;
	if (p->head.body == HTTP_CHUNKED) {
		r = http_chunked_next(&p->chunked, buf_data(&p->in), n, &used,
				      &n);
		if (r < 0) {
			bad_answer(p, "malformed chunks");
			return 0;
		}
		buf_eat(&p->in, used - n);
	} else if (p->head.body == HTTP_LENGTH) {
		n = n < p->left ? n : (size_t)p->left;
		p->left -= n;
	}
	if (n > 0 && !http_reply_data(p->conn, buf_data(&p->in), n))
		p->stopped = true;
	buf_eat(&p->in, n);
	if (r == HTTP_CHUNK_END ||
	    (p->head.body == HTTP_LENGTH && p->left == 0)) {
		complete(p);
		return 0;
	}
	return buf_len(&p->in) > 0;
}

static void switch_protocols(struct proxy *p)
{
	AUTO(buf_done) struct buf out = { 0 }, in = { 0 }, text = { 0 };
	struct http_field fields[PORT_FIELDS];
	const char *protocol = http_header(&p->head, "upgrade");
	struct http_stream client;

	if (!p->upgrade || !protocol) {
		bad_answer(p, "it changes the protocol unasked");
		return;
	}
	port_answer_fields(&p->head, &p->way, fields, &text);
	if (http_upgrade(p->conn, protocol, fields, &client, &in, &out) == 0) {
		p->api->metrics.requests[1]++;
		buf_add(&out, buf_data(&p->in), buf_len(&p->in));
		port_tunnel(&p->dial, &client, &out, &in);
	}
	proxy_end(p);
}

static void start_answer(struct proxy *p)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct http_field fields[PORT_FIELDS];
	const struct http_head *h = &p->head;

	port_answer_fields(h, &p->way, fields, &text);
	p->api->metrics.requests[h->status / 100]++;
	p->answering = true;
	p->left = h->length;
	if (http_header(h, "content-length"))
		http_reply_start_sized(p->conn, h->status, fields, h->length,
				       on_ready);
	else
		http_reply_start(p->conn, h->status, fields, on_ready);
	if (h->body == HTTP_NO_BODY)
		complete(p);
}

/* 1: there is more to be had of `in`. */
static int take_head(struct proxy *p)
{
	const char *why = "";
	int n = http_scan_head(&p->scan, buf_data(&p->in), buf_len(&p->in),
			       &why);

	if (n == 0)
		return 0;
	if (n < 0 || http_parse_response(&p->head, buf_data(&p->in), (size_t)n,
					 p->method, &why) < 0) {
		bad_answer(p, why);
		return 0;
	}
	buf_eat(&p->in, (size_t)n);
	p->scan = (struct http_scan){ 0 };
	if (p->head.status == 101) {
		switch_protocols(p);
		return 0;
	}
	if (p->head.status >= 200) {
		start_answer(p);
		return 1;
	}
	if (++p->interim > INTERIM_MAX) {
		bad_answer(p, "it never comes to its answer");
		return 0;
	}
	return 1;
}

static void on_end(struct proxy *p)
{
	if (!p->answering)
		bad_answer(p, "it closed the connection without an answer");
	else if (p->head.body == HTTP_UNTIL_CLOSE)
		complete(p);
	else
		bad_answer(p, "it cut its answer short");
}

static void receive(struct proxy *p)
{
	size_t max =
		p->answering ? READ_MAX : HTTP_HEAD_MAX + 1 - buf_len(&p->in);
	ssize_t n = http_stream_fill(&p->dial.stream, &p->in, max);

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		on_end(p);
		return;
	}
	set_timer(p);
	while (p->conn && (p->answering ? pass_content(p) : take_head(p)))
		;
	if (p->conn && p->stopped)
		set_timer(p);
}

static void on_event(struct http_stream *s, uint32_t events)
{
	struct proxy *p = container_of(s, struct proxy, dial.stream);

	if (events & EPOLLOUT)
		flush(p);
	if (!p->stopped && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		receive(p);
	else if (events & (EPOLLHUP | EPOLLERR))
		/* Cannot be masked: heard of again when the client took all. */
		http_stream_unwatch(s);
	if (p->conn)
		watch(p);
}

/* --- the beginning --- */

static void on_dialled(struct port_dial *d, const struct err *e)
{
	struct proxy *p = container_of(d, struct proxy, dial);

	if (e->code) {
		(p->way.refuse ? p->way.refuse : port_refuse)(d, p->conn, e);
		proxy_end(p);
		return;
	}
	if (p->body != HTTP_NO_BODY) {
		http_slow_body(p->conn); /* the server's inside to judge */
		http_stream_body(p->conn, on_body, on_body_end);
	}
	set_timer(p);
	flush(p);
	watch(p);
}

void port_proxy(struct api *a, struct http_conn *c, const struct sandbox *s,
		const struct port_way *way)
{
	const struct http_head *h = http_request(c);
	struct proxy *p;
	struct err e = { 0 };

	if (port_upgrade(h) && h->body != HTTP_NO_BODY) {
		reply_error(a, c, 400, "bad_request",
			    "a request to upgrade must have no body here");
		return;
	}
	p = xcalloc(1, sizeof(*p));
	p->api = a;
	p->conn = c;
	p->body = h->body;
	p->upgrade = port_upgrade(h);
	memcpy(p->method, h->method, strlen(h->method) + 1);
	list_init(&p->gone.node);
	p->prefix = xstrdup(way->prefix);
	p->way = (struct port_way){ .port = way->port,
				    .by_host = way->by_host,
				    .refuse = way->refuse,
				    .prefix = p->prefix };
	port_request_head(&p->out, h, way);
	if (port_dial(&p->dial, s, way->port, on_dialled, &e) < 0) {
		reply_err(a, c, &e);
		proxy_free(&p->gone);
		return;
	}
	http_own(c, p, on_gone);
}
