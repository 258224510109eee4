/*
 * HTTP on a connection: requests one after the other, each with its answer,
 * both streamed. The sandbox's side and the server's are pumped independently
 * of each other: a server may answer before it has read everything.
 *
 *	inside --> in --> (body) --> up   --> outside
 *	inside <-- down <-- (body) <-- from <-- outside
 *
 * Nothing is read ahead: while a buffer waits to be written, its source is
 * not read. An event that nobody waits for turns itself off (`muted`), so that
 * the usual request costs no call to change what is watched. Buffers are given
 * back between requests.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gate/exchange.h"
#include "gate/self.h"

static void run(struct flow *f);
static void pump(struct flow *f);

void exchange_free(struct exchange *x)
{
	if (!x)
		return;
	http_head_done(&x->head);
	http_head_done(&x->answer);
	buf_done(&x->in);
	buf_done(&x->up);
	buf_done(&x->body);
	buf_done(&x->target);
	buf_done(&x->from);
	buf_done(&x->down);
	scan_done(&x->look);
	free(x);
}

/* --- what is watched --- */

static bool wants_inside(const struct flow *f)
{
	const struct exchange *x = f->x;

	switch (x->state) {
	case X_HEAD:
	case X_GATHER:
	case X_LINGER:
		return true;
	case X_RUN:
		return !x->in_done && !x->up_broken && buf_len(&x->up) == 0;
	case X_PASS:
	case X_LAST:
	default:
		return false;
	}
}

static bool wants_outside(const struct flow *f)
{
	const struct exchange *x = f->x;

	return x->state == X_RUN && !x->from_done && buf_len(&x->down) == 0;
}

static void on_inside(struct http_stream *s, uint32_t events);
static void on_outside(struct http_stream *s, uint32_t events);

/*
 * Who leaves while a person thinks is not waited for. Otherwise the end of
 * what a sandbox sends says nothing: it may still wait for the answer.
 */
static bool somebody_thinks(const struct flow *f)
{
	return f->x->state == X_PASS && f->pass.state == PASS_ASK;
}

void exchange_watch(struct flow *f)
{
	struct exchange *x = f->x;
	uint32_t in = 0, out = 0;

	if (wants_inside(f))
		x->muted = false;
	if (!x->muted)
		in |= EPOLLIN;
	if (buf_len(&x->down) > 0)
		in |= EPOLLOUT;
	if (somebody_thinks(f))
		in |= EPOLLRDHUP;
	if (http_stream_watch(&f->inside, in, on_inside) < 0) {
		flow_end(f);
		return;
	}
	if (!http_stream_is_open(&f->outside))
		return;
	if (wants_outside(f) || x->state != X_RUN)
		x->outside_muted = false;
	if (!x->outside_muted)
		out |= EPOLLIN;
	if (buf_len(&x->up) > 0 && !x->up_broken)
		out |= EPOLLOUT;
	if (http_stream_watch(&f->outside, out, on_outside) < 0)
		flow_end(f);
}

static void set_deadline(struct flow *f)
{
	const struct exchange *x = f->x;

	switch (x->state) {
	case X_HEAD: /* set when it began */
	case X_LINGER:
		break;
	case X_PASS:
		flow_deadline(f, 0);
		break;
	case X_RUN:
		flow_deadline(f, buf_len(&x->down) || buf_len(&x->up) ||
						 !x->in_done
					 ? FLOW_STALL_MS
					 : FLOW_ANSWER_MS);
		break;
	case X_GATHER:
	case X_LAST:
	default:
		flow_deadline(f, FLOW_STALL_MS);
		break;
	}
}

/* --- the end of one --- */

static void linger(struct flow *f)
{
	f->x->state = X_LINGER;
	http_stream_close(&f->outside);
	http_stream_shutdown(&f->inside);
	flow_deadline(f, FLOW_LINGER_MS);
	exchange_watch(f);
}

void exchange_release(struct flow *f)
{
	f->box->held -= f->x->held;
	f->x->held = 0;
	buf_done(&f->x->body);
}

static void reset(struct flow *f)
{
	struct exchange *x = f->x;

	exchange_release(f);
	x->state = X_HEAD;
	x->scan = x->from_scan = (struct http_scan){ 0 };
	x->in_chunks = x->from_chunks = (struct http_chunked){ 0 };
	x->in_done = x->up_broken = x->answered = x->from_done = false;
	x->chunked = x->close = x->reused = false;
	x->continues = 0;
	buf_done(&x->up);
	buf_clear(&x->target);
	buf_done(&x->from);
	buf_done(&x->down);
	if (buf_len(&x->in) == 0)
		buf_done(&x->in);
	flow_deadline(f, FLOW_IDLE_MS);
}

/* All of the answer is written. */
static void finish(struct flow *f)
{
	struct exchange *x = f->x;
	bool reusable = x->answered && x->answer.keep_alive && x->from_done &&
			x->in_done && !x->up_broken && buf_len(&x->up) == 0 &&
			buf_len(&x->from) == 0;

	pass_end(f, x->answered ? x->answer.status : 0, NULL);
	if (x->state == X_RUN && !reusable)
		http_stream_close(&f->outside);
	if (!x->in_done) {
		linger(f);
		return;
	}
	if (x->close) {
		/* Bytes that nobody reads would take the answer with them. */
		if (buf_len(&x->in) > 0)
			linger(f);
		else
			flow_end(f);
		return;
	}
	reset(f);
	run(f);
}

/* Nothing more can be said about it. */
void exchange_cut(struct flow *f, const char *why)
{
	const struct exchange *x = f->x;

	/* All of the request has left: it has its price, answer or not. */
	if (x->state == X_RUN && x->in_done && buf_len(&x->up) == 0 &&
	    (!x->answered || (x->answer.status < 400 && !x->from_done)))
		budget_cut(&f->pass.hold);
	pass_end(f, f->x->answered ? f->x->answer.status : 0, why);
	flow_end(f);
}

/* A body that is here already is no reason to end the connection. */
static bool skip_body(struct exchange *x)
{
	if (x->in_done)
		return true;
	if (x->head.body != HTTP_LENGTH || x->head.expect_continue ||
	    x->in_left > buf_len(&x->in))
		return false;
	buf_eat(&x->in, (size_t)x->in_left);
	x->in_left = 0;
	return true;
}

static void last_words(struct flow *f)
{
	f->x->state = X_LAST;
	pump(f);
}

void exchange_refuse(struct flow *f, const struct refusal *r)
{
	struct exchange *x = f->x;

	pass_end(f, refusal_status(r), r->text);
	if (x->state == X_RUN)
		http_stream_close(&f->outside);
	if (x->answered) {
		flow_end(f);
		return;
	}
	x->in_done = x->head.method && skip_body(x);
	/* Behind what is malformed nobody knows where a request begins. */
	x->close = !x->in_done || !x->head.keep_alive || f->refusal ||
		   r->kind == REFUSE_BAD || r->kind == REFUSE_HOST ||
		   r->kind == REFUSE_METHOD;
	buf_clear(&x->down);
	refusal_answer(r, x->head.method, x->close, &x->down);
	last_words(f);
}

void exchange_refuse_with(struct flow *f, enum refusal_kind kind,
			  const char *text)
{
	struct refusal r;

	refusal_set(&r, kind, "%s", text);
	exchange_refuse(f, &r);
}

void exchange_late(struct flow *f)
{
	struct exchange *x = f->x;

	if (x->state == X_HEAD && buf_len(&x->in) > 0) {
		http_head_done(&x->head);
		exchange_refuse_with(f, REFUSE_SLOW,
				     "the request did not come");
	} else if (x->state == X_RUN && !x->answered && x->in_done) {
		exchange_refuse_with(f, REFUSE_LATE,
				     "the server does not answer");
	} else if (x->state == X_GATHER) {
		exchange_refuse_with(f, REFUSE_SLOW, "the body did not come");
	} else {
		exchange_cut(f, "nothing moved for too long");
	}
}

void exchange_revoked(struct flow *f, const struct refusal *r)
{
	exchange_refuse(f, r);
}

/* --- the request's body --- */

/* A piece of content. False: it was refused. */
static bool body_piece(struct flow *f, const char *p, size_t n)
{
	struct exchange *x = f->x;
	struct err e = { 0 };

	if (x->look.set && scan_look(&x->look, p, n)) {
		inject_canary(f->box, &f->pass.request, x->look.label, &e);
		exchange_refuse_with(f, REFUSE_CANARY, e.msg);
		return false;
	}
	if (x->state == X_GATHER) {
		if (buf_len(&x->body) + n > x->gather_max ||
		    f->box->held + n > BOX_HELD_MAX) {
			exchange_refuse_with(
				f, REFUSE_LARGE,
				"the body is too long to be signed");
			return false;
		}
		x->held += n;
		f->box->held += n;
		buf_add(&x->body, p, n);
		return true;
	}
	if (budget_wants_bodies(&f->pass.hold))
		budget_request_body(&f->pass.hold, p, n);
	if (!pass_up(f, n)) {
		exchange_refuse_with(f, REFUSE_BUDGET,
				     budget_why(&f->pass.hold));
		return false;
	}
	if (x->head.body == HTTP_CHUNKED)
		http_chunk_add(&x->up, p, n);
	else
		buf_add(&x->up, p, n);
	return true;
}

static bool body_by_length(struct flow *f)
{
	struct exchange *x = f->x;
	size_t n = buf_len(&x->in);

	if (n > x->in_left)
		n = (size_t)x->in_left;
	if (n > 0 && !body_piece(f, buf_data(&x->in), n))
		return false;
	buf_eat(&x->in, n);
	x->in_left -= n;
	x->in_done = x->in_left == 0;
	return true;
}

static bool body_by_chunks(struct flow *f)
{
	struct exchange *x = f->x;

	while (buf_len(&x->in) > 0 && !x->in_done) {
		size_t used, n;
		int r = http_chunked_next(&x->in_chunks, buf_data(&x->in),
					  buf_len(&x->in), &used, &n);

		if (r < 0) {
			exchange_refuse_with(
				f, REFUSE_BAD,
				"the request is malformed: bad chunk");
			return false;
		}
		if (n > 0 && !body_piece(f, buf_data(&x->in) + used - n, n))
			return false;
		buf_eat(&x->in, used);
		x->in_done = r == HTTP_CHUNK_END;
	}
	if (x->in_done && x->state == X_RUN)
		buf_puts(&x->up, HTTP_LAST_CHUNK);
	return true;
}

/* What came of the body goes on its way. False: refused. */
static bool take_body(struct flow *f)
{
	struct exchange *x = f->x;

	if (x->in_done)
		return true;
	return x->head.body == HTTP_CHUNKED ? body_by_chunks(f)
					    : body_by_length(f);
}

/* --- pumping --- */

/* True: go on. */
static bool write_inside(struct flow *f)
{
	struct exchange *x = f->x;
	ssize_t n;

	while (buf_len(&x->down) > 0) {
		n = http_stream_drain(&f->inside, &x->down);
		if (n == -EAGAIN)
			return true;
		if (n < 0) {
			exchange_cut(f, "the sandbox left");
			return false;
		}
	}
	return true;
}

static void write_outside(struct flow *f)
{
	struct exchange *x = f->x;
	ssize_t n;

	while (buf_len(&x->up) > 0 && !x->up_broken) {
		n = http_stream_drain(&f->outside, &x->up);
		if (n == -EAGAIN)
			return;
		/* There may be an answer all the same. */
		if (n < 0) {
			x->up_broken = true;
			buf_clear(&x->up);
		}
	}
}

/* Writes what there is, and sees what that means. */
static void pump(struct flow *f)
{
	struct exchange *x = f->x;
	bool over;

	if (x->state == X_RUN)
		write_outside(f);
	if (!write_inside(f))
		return;
	over = x->state == X_LAST || (x->state == X_RUN && x->from_done);
	if (over && buf_len(&x->down) == 0) {
		finish(f);
		return;
	}
	set_deadline(f);
	exchange_watch(f);
}

static size_t read_size(const struct exchange *x)
{
	return x->answered ? FLOW_READ_MORE : FLOW_READ;
}

static void read_outside(struct flow *f)
{
	struct exchange *x = f->x;
	ssize_t n = http_stream_fill(&f->outside, &x->from, read_size(x));

	if (n == -EAGAIN)
		return;
	if (n <= 0 ? answer_ended(f, (int)-n) : answer_take(f))
		pump(f);
}

static void on_outside(struct http_stream *s, uint32_t events)
{
	struct flow *f = container_of(s, struct flow, outside);
	struct exchange *x = f->x;

	/* A server that says something, or leaves, between requests. */
	if (x->state != X_RUN) {
		http_stream_close(&f->outside);
		return;
	}
	if (events & EPOLLOUT)
		write_outside(f);
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && wants_outside(f)) {
		read_outside(f);
		return;
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		x->outside_muted = true;
	/* These come whether somebody waits for them or not. */
	if (events & (EPOLLHUP | EPOLLERR))
		http_stream_unwatch(&f->outside);
	pump(f);
}

/* --- the request's head --- */

static void on_go(struct flow *f)
{
	struct exchange *x = f->x;
	bool identity =
		f->pass.inject.identity || budget_wants_bodies(&f->pass.hold);
	bool gathered = x->gather_max > 0;

	x->state = X_RUN;
	request_head(&f->pass, identity,
		     gathered ? (int64_t)buf_len(&x->body) : -1, &x->up);
	if (gathered && budget_wants_bodies(&f->pass.hold))
		budget_request_body(&f->pass.hold, buf_data(&x->body),
				    buf_len(&x->body));
	if (!pass_up(f, buf_len(&x->up) + buf_len(&x->body))) {
		exchange_refuse_with(f, REFUSE_BUDGET,
				     budget_why(&f->pass.hold));
		return;
	}
	if (gathered)
		buf_add(&x->up, buf_data(&x->body), buf_len(&x->body));
	if (!take_body(f))
		return;
	if (!x->in_done && x->head.expect_continue)
		buf_puts(&x->down, "HTTP/1.1 100 Continue\r\n\r\n");
	pump(f);
}

static void ask_all(struct flow *f)
{
	struct exchange *x = f->x;
	struct pass *p = &f->pass;

	x->state = X_PASS;
	x->reused = http_stream_is_open(&f->outside);
	p->kind = f->scheme == SCHEME_HTTPS ? "https" : "http";
	p->head = &x->head;
	p->target = buf_str(&x->target);
	p->body = buf_data(&x->body);
	p->body_n = buf_len(&x->body);
	pass_start(f, on_go, exchange_refuse);
	if (!f->ended && f->x && x->state == X_PASS) {
		set_deadline(f);
		exchange_watch(f);
	}
}

static void gather(struct flow *f)
{
	struct exchange *x = f->x;

	x->state = X_GATHER;
	if (x->head.body == HTTP_LENGTH && x->head.length > x->gather_max) {
		exchange_refuse_with(f, REFUSE_LARGE,
				     "the body is too long to be signed");
		return;
	}
	if (!take_body(f))
		return;
	if (x->in_done) {
		ask_all(f);
		return;
	}
	if (x->head.expect_continue)
		buf_puts(&x->down, "HTTP/1.1 100 Continue\r\n\r\n");
	pump(f);
}

static void own_page(struct flow *f)
{
	struct exchange *x = f->x;

	x->in_done = skip_body(x);
	x->close = !x->in_done || !x->head.keep_alive;
	if (page_answer(f->box, x->head.method, x->head.path, x->close,
			&x->down))
		last_words(f);
	else
		exchange_refuse_with(f, REFUSE_METHOD,
				     "the gate's pages are read");
}

/* Nothing of it leaves, so nobody is asked. */
static void self_page(struct flow *f)
{
	struct exchange *x = f->x;

	x->in_done = skip_body(x);
	x->close = !x->in_done || !x->head.keep_alive;
	self_answer(f->box, &x->head, x->close, &x->down);
	last_words(f);
}

static void begin_request(struct flow *f)
{
	struct exchange *x = f->x;
	struct refusal r;
	bool own;

	x->in_left = x->head.length;
	x->in_done = x->head.body == HTTP_NO_BODY;
	x->gather_max = 0;
	if (f->self) {
		self_page(f);
		return;
	}
	if (f->refusal) {
		exchange_refuse(f, f->refusal);
		return;
	}
	if (!request_check(f, &x->head, &own, &r)) {
		pass_malformed(f, &r);
		exchange_refuse(f, &r);
		return;
	}
	if (own) {
		own_page(f);
		return;
	}
	request_target(&x->head, &x->target);
	f->pass.request = (struct request){
		.scheme = f->scheme,
		.host = f->place.host,
		.port = f->place.port,
		.method = x->head.method,
		.path = x->head.path,
	};
	scan_done(&x->look);
	x->look = (struct scan){ .set = inject_canaries(f->box) };
	if (!inject_wants_body(f->box, &f->pass.request, &x->head,
			       &x->gather_max)) {
		x->gather_max = 0;
		ask_all(f);
		return;
	}
	gather(f);
}

/* Is a whole head there? Then it begins. */
static void try_head(struct flow *f)
{
	struct exchange *x = f->x;
	struct refusal r;
	const char *why;
	int n;

	if (buf_len(&x->in) == 0)
		return;
	if (x->scan.at == 0)
		flow_deadline(f, FLOW_HEAD_MS);
	n = http_scan_head(&x->scan, buf_data(&x->in), buf_len(&x->in), &why);
	if (n == 0)
		return;
	if (n > 0) {
		int bad = http_parse_proxy_request(&x->head, buf_data(&x->in),
						   (size_t)n, &why);

		buf_eat(&x->in, (size_t)n);
		n = bad;
	} else {
		http_head_done(&x->head);
	}
	if (n == 0) {
		begin_request(f);
		return;
	}
	refusal_parse(&r, n, why);
	pass_malformed(f, &r);
	exchange_refuse(f, &r);
}

/*
 * Requests that are there already, one after the other. Called from the end
 * of each, too: that call only says so, or a thousand of them would be a
 * thousand calls deep.
 */
static void run(struct flow *f)
{
	struct exchange *x = f->x;

	x->again = true;
	if (x->running)
		return;
	x->running = true;
	while (x->again && !f->ended && f->x) {
		x->again = false;
		if (x->state == X_HEAD)
			try_head(f);
	}
	x->running = false;
	if (!f->ended && f->x && x->state == X_HEAD)
		exchange_watch(f);
}

/* --- from the sandbox --- */

static void drop_input(struct flow *f)
{
	struct exchange *x = f->x;

	x->lingered += buf_len(&x->in);
	buf_clear(&x->in);
	if (x->lingered > 1024 * 1024)
		flow_end(f);
}

static void take_input(struct flow *f)
{
	struct exchange *x = f->x;

	switch (x->state) {
	case X_HEAD:
		run(f);
		break;
	case X_GATHER:
		if (!take_body(f))
			break;
		if (x->in_done)
			ask_all(f);
		else
			pump(f);
		break;
	case X_RUN:
		if (take_body(f))
			pump(f);
		break;
	case X_LINGER:
		drop_input(f);
		break;
	case X_PASS:
	case X_LAST:
	default:
		break;
	}
}

static void read_inside(struct flow *f)
{
	struct exchange *x = f->x;
	ssize_t n = http_stream_fill(&f->inside, &x->in,
				     x->state == X_HEAD ? FLOW_READ / 2
							: FLOW_READ_MORE);

	if (n > 0)
		take_input(f);
	else if (n == -EAGAIN)
		exchange_watch(f);
	else
		exchange_cut(f, "the sandbox left");
}

static void on_inside(struct http_stream *s, uint32_t events)
{
	struct flow *f = container_of(s, struct flow, inside);
	struct exchange *x = f->x;

	if (events & (EPOLLHUP | EPOLLERR) ||
	    (somebody_thinks(f) && (events & EPOLLRDHUP))) {
		exchange_cut(f, "the sandbox left");
		return;
	}
	if (events & EPOLLOUT) {
		if (!write_inside(f))
			return;
		if (buf_len(&x->down) == 0 || !(events & EPOLLIN)) {
			pump(f);
			return;
		}
	}
	if (!(events & EPOLLIN))
		return;
	if (wants_inside(f)) {
		read_inside(f);
		return;
	}
	x->muted = true;
	exchange_watch(f);
}

void exchange_start(struct flow *f)
{
	/* A tunnel that turned out to be HTTP. */
	pass_end(f, 0, NULL);
	http_stream_close(&f->outside);
	if (f->peeked > 0 && flow_looked(f) < 0) {
		flow_end(f);
		return;
	}
	f->x = xcalloc(1, sizeof(*f->x));
	reset(f);
	flow_deadline(f, FLOW_HEAD_MS);
	read_inside(f);
}
