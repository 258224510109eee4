/*
 * The server's answer: parsed as strictly as a request, and made anew. What it
 * says is a stranger's word; one that is malformed ends its connection, so that
 * nothing of it can be taken for the answer to the next request.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "gate/exchange.h"

enum { CONTINUES_MAX = 8 }; /* answers in front of the answer */

/* A frame of HTTP/2 that a server begins with, or ends with: of the connection
 * itself (stream 0), SETTINGS or GOAWAY. */
static bool is_http2(const struct buf *from)
{
	static const char stream[4];
	char head[9];

	if (buf_len(from) < sizeof(head))
		return false;
	memcpy(head, buf_data(from), sizeof(head));
	return head[0] == 0 && (head[3] == 4 || head[3] == 7) &&
	       memcmp(head + 5, stream, sizeof(stream)) == 0;
}

static bool bad_answer(struct flow *f, const char *why)
{
	struct refusal r;

	if (f->x->answered) {
		exchange_cut(f, why);
		return false;
	}
	if (is_http2(&f->x->from))
		why = "the server speaks HTTP/2 alone: " HTTP2_REMEDY;
	refusal_set(&r, REFUSE_UPSTREAM, "%s sent a bad answer: %s",
		    f->place.host, why);
	exchange_refuse(f, &r);
	return false;
}

/* A WebSocket: from here on bytes pass. */
static bool upgrade(struct flow *f)
{
	struct exchange *x = f->x;

	if (!request_upgrades(&x->head) ||
	    !http_wants_upgrade(&x->answer, "websocket") || buf_len(&x->up) > 0)
		return bad_answer(f, "an upgrade that nobody asked for");
	answer_head(&f->pass, &x->answer, false, false, &x->down);
	http_stream_unwatch(&f->inside);
	http_stream_unwatch(&f->outside);
	buf_add(&x->down, buf_data(&x->from), buf_len(&x->from));
	buf_done(&x->from);
	f->x = NULL; /* is freed at the end: callers are still in it */
	f->old = x;
	connect_tunnel(f, true, &x->in, &x->down);
	return false;
}

static bool answer_is_readable(const struct flow *f)
{
	const char *coding = http_header(&f->x->answer, "content-encoding");

	return !f->pass.inject.mask.set || !coding || !*coding ||
	       strcasecmp(coding, "identity") == 0;
}

static bool begin_answer(struct flow *f)
{
	struct exchange *x = f->x;
	size_t before = buf_len(&x->down);

	if (x->answer.status == 101)
		return upgrade(f);
	if (!answer_is_readable(f))
		return bad_answer(f, "it is compressed, so nobody can see "
				     "whether a secret is in it");
	x->answered = true;
	x->from_left = x->answer.length;
	x->from_done = x->answer.body == HTTP_NO_BODY;
	x->chunked = x->head.minor == 1 && (x->answer.body == HTTP_CHUNKED ||
					    x->answer.body == HTTP_UNTIL_CLOSE);
	x->close = !x->head.keep_alive || !x->in_done ||
		   (!x->chunked && (x->answer.body == HTTP_CHUNKED ||
				    x->answer.body == HTTP_UNTIL_CLOSE));
	answer_head(&f->pass, &x->answer, x->chunked, x->close, &x->down);
	if (!pass_down(f, buf_len(&x->down) - before)) {
		exchange_cut(f, budget_why(&f->pass.hold));
		return false;
	}
	return true;
}

/* The next head in `from`: true when the answer's own is there. */
static bool answer_head_comes(struct flow *f)
{
	struct exchange *x = f->x;

	while (!x->answered) {
		const char *why;
		int n = http_scan_head(&x->from_scan, buf_data(&x->from),
				       buf_len(&x->from), &why);

		if (n == 0)
			return false;
		if (n > 0 &&
		    http_parse_response(&x->answer, buf_data(&x->from),
					(size_t)n, x->head.method, &why) < 0)
			n = -1;
		if (n < 0)
			return bad_answer(f, why);
		buf_eat(&x->from, (size_t)n);
		x->from_scan = (struct http_scan){ 0 };
		if (x->answer.status >= 200 || x->answer.status == 101)
			return begin_answer(f);
		if (++x->continues > CONTINUES_MAX)
			return bad_answer(f, "nothing but interim answers");
	}
	return true;
}

/* A piece of content; `last`: and no more comes. False: it ended. */
static bool answer_piece(struct flow *f, const char *p, size_t n, bool last)
{
	struct exchange *x = f->x;
	struct scan *mask = &f->pass.inject.mask;
	struct buf masked = { 0 };

	if (n > 0 && !pass_down(f, n)) {
		exchange_cut(f, budget_why(&f->pass.hold));
		return false;
	}
	if (n > 0 && budget_wants_bodies(&f->pass.hold))
		budget_answer_body(&f->pass.hold, p, n);
	if (mask->set) {
		scan_mask(mask, p, n, last, &masked);
		p = buf_data(&masked);
		n = buf_len(&masked);
	}
	if (x->chunked)
		http_chunk_add(&x->down, p, n);
	else
		buf_add(&x->down, p, n);
	if (last && x->chunked)
		buf_puts(&x->down, HTTP_LAST_CHUNK);
	buf_done(&masked);
	return true;
}

static bool answer_by_length(struct flow *f)
{
	struct exchange *x = f->x;
	size_t n = buf_len(&x->from);

	if (x->answer.body == HTTP_LENGTH && n > x->from_left)
		n = (size_t)x->from_left;
	if (x->answer.body == HTTP_LENGTH) {
		x->from_left -= n;
		x->from_done = x->from_left == 0;
	}
	if (n > 0 && !answer_piece(f, buf_data(&x->from), n, x->from_done))
		return false;
	buf_eat(&x->from, n);
	return true;
}

static bool answer_by_chunks(struct flow *f)
{
	struct exchange *x = f->x;

	while (buf_len(&x->from) > 0 && !x->from_done) {
		size_t used, n;
		int r = http_chunked_next(&x->from_chunks, buf_data(&x->from),
					  buf_len(&x->from), &used, &n);

		if (r < 0)
			return bad_answer(f, "bad chunk");
		x->from_done = r == HTTP_CHUNK_END;
		if (!answer_piece(f, buf_data(&x->from) + used - n, n,
				  x->from_done))
			return false;
		buf_eat(&x->from, used);
	}
	return true;
}

bool answer_take(struct flow *f)
{
	struct exchange *x = f->x;

	if (!x->answered && !answer_head_comes(f))
		return !f->ended && f->x && x->state == X_RUN;
	if (x->from_done)
		return true;
	return x->answer.body == HTTP_CHUNKED ? answer_by_chunks(f)
					      : answer_by_length(f);
}

static bool may_try_again(const struct flow *f)
{
	static const char *const safe[] = { "GET", "HEAD", "OPTIONS" };
	const struct exchange *x = f->x;
	size_t i;

	if (!x->reused || x->answered || x->continues > 0 ||
	    buf_len(&x->from) > 0 || x->head.body != HTTP_NO_BODY)
		return false;
	for (i = 0; i < ARRAY_LEN(safe); i++)
		if (strcmp(x->head.method, safe[i]) == 0)
			return true;
	return false;
}

bool answer_ended(struct flow *f, int error)
{
	struct exchange *x = f->x;
	struct refusal r;

	if (x->answered && x->answer.body == HTTP_UNTIL_CLOSE && error == 0) {
		x->from_done = true;
		return answer_piece(f, NULL, 0, true);
	}
	if (may_try_again(f)) {
		x->state = X_PASS;
		buf_clear(&x->up);
		x->up_broken = x->reused = false;
		pass_redial(f);
		exchange_watch(f);
		return false;
	}
	if (x->answered) {
		exchange_cut(f, "the server ended in the middle of its answer");
		return false;
	}
	if (is_http2(&x->from))
		return bad_answer(f, "HTTP/2");
	refusal_set(&r, REFUSE_UPSTREAM, "%s ended the connection%s%s",
		    f->place.host, error ? ": " : "",
		    error ? strerror(error) : "");
	exchange_refuse(f, &r);
	return false;
}
