/*
 * HTTP through the gate: a sandbox that says anything, a server that answers
 * anything, secrets in between. A server gets as many requests as were decided
 * on, each to the place that was, with a body that ends where its head says; a
 * secret goes only where it is bound to, a placeholder and a canary nowhere,
 * and nothing of a secret comes back though the server repeats it.
 *
 * The first byte says what kind of connection it is; then steps, each a byte:
 * what happens, and for words two bytes of their length and the words.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "gate/exchange.h"
#include "gate/oauth.h"
#include "gate/opened.h"
#include "gate/self.h"
#include "vault/secret.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 64, ROOM = 64 * 1024 };
/* The first byte. */
enum { PROXY = 1, BOUND = 2, HTTPS = 4, ASKS = 8, MODEL = 16, NO_WAY = 32 };
/* What happens. */
enum { SAYS, ANSWERS, REPEATS, HANGS_UP, LEAVES, LATE, TOKEN, REVOKED, PERSON };

#define VALUE "VALUE+of/" /* what no input has */
#define PLACEHOLDER "carrel-placeholder-"

static struct gate gate;
static struct project project;
static struct box box;
static struct flow flow;
static int sandbox_fd, server_fd;
static struct buf got;   /* by the server, of this request */
static struct buf heard; /* by the sandbox */
static bool asked_for;   /* it was let pass */
static bool tunnel;      /* it became one */
static struct request passed;
static char passed_host[POLICY_HOST_CAP];
static uint8_t how;
static bool has_token;
static struct oauth_wait *waits;
static ask_fn *asks;
static struct ask *asking;

/* --- secrets --- */

static const struct {
	const char *name;
	enum secret_kind kind;
	const char *host, *value, *more;
	enum { USED, CANARY, HIDDEN } how; /* by the sandbox */
} kept[] = {
	{ "bearer", SECRET_HEADER, "api.test", VALUE "bearer",
	  "Authorization: Bearer {}", USED },
	{ "plain", SECRET_HEADER, "http://api.test", VALUE "plain", "X-Key: {}",
	  USED },
	{ "basic", SECRET_BASIC, "*.basic.test", VALUE "basic", "me", USED },
	{ "query", SECRET_QUERY, "http://query.test", VALUE "query", "key",
	  USED },
	{ "aws", SECRET_SIGV4, "http://aws.test", VALUE "aws\n" VALUE "session",
	  "AKIA", USED },
	{ "oauth", SECRET_OAUTH2, "http://oauth.test", VALUE "refresh", "me",
	  USED },
	{ "fill", SECRET_FILL, "http://api.test", "text", "X-Fill: <{}>",
	  USED },
	{ "trap", SECRET_HEADER, "api.test", VALUE "trap", "X-Trap: {}",
	  CANARY },
	{ "text", SECRET_TEXT, NULL, VALUE "text", NULL, HIDDEN },
	{ "totp", SECRET_TOTP, NULL, "JBSWY3DPEHPK3PXP", NULL, USED },
};
static struct secret secrets[ARRAY_LEN(kept)];
static char token[] = VALUE "token";

static void make_secret(struct secret *s, size_t i)
{
	struct opened *o = xcalloc(1, sizeof(*o));
	struct box_use *u = &box.uses[box.n_uses];
	struct err e = { 0 };

	s->kind = kept[i].kind;
	snprintf(s->name, sizeof(s->name), "%s", kept[i].name);
	if (kept[i].host && secret_add_host(s, kept[i].host, &e) < 0)
		abort();
	if ((s->kind == SECRET_HEADER || s->kind == SECRET_FILL) &&
	    secret_set_header(s, kept[i].more, &e) < 0)
		abort();
	snprintf(s->user, sizeof(s->user), "%s",
		 kept[i].more ? kept[i].more : "");
	if (s->kind == SECRET_QUERY)
		snprintf(s->field, sizeof(s->field), "%s", kept[i].more);
	snprintf(s->region, sizeof(s->region), "here");
	snprintf(s->service, sizeof(s->service), "s3");
	o->project = &project;
	o->secret = s;
	o->value.p = xstrdup(kept[i].value);
	o->value.n = strlen(kept[i].value);
	o->words = words_new();
	words_add_lines(o->words, o->value.p);
	if (s->kind == SECRET_OAUTH2) {
		words_add_lines(o->words, token);
		o->oauth = (struct oauth *)token;
	}
	s->open = o;
	list_add(&project.secrets, &s->node);
	if (kept[i].how == HIDDEN)
		return;
	snprintf(u->name, sizeof(u->name), "%s", kept[i].name);
	snprintf(u->placeholder, sizeof(u->placeholder), PLACEHOLDER "%s",
		 kept[i].name);
	u->canary = kept[i].how == CANARY;
	box.n_uses++;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	size_t i;

	(void)argc;
	(void)argv;
	signal(SIGPIPE, SIG_IGN);
	list_init(&project.secrets);
	project.gate = &gate;
	box.gate = &gate;
	box.project = &project;
	for (i = 0; i < ARRAY_LEN(kept); i++)
		make_secret(&secrets[i], i);
	return 0;
}

/* --- what is seen --- */

static bool has(const struct buf *b, const char *word)
{
	return buf_len(b) > 0 &&
	       memmem(b->p + b->off, buf_len(b), word, strlen(word));
}

/* Exactly one request, or its beginning. */
static void check_framing(const struct http_head *h, const char *p, size_t n)
{
	struct http_chunked c = { 0 };
	size_t used, part;
	int r = HTTP_CHUNK_DATA;

	if (h->body != HTTP_CHUNKED) {
		assert(n <= (h->body == HTTP_LENGTH ? h->length : 0));
		return;
	}
	while (n > 0 && r != HTTP_CHUNK_END) {
		r = http_chunked_next(&c, p, n, &used, &part);
		assert(r >= 0);
		p += used;
		n -= used;
	}
	assert(n == 0);
}

static void check_fields(const struct http_head *h)
{
	static const char *const never[] = {
		"proxy-authorization", "via",
		"keep-alive",          "te",
		"forwarded",           "x-http-method-override",
		"x-forwarded-for"
	};
	unsigned i, k, hosts = 0;

	for (i = 0; i < h->n_fields; i++) {
		hosts += strcasecmp(h->field[i].name, "host") == 0;
		for (k = 0; k < ARRAY_LEN(never); k++)
			assert(strcasecmp(h->field[i].name, never[k]) != 0);
	}
	assert(hosts == 1);
}

static void check_secrets(size_t head_n)
{
	const struct buf head = { .p = got.p + got.off, .len = head_n };
	size_t i;

	for (i = 0; i < box.n_uses; i++)
		assert(!has(&head, box.uses[i].placeholder));
	for (i = 0; i < ARRAY_LEN(kept); i++)
		if (str_starts(kept[i].value, VALUE) &&
		    has(&got, kept[i].value))
			assert(kept[i].kind == SECRET_TEXT
				       ? secret_binds(
						 secret_of(&project, "fill"),
						 &passed)
				       : secret_binds(&secrets[i], &passed));
	assert(!has(&got, VALUE "trap") && !has(&got, PLACEHOLDER "trap"));
	assert(!has(&got, VALUE "refresh"));
	if (has(&got, token))
		assert(secret_binds(secret_of(&project, "oauth"), &passed));
}

/* All that came for the request that was let pass. */
static void check_request(void)
{
	struct http_scan scan = { 0 };
	struct http_head h = { 0 };
	struct place to;
	const char *why = "";
	int n;

	if (server_fd >= 0)
		while (buf_read(&got, server_fd, ROOM) > 0)
			;
	if (!asked_for || tunnel) {
		assert(buf_len(&got) == 0 || tunnel);
		return;
	}
	n = http_scan_head(&scan, buf_data(&got), buf_len(&got), &why);
	if (n <= 0) { /* a long one is still on its way */
		assert(n == 0);
		return;
	}
	assert(http_parse_request(&h, buf_data(&got), (size_t)n, &why) == 0);
	check_fields(&h);
	assert(place_read(&to, http_header(&h, "host"),
			  passed.scheme == SCHEME_HTTPS ? 443 : 80) == 0);
	assert(strcmp(to.host, passed_host) == 0 && to.port == passed.port);
	check_framing(&h, buf_data(&got) + n, buf_len(&got) - (size_t)n);
	check_secrets((size_t)n);
	http_head_done(&h);
}

static void check_heard(void)
{
	while (sandbox_fd >= 0 && buf_read(&heard, sandbox_fd, ROOM) > 0)
		;
	assert(!has(&heard, VALUE));
}

/* --- the rest of the gate --- */

void flow_deadline(struct flow *f, uint64_t ms)
{
	(void)ms;
	assert(f == &flow && !f->ended);
}

int flow_looked(struct flow *f)
{
	(void)f;
	abort();
}

void flow_end(struct flow *f)
{
	if (f->ended)
		return;
	f->ended = true;
	check_request();
	pass_end(f, 0, "the connection ended");
	if (f->x)
		exchange_release(f);
	http_stream_close(&f->inside);
	http_stream_close(&f->outside);
}

void connect_tunnel(struct flow *f, bool look, struct buf *up, struct buf *down)
{
	(void)up;
	assert(look && !tunnel);
	tunnel = true;
	buf_add(&heard, buf_data(down), buf_len(down));
	flow_end(f);
}

bool connect_stays_raw(struct flow *f)
{
	(void)f;
	abort();
}

struct ruling box_decide(const struct box *b, const struct request *r)
{
	(void)b;
	assert(*r->host && r->port && r->method && r->path);
	return (struct ruling){ .verdict = how & ASKS ? VERDICT_ASK
						      : VERDICT_ALLOW,
				.part = "all" };
}

bool ruling_asked(const struct ruling *r)
{
	return r->verdict == VERDICT_ASK;
}

void ruling_text(const struct box *b, const struct ruling *r, struct buf *out)
{
	(void)b;
	buf_puts(out, r->part);
}

bool box_knows_host(const struct box *b, const char *host, uint16_t port)
{
	(void)b;
	(void)port;
	return *host;
}

int ask_start(struct ask *a, struct box *b, const struct ask_about *about,
	      ask_fn *fn, struct err *e)
{
	(void)b;
	(void)about;
	(void)e;
	assert(!asks);
	asks = fn;
	asking = a;
	return 0;
}

void ask_cancel(struct ask *a)
{
	assert(asks && asking == a);
	asks = NULL;
}

enum budget_answer budget_begin(struct budget_hold *h, struct box *b,
				const struct request *r,
				const struct http_head *head, struct err *e)
{
	(void)r;
	(void)head;
	(void)e;
	h->box = b;
	h->open = true;
	return BUDGET_OK;
}

/* A limit that a long talk reaches. */
void budget_grant(struct budget_hold *h)
{
	(void)h;
}

bool budget_up(struct budget_hold *h, uint64_t n)
{
	h->up += n;
	return h->up < 32768;
}

bool budget_down(struct budget_hold *h, uint64_t n)
{
	h->down += n;
	return h->down < 32768;
}

const char *budget_why(const struct budget_hold *h)
{
	return h->up < 32768 ? "down" : "up";
}

void budget_request_body(struct budget_hold *h, const void *p, size_t n)
{
	(void)p;
	assert(h->open && n > 0);
}

void budget_answer_body(struct budget_hold *h, const void *p, size_t n)
{
	budget_request_body(h, p, n);
}

void budget_cut(struct budget_hold *h)
{
	assert(h->open);
}

bool budget_wants_bodies(const struct budget_hold *h)
{
	return h->open && how & MODEL;
}

bool budget_needs_look(const struct box *b, const char *host, uint16_t port)
{
	(void)b;
	(void)host;
	(void)port;
	return false;
}

void budget_end(struct budget_hold *h, int status)
{
	(void)status;
	h->open = false;
}

void box_count(const struct box *b, struct gate_count *out)
{
	(void)b;
	*out = (struct gate_count){ 0 };
}

int record_ready(struct gate *g, struct err *e)
{
	(void)g;
	(void)e;
	return 0;
}

int record_request(struct gate *g, struct egress *x, struct err *e)
{
	(void)g;
	(void)e;
	assert(x->n_secrets <= 4 && !asked_for);
	asked_for = true;
	passed = *x->request;
	snprintf(passed_host, sizeof(passed_host), "%s", passed.host);
	passed.host = passed_host;
	passed.method = passed.path = NULL; /* they live as long as the head */
	return 0;
}

void record_denied(struct gate *g, const struct egress *x, const char *why)
{
	(void)g;
	(void)x;
	assert(*why && !strstr(why, VALUE));
}

void record_done(struct gate *g, const struct egress *x,
		 const struct egress_end *end)
{
	(void)g;
	(void)x;
	assert(end->status >= 0 && end->status <= 999);
	check_request();
	asked_for = false;
	buf_clear(&got);
}

int record_event(struct gate *g, const struct box *b, const char *type,
		 const char *json, struct err *e)
{
	(void)g;
	(void)b;
	(void)type;
	(void)e;
	assert(!strstr(json, VALUE));
	return 0;
}

void record_string(struct buf *out, const char *s)
{
	buf_puts(out, s);
}

const char *oauth_token(const struct oauth *a)
{
	assert((const char *)a == token);
	return has_token ? token : NULL;
}

void oauth_fetch(struct oauth *a, struct oauth_wait *w)
{
	(void)a;
	assert(!waits);
	waits = w;
}

void oauth_cancel(struct oauth_wait *w)
{
	assert(waits == w);
	waits = NULL;
}

void oauth_free(struct oauth *a)
{
	(void)a;
}

struct oauth *oauth_new(struct opened *o)
{
	(void)o;
	abort();
}

void self_answer(const struct box *b, const struct http_head *h, bool close,
		 struct buf *out)
{
	(void)b;
	(void)h;
	(void)close;
	(void)out;
	abort();
}

static int pair(int *other)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       fds) < 0)
		abort();
	auto_close(other);
	*other = fds[0];
	return fds[1];
}

/* The way is there at once. */
void dial_start(struct dial *d, dial_fn *done)
{
	struct err e = { 0 };

	if (how & NO_WAY) {
		err_set(&e, ECONNREFUSED, "no way");
		done(d, &e);
		return;
	}
	http_stream_open(&d->stream, &gate.loop, pair(&server_fd), NULL);
	d->named = how & BOUND;
	done(d, &e);
}

void dial_cancel(struct dial *d)
{
	(void)d;
	abort();
}

bool dial_stays(const struct dial *d)
{
	(void)d;
	return true;
}

/* --- steps --- */

static void on_step(struct timer *t)
{
	(void)t;
	gate.loop.stop = true;
}

static void turn(void)
{
	struct timer step = { 0 };

	gate.loop.stop = false;
	timer_set(&gate.loop, &step, 0, on_step);
	loop_run(&gate.loop);
	timer_del(&gate.loop, &step);
	check_request();
	check_heard();
}

static void say(int fd, const uint8_t *p, size_t n)
{
	if (fd >= 0)
		(void)!send(fd, p, n, MSG_DONTWAIT);
}

static void with_token(bool ok)
{
	struct oauth_wait *w = waits;
	struct err e = { 0 };

	waits = NULL;
	has_token = ok;
	if (!ok)
		err_set(&e, EACCES, "no token");
	if (w)
		w->fn(w, &e);
}

static void person(bool ok)
{
	ask_fn *fn = asks;

	asks = NULL;
	if (fn)
		fn(asking, ok, ok ? NULL : "no");
}

static void policy_changed(void)
{
	struct refusal r;

	refusal_set(&r, REFUSE_POLICY, "not any more");
	if (flow.pass.state != PASS_NONE)
		exchange_revoked(&flow, &r);
}

/* How many bytes of the input it took. */
static size_t step(const uint8_t *p, size_t n)
{
	size_t len = 0;

	if (p[0] <= ANSWERS && n >= 3) {
		len = p[1] | (size_t)p[2] << 8;
		len = len < n - 3 ? len : n - 3;
		say(p[0] == SAYS ? sandbox_fd : server_fd, p + 3, len);
		return len + 3;
	}
	switch (p[0]) {
	case REPEATS:
		say(server_fd, (uint8_t *)buf_data(&got), buf_len(&got));
		break;
	case HANGS_UP:
		auto_close(&server_fd);
		break;
	case LEAVES:
		auto_close(&sandbox_fd);
		break;
	case LATE:
		exchange_late(&flow);
		break;
	case TOKEN:
	case TOKEN | 128:
		with_token(!(p[0] & 128));
		break;
	case REVOKED:
		policy_changed();
		break;
	case PERSON:
	case PERSON | 128:
		person(!(p[0] & 128));
		break;
	default:
		break;
	}
	return 1;
}

static void begin(uint8_t first)
{
	how = first;
	has_token = tunnel = asked_for = false;
	waits = NULL;
	asks = NULL;
	server_fd = sandbox_fd = -1;
	if (loop_init(&gate.loop) < 0)
		abort();
	flow = (struct flow){
		.box = &box,
		.proxy = first & PROXY,
		.bound = first & BOUND,
		.scheme = first & HTTPS ? SCHEME_HTTPS : SCHEME_HTTP,
		.place = { .port = first & HTTPS ? 443 : 80 },
	};
	if (first & BOUND)
		snprintf(flow.place.host, sizeof(flow.place.host), "api.test");
	http_stream_init(&flow.inside);
	http_stream_init(&flow.outside);
	http_stream_open(&flow.inside, &gate.loop, pair(&sandbox_fd), NULL);
}

static void end(void)
{
	flow_end(&flow);
	check_heard();
	assert(box.held == 0 && !waits && !asks);
	exchange_free(flow.x);
	exchange_free(flow.old);
	auto_close(&server_fd);
	auto_close(&sandbox_fd);
	turn();
	loop_done(&gate.loop);
	buf_done(&got);
	buf_done(&heard);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned i;

	if (size < 2 || memmem(data, size, VALUE, 5))
		return 0;
	begin(data[0]);
	exchange_start(&flow);
	data++;
	size--;
	for (i = 0; i < STEPS_MAX && size > 0 && !flow.ended; i++) {
		size_t used = step(data, size);

		data += used;
		size -= used;
		if (!flow.ended)
			turn();
	}
	end();
	return 0;
}
