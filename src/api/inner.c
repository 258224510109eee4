#include "api/inner.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api.h"
#include "base/auto.h"

enum { READ_MAX = 64 * 1024 };

/*
 * The request whose event is being worked on. A callback may close it, and then
 * it is its owner's: gone, or another one already. Events come one at a time.
 */
static struct {
	const struct inner *on;
	bool closed;
} work;

int inner_init(struct api *a, struct err *e)
{
	a->inner.on_request = a->http.on_request;
	a->inner.on_answer = a->http.on_answer;
	a->inner.ctx = a->http.ctx;
	return http_server_start(&a->inner, &a->loop, -1, e);
}

const struct identity *inner_who(const struct http_conn *c)
{
	return http_guest(c);
}

void inner_close(struct inner *in)
{
	if (!in->api)
		return;
	if (work.on == in)
		work.closed = true;
	http_stream_close(&in->stream);
	timer_del(&in->api->loop, &in->again);
	share_give(in->place, 1);
	in->api = NULL;
	buf_done(&in->in);
	buf_done(&in->out);
}

static void finish(struct inner *in, bool whole)
{
	inner_close(in);
	if (in->ops->ended)
		in->ops->ended(in, whole);
}

static void on_event(struct http_stream *s, uint32_t events);

static void watch(struct inner *in)
{
	uint32_t events = in->held ? 0 : EPOLLIN;

	if (buf_len(&in->out) > 0)
		events |= EPOLLOUT;
	/* A hangup that may not be looked at yet would be told for ever. */
	if (events == 0)
		http_stream_unwatch(&in->stream);
	else
		http_stream_watch(&in->stream, events, on_event);
}

/* --- the request --- */

static void flush(struct inner *in)
{
	while (buf_len(&in->out) > 0) {
		ssize_t n = http_stream_drain(&in->stream, &in->out);

		if (n == -EAGAIN)
			return;
		if (n < 0) {
			/* Answered early: what it says is read. */
			buf_clear(&in->out);
			in->sending = false;
		}
	}
}

size_t inner_send(struct inner *in, const void *p, size_t n)
{
	if (!in->api || !in->sending)
		return n; /* nobody reads it */
	if (buf_len(&in->out) >= INNER_SEND_MAX) {
		in->want_room = true;
		return 0;
	}
	if (n > 0)
		http_chunk_add(&in->out, p, n);
	flush(in);
	watch(in);
	return n;
}

void inner_send_end(struct inner *in)
{
	if (!in->api || !in->sending)
		return;
	in->sending = false;
	buf_puts(&in->out, HTTP_LAST_CHUNK);
	flush(in);
	watch(in);
}

static void on_again(struct timer *t)
{
	struct inner *in = container_of(t, struct inner, again);

	on_event(&in->stream, EPOLLIN);
}

void inner_hold(struct inner *in, bool hold)
{
	if (!in->api || in->held == hold)
		return;
	in->held = hold;
	watch(in);
	/* What was read before is announced by nobody. */
	if (!hold && buf_len(&in->in) > 0)
		timer_set(&in->api->loop, &in->again, 0, on_again);
}

static void put_head(struct buf *b, const struct inner_request *q)
{
	const struct http_field *f;

	buf_printf(b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", q->method,
		   q->target);
	for (f = q->fields; f && f->name; f++)
		buf_printf(b, "%s: %s\r\n", f->name, f->value);
	if (q->stream)
		buf_puts(b, "Transfer-Encoding: chunked\r\n");
	else if (q->body)
		buf_printf(b, "Content-Length: %zu\r\n", q->body_n);
	buf_puts(b, "\r\n");
	if (q->body)
		buf_add(b, q->body, q->body_n);
}

/* Fields come from adapters, and what is in them from anywhere. */
static bool is_sound(const struct inner_request *q)
{
	const struct http_field *f;

	if (!http_is_token(q->method) || strlen(q->method) > HTTP_METHOD_MAX ||
	    strpbrk(q->target, " \r\n\t"))
		return false;
	for (f = q->fields; f && f->name; f++)
		if (!http_is_token(f->name) || !http_is_value(f->value))
			return false;
	return true;
}

int inner_start(struct inner *in, struct api *a, const struct identity *who,
		const char *request_id, const struct inner_request *q,
		struct err *e)
{
	int pair[2], r;

	if (!is_sound(q))
		return err_set(e, EINVAL,
			       "this cannot be asked: bytes that "
			       "have no place in a request");
	in->place = share_take(&a->pools.inner, who->project, 1, e);
	if (!in->place)
		return -e->code;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       pair) < 0) {
		err_sys(e, "socketpair");
		share_give(in->place, 1);
		return -e->code;
	}
	in->api = a;
	in->status = 0;
	in->scan = (struct http_scan){ 0 };
	in->chunked = (struct http_chunked){ 0 };
	in->held = in->want_room = false;
	in->sending = q->stream;
	memcpy(in->method, q->method, strlen(q->method) + 1);
	http_stream_open(&in->stream, &a->loop, pair[0], NULL);
	r = http_stream_watch(&in->stream, EPOLLIN, on_event);
	if (r < 0) {
		close(pair[1]);
		inner_close(in);
		return err_set(e, -r, "epoll: %s", strerror(-r));
	}
	/* It finds nothing to read yet: its handler runs from the loop. */
	http_server_adopt(&a->inner, pair[1], who, sizeof(*who), request_id);
	put_head(&in->out, q);
	flush(in);
	watch(in);
	return 0;
}

/* --- the answer --- */

/* 1: there is more to be had of `in`; 0: not now, or it is over. */
static int take_content(struct inner *in)
{
	size_t used, n = buf_len(&in->in);
	int r = HTTP_CHUNK_DATA;
	struct buf piece;

	if (n == 0)
		return 0;
	if (in->body == HTTP_CHUNKED) {
		r = http_chunked_next(&in->chunked, buf_data(&in->in), n, &used,
				      &n);
		if (r < 0) {
			finish(in, false);
			return 0;
		}
		buf_eat(&in->in, used - n);
	} else if (in->body == HTTP_LENGTH) {
		n = n < in->left ? n : (size_t)in->left;
		in->left -= n;
	}
	piece = in->in;
	in->in = (struct buf){ 0 };
	if (n > 0 && in->ops->data)
		in->ops->data(in, buf_data(&piece), n);
	if (work.closed) {
		buf_done(&piece);
		return 0;
	}
	in->in = piece;
	buf_eat(&in->in, n);
	if (r == HTTP_CHUNK_END || (in->body == HTTP_LENGTH && in->left == 0)) {
		finish(in, true);
		return 0;
	}
	return buf_len(&in->in) > 0;
}

/* 1: there is more to be had of `in`. */
static int take_head(struct inner *in)
{
	AUTO(http_head_done) struct http_head h = { 0 };
	const char *why = "";
	int n = http_scan_head(&in->scan, buf_data(&in->in), buf_len(&in->in),
			       &why);

	if (n == 0)
		return 0;
	if (n < 0 || http_parse_response(&h, buf_data(&in->in), (size_t)n,
					 in->method, &why) < 0) {
		finish(in, false);
		return 0;
	}
	buf_eat(&in->in, (size_t)n);
	in->scan = (struct http_scan){ 0 };
	if (h.status < 200)
		return 1;
	in->status = h.status;
	in->body = h.body;
	in->left = h.length;
	if (in->ops->head)
		in->ops->head(in, &h);
	if (work.closed)
		return 0;
	if (in->body == HTTP_NO_BODY ||
	    (in->body == HTTP_LENGTH && in->left == 0)) {
		finish(in, true);
		return 0;
	}
	return 1;
}

static void take(struct inner *in)
{
	while (!work.closed && !in->held &&
	       (in->status ? take_content(in) : take_head(in)) == 1)
		;
}

static void on_input(struct inner *in)
{
	ssize_t n;

	take(in); /* what inner_hold() left */
	if (work.closed || in->held)
		return;
	n = http_stream_fill(&in->stream, &in->in, READ_MAX);
	if (n == -EAGAIN)
		return;
	if (n <= 0)
		finish(in, in->status && in->body == HTTP_UNTIL_CLOSE);
	else
		take(in);
}

static void on_event(struct http_stream *s, uint32_t events)
{
	struct inner *in = container_of(s, struct inner, stream);

	work.on = in;
	work.closed = false;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
		flush(in);
		watch(in);
	}
	if (in->want_room && buf_len(&in->out) < INNER_SEND_MAX / 2) {
		in->want_room = false;
		if (in->ops->room)
			in->ops->room(in);
	}
	if (!work.closed && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		on_input(in);
	work.on = NULL;
}

/* --- JSON, whole --- */

static void on_data(struct inner *in, const char *p, size_t n)
{
	struct inner_ask *q = container_of(in, struct inner_ask, in);

	if (buf_len(&q->answer) + n <= INNER_ANSWER_MAX)
		buf_add(&q->answer, p, n);
	else
		q->too_long = true;
}

static void on_ended(struct inner *in, bool whole)
{
	struct inner_ask *q = container_of(in, struct inner_ask, in);
	json_t *j = NULL;

	whole = whole && !q->too_long;
	if (whole)
		j = json_loadb(buf_data(&q->answer), buf_len(&q->answer),
			       JSON_DECODE_ANY, NULL);
	buf_done(&q->answer);
	q->done(q, whole ? in->status : 0, j);
	json_decref(j);
}

static const struct inner_ops ask_ops = { .data = on_data, .ended = on_ended };

int inner_ask(struct inner_ask *q, const struct inner_json *r, struct err *e)
{
	static const struct http_field json_type[] = {
		{ "Content-Type", "application/json" }, { NULL, NULL }
	};
	AUTO_FREE char *text =
		r->body ? json_dumps(r->body, JSON_COMPACT) : NULL;
	struct inner_request req = { .method = r->method,
				     .target = r->target,
				     .fields = text ? json_type : NULL,
				     .body = text,
				     .body_n = text ? strlen(text) : 0 };

	json_decref(r->body);
	*q = (struct inner_ask){ .in.ops = &ask_ops, .done = r->done };
	return inner_start(&q->in, r->api, r->who, r->request_id, &req, e);
}

const char *inner_message(int status, const json_t *answer)
{
	const char *msg = json_string_value(json_object_get(answer, "message"));

	if (msg)
		return msg;
	return status ? "no reason was given" : "the answer was cut";
}
