#include "gate/oauth.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/product.h"
#include "gate/dial.h"
#include "gate/opened.h"
#include "gate/project.h"
#include "gate/record.h"
#include "http/chunked.h"
#include "vault/token.h"

enum {
	FETCH_MS = 20000,
	ANSWER_MAX = 64 * 1024,
	EARLY_MS = 60000, /* before its end a token is not used any more */
	BRIEF_MS = 1000,
	USUAL_S = 3600,  /* of one that does not say how long it is good */
	AGAIN_MS = 5000, /* after a failure */
};

struct oauth {
	struct opened *o;
	struct gate *gate;
	struct list waits; /* not empty: a fetch is under way */
	char *token;
	uint64_t until_ms; /* 0: for good */
	struct err failed; /* the last time, and when */
	uint64_t failed_ms;

	/* An operator who set the secret has named the endpoint, so it may be
	 * in a network of his own: a "sandbox" whose only rule says so. That
	 * of a project has no rule. */
	struct box *box;
	struct box_part part;
	struct dial dial;
	struct http_stream stream;
	struct buf out, in;
	struct timer timer;
};

static void wipe_text(char *s)
{
	if (s)
		sodium_memzero(s, strlen(s));
	free(s);
}

static void wipe_buf(struct buf *b)
{
	if (b->p)
		sodium_memzero(b->p, b->cap);
	buf_done(b);
}

/* --- life --- */

struct oauth *oauth_new(struct opened *o)
{
	struct oauth *a = xcalloc(1, sizeof(*a));
	struct token_value v;

	a->o = o;
	a->gate = o->project->gate;
	list_init(&a->waits);
	http_stream_init(&a->stream);
	token_value_read(&v, o->value.p);
	if (*v.line[TOKEN_ACCESS])
		a->token = xstrdup(v.line[TOKEN_ACCESS]);
	token_value_done(&v);
	return a;
}

static void hang_up(struct oauth *a)
{
	dial_cancel(&a->dial);
	http_stream_close(&a->stream);
	timer_del(&a->gate->loop, &a->timer);
	wipe_buf(&a->out);
	wipe_buf(&a->in);
}

/* Everybody hears of it; they may come again at once. */
static void finish(struct oauth *a, const struct err *e)
{
	struct list waits, *n, *next;

	hang_up(a);
	if (e->code) {
		a->failed = *e;
		a->failed_ms = clock_boot_ms();
		log_warn("secret=%s %s", a->o->secret->name, e->msg);
	}
	list_init(&waits);
	list_each (n, next, &a->waits) {
		list_del(n);
		list_add(&waits, n);
	}
	while (!list_empty(&waits)) {
		struct oauth_wait *w =
			container_of(waits.next, struct oauth_wait, node);

		list_del(&w->node);
		w->fn(w, e);
	}
}

void oauth_free(struct oauth *a)
{
	struct err e = { 0 };

	if (!a)
		return;
	err_set(&e, EACCES, "secret %s is another one now: try again",
		a->o->secret->name);
	if (!list_empty(&a->waits))
		finish(a, &e);
	hang_up(a);
	wipe_text(a->token);
	policy_done(&a->part.policy);
	free(a->box);
	free(a);
}

const char *oauth_token(const struct oauth *a)
{
	bool good = !a->until_ms || clock_boot_ms() < a->until_ms;

	return a->token && good ? a->token : NULL;
}

void oauth_cancel(struct oauth_wait *w)
{
	/* The fetch goes on: the next one will want the token, too. */
	if (w->node.next)
		list_del(&w->node);
}

/* --- the answer --- */

/* The value as it is from now on, here and in the registry. */
static void renew(struct oauth *a, const char *value)
{
	struct opened *o = a->o;
	struct buf sealed = { 0 };
	struct sealed_value v = { .n = strlen(value) };
	struct err e = { 0 };

	v.p = sodium_malloc(v.n + 1);
	if (!v.p || secret_seal(o->secret, o->project->public_key, value, v.n,
				&sealed, &e) < 0) {
		log_err("secret=%s the new value is lost: %s", o->secret->name,
			v.p ? e.msg : "no memory");
		sealed_free(&v);
		return;
	}
	memcpy(v.p, value, v.n + 1);
	sealed_free(&o->value);
	o->value = v;
	free(o->secret->sealed);
	o->secret->sealed_n = buf_len(&sealed);
	o->secret->sealed = xcalloc(1, o->secret->sealed_n);
	memcpy(o->secret->sealed, buf_data(&sealed), o->secret->sealed_n);
	o->secret->renewed = true;
	project_tell_sealed(o->project, o->secret);
	buf_done(&sealed);
}

/* A refresh token that is new; one that a code was given for; or, where there
 * are none, the token itself. */
static void keep(struct oauth *a, struct token *t)
{
	struct token_value v;
	struct buf value = { 0 };
	bool code;

	token_value_read(&v, a->o->value.p);
	code = *v.line[TOKEN_CODE];
	buf_printf(&value, "%s\n", v.line[TOKEN_CLIENT_SECRET]);
	if (buf_len(&t->refresh) > 0 &&
	    strcmp(buf_str(&t->refresh), v.line[TOKEN_REFRESH]) != 0) {
		buf_puts(&value, buf_str(&t->refresh));
		renew(a, buf_str(&value));
	} else if (code) {
		buf_printf(&value, "\n\n\n\n%s", buf_str(&t->access));
		renew(a, buf_str(&value));
		a->until_ms = 0;
	}
	wipe_buf(&value);
	token_value_done(&v);
}

static void take_token(struct oauth *a, struct token *t)
{
	struct opened *o = a->o;
	uint64_t ms = (t->expires ? t->expires_s : USUAL_S) * 1000;

	/* An expired token still serves the requests that wait for it. */
	if (ms < BRIEF_MS)
		ms = BRIEF_MS;

	wipe_text(a->token);
	a->token = xstrdup(buf_str(&t->access));
	a->until_ms =
		clock_boot_ms() + (ms > 2 * EARLY_MS ? ms - EARLY_MS : ms / 2);
	keep(a, t);
	words_unref(o->words);
	o->words = words_new();
	words_add_lines(o->words, o->value.p);
	words_add_lines(o->words, a->token);
}

static int read_answer(struct oauth *a, int status, const char *p, size_t n,
		       struct err *e)
{
	struct token t = { 0 };
	int r = token_read(&t, p, n);

	if (status != 200 || r < 0 || buf_len(&t.access) == 0)
		r = err_set(e, EPROTO,
			    "secret %s: %s gave no token (status %d%s%.64s)",
			    a->o->secret->name, a->dial.host, status,
			    r == 0 && buf_len(&t.error) ? ", " : "",
			    r == 0 ? buf_str(&t.error) : "");
	else
		take_token(a, &t);
	token_done(&t);
	return r;
}

/* The content of a chunked body: 1 when it is whole. */
static int unchunk(const char *p, size_t n, struct buf *out)
{
	struct http_chunked d = { 0 };
	size_t used, data;
	int r;

	for (;;) {
		r = http_chunked_next(&d, p, n, &used, &data);
		if (r < 0)
			return r;
		if (r == HTTP_CHUNK_DATA)
			buf_add(out, p + used - data, data);
		if (r == HTTP_CHUNK_END)
			return 1;
		if (r == HTTP_CHUNK_MORE)
			return 0;
		p += used;
		n -= used;
	}
}

/* 1: it is whole and was read. 0: more must come. */
static int take_answer(struct oauth *a, bool ended, struct err *e)
{
	struct http_scan scan;
	struct http_head h = { 0 };
	struct buf body = { 0 };
	const char *p = buf_data(&a->in), *why;
	size_t n = buf_len(&a->in);
	int len, r = 0;

	/* Behind interim ones (103), which say nothing. */
	do {
		scan = (struct http_scan){ 0 };
		len = http_scan_head(&scan, p, n, &why);
		if (len < 0)
			return -EPROTO;
		if (len == 0)
			return ended ? -EPROTO : 0;
		http_head_done(&h);
		if (http_parse_response(&h, p, (size_t)len, "POST", &why) < 0)
			return -EPROTO;
		p += len;
		n -= (size_t)len;
	} while (h.status < 200);
	if (h.body == HTTP_CHUNKED) {
		r = unchunk(p, n, &body);
	} else {
		r = h.body == HTTP_LENGTH ? n >= h.length : ended;
		buf_add(&body, p,
			h.body == HTTP_LENGTH && n > h.length ? h.length : n);
	}
	if (r == 1 &&
	    read_answer(a, h.status, buf_data(&body), buf_len(&body), e) < 0)
		r = -e->code;
	if (r == 0 && ended)
		r = -EPROTO;
	wipe_buf(&body);
	http_head_done(&h);
	return r;
}

/* --- asking --- */

static void fail(struct oauth *a, const char *why)
{
	struct err e = { 0 };

	err_set(&e, EPROTO, "secret %s: no token from %s: %.100s",
		a->o->secret->name, a->dial.host, why);
	finish(a, &e);
}

static void on_late(struct timer *t)
{
	fail(container_of(t, struct oauth, timer), "it does not answer");
}

static void read_more(struct oauth *a)
{
	ssize_t n = http_stream_fill(&a->stream, &a->in, 16 * 1024);
	struct err e = { 0 };
	int r;

	if (n == -EAGAIN)
		return;
	if (n < 0 || buf_len(&a->in) > ANSWER_MAX) {
		fail(a, n < 0 ? strerror((int)-n) : "its answer is too long");
		return;
	}
	r = take_answer(a, n == 0, &e);
	if (r < 0 && !e.code)
		fail(a, "its answer is none");
	else if (r != 0)
		finish(a, &e);
}

static void on_stream(struct http_stream *s, uint32_t events)
{
	struct oauth *a = container_of(s, struct oauth, stream);
	ssize_t n;

	(void)events;
	if (buf_len(&a->out) == 0) {
		read_more(a);
		return;
	}
	n = http_stream_drain(s, &a->out);
	if (n < 0 && n != -EAGAIN)
		fail(a, strerror((int)-n));
	else if (buf_len(&a->out) == 0)
		http_stream_watch(s, EPOLLIN, on_stream);
}

static void on_dial(struct dial *d, const struct err *e)
{
	struct oauth *a = container_of(d, struct oauth, dial);

	if (e && e->code) {
		fail(a, e->msg);
		return;
	}
	http_stream_move(&a->stream, &d->stream);
	if (http_stream_watch(&a->stream, EPOLLOUT, on_stream) < 0)
		fail(a, "no memory");
}

static int make_box(struct oauth *a, const struct url *u, struct err *e)
{
	AUTO(buf_done) struct buf text = { 0 };
	bool v6 = strchr(u->host, ':'), address;
	char host[POLICY_HOST_CAP];

	if (a->box)
		return 0;
	if (host_read(u->host, strlen(u->host), host, &address) < 0)
		return err_set(e, EINVAL, "token_url: its host is none");
	buf_printf(&text, v6 ? "allow * [%s]:*\n" : "allow * %s:*\n", host);
	if (!address)
		buf_printf(&text, "private %s\n", host);
	if (policy_parse(&a->part.policy, buf_data(&text), buf_len(&text), e) <
	    0)
		return -e->code;
	a->box = xcalloc(1, sizeof(*a->box));
	a->box->gate = a->gate;
	a->box->project = a->o->project;
	a->box->parts = &a->part;
	a->box->n_parts = a->o->secret->private_url;
	a->box->link_fd = -1;
	return 0;
}

static void put_request(struct oauth *a, const struct url *u)
{
	const char *url = a->o->secret->url + strlen("https://");
	const char *path = strchr(url, '/');
	struct buf body = { 0 };
	struct token_value v;

	token_value_read(&v, a->o->value.p);
	token_request(a->o->secret, &v, &body);
	token_value_done(&v);
	buf_printf(&a->out, "POST %s HTTP/1.1\r\nHost: ", path ? path : "/");
	buf_printf(&a->out, strchr(u->host, ':') ? "[%s]" : "%s", u->host);
	if (u->port != 443)
		buf_printf(&a->out, ":%u", u->port);
	buf_printf(&a->out,
		   "\r\nUser-Agent: " PRODUCT "\r\nAccept: application/json\r\n"
		   "Content-Type: application/x-www-form-urlencoded\r\n"
		   "Content-Length: %zu\r\nConnection: close\r\n\r\n",
		   buf_len(&body));
	buf_add(&a->out, buf_data(&body), buf_len(&body));
	wipe_buf(&body);
}

/* On record before it leaves, as everything. */
static int record(struct oauth *a, const struct url *u, struct err *e)
{
	AUTO(buf_done) struct buf json = { 0 };

	buf_puts(&json, "\"name\":");
	record_string(&json, a->o->secret->name);
	buf_puts(&json, ",\"project\":");
	record_string(&json, a->o->project->name);
	buf_puts(&json, ",\"host\":");
	record_string(&json, u->host);
	return record_event(a->gate, NULL, "secret.token", buf_str(&json), e);
}

static void start(struct oauth *a)
{
	struct err e = { 0 };
	struct url u;

	if (url_read(&u, a->o->secret->url, &e) < 0 ||
	    make_box(a, &u, &e) < 0 || record(a, &u, &e) < 0) {
		finish(a, &e);
		return;
	}
	put_request(a, &u);
	a->dial = (struct dial){ .box = a->box, .port = u.port, .tls = true };
	snprintf(a->dial.host, sizeof(a->dial.host), "%s", u.host);
	timer_set(&a->gate->loop, &a->timer, FETCH_MS, on_late);
	dial_start(&a->dial, on_dial);
}

void oauth_fetch(struct oauth *a, struct oauth_wait *w)
{
	bool busy = !list_empty(&a->waits) || buf_len(&a->out) || a->timer.slot;

	list_init(&w->node);
	if (!busy && a->failed.code &&
	    clock_boot_ms() < a->failed_ms + AGAIN_MS) {
		w->fn(w, &a->failed);
		return;
	}
	list_add(&a->waits, &w->node);
	if (!busy)
		start(a);
}

/* --- for a person --- */

struct check {
	struct oauth_wait wait;
	struct gate *gate;
	uint64_t number;
};

static void say(struct gate *g, uint64_t number, const struct err *e)
{
	gate_tell(g, &(struct gate_msg){ .kind = GATE_CODED,
					 .number = number,
					 .name = e->code ? "" : "connected",
					 .text = e->msg });
}

static void on_checked(struct oauth_wait *w, const struct err *e)
{
	AUTO_FREE struct check *c = container_of(w, struct check, wait);

	say(c->gate, c->number, e);
}

bool oauth_check(struct project *p, const char *name, uint64_t number)
{
	struct secret *s = secret_of(p, name);
	struct err e = { 0 };
	struct opened *o;
	struct check *c;

	if (!s || s->kind != SECRET_OAUTH2)
		return false;
	o = opened_get(p, s, &e);
	if (!o || oauth_token(o->oauth)) {
		say(p->gate, number, &e);
		return true;
	}
	c = xcalloc(1, sizeof(*c));
	c->wait.fn = on_checked;
	c->gate = p->gate;
	c->number = number;
	oauth_fetch(o->oauth, &c->wait);
	return true;
}
