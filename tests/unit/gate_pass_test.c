/* The steps before a request leaves: their order, and a refusal in each. The
 * functions that pass.c calls are stubs. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "gate/flow.h"
#include "http/target.h"

/* Answers of the stubs. */
static enum verdict verdict, kept_verdict;
static enum budget_answer budget;
static int inject_code, log_code, dial_code;
static bool dial_ok, needs_look;

/* Calls of the stubs, counted. */
static unsigned begins, grants, dials, records, dones, denials, ends, asks;
static timer_fn *timer;
static ask_fn *answer;

struct ruling box_decide(const struct box *b, const struct request *r)
{
	bool kept = r->path && strstr(r->path, "%2F");

	(void)b;
	return (struct ruling){ .verdict = kept ? kept_verdict : verdict };
}

bool ruling_asked(const struct ruling *r)
{
	return r->verdict == VERDICT_ASK;
}

enum budget_answer budget_begin(struct budget_hold *h, struct box *b,
				const struct request *r,
				const struct http_head *head, struct err *e)
{
	(void)h;
	(void)b;
	(void)r;
	(void)head;
	begins++;
	if (budget != BUDGET_OK)
		err_set(e, EDQUOT, "the budget is used up");
	return budget;
}

void budget_grant(struct budget_hold *h)
{
	(void)h;
	grants++;
	budget = BUDGET_OK;
}

bool budget_up(struct budget_hold *h, uint64_t n)
{
	(void)h;
	return n > 0;
}

bool budget_down(struct budget_hold *h, uint64_t n)
{
	(void)h;
	return n > 0;
}

void budget_end(struct budget_hold *h, int status)
{
	(void)h;
	(void)status;
	ends++;
}

bool budget_needs_look(const struct box *b, const char *host, uint16_t port)
{
	(void)b;
	(void)host;
	(void)port;
	return needs_look;
}

bool inject_needs_look(const struct box *b, const char *host, uint16_t port)
{
	return budget_needs_look(b, host, port);
}

void inject_start(struct inject *j, inject_fn *done)
{
	struct err e = { 0 };

	if (inject_code)
		err_set(&e, inject_code, "no such credential");
	done(j, &e);
}

void inject_cancel(struct inject *j)
{
	(void)j;
}

void inject_done(struct inject *j)
{
	(void)j;
}

int record_request(struct gate *g, struct egress *x, struct err *e)
{
	(void)g;
	(void)x;
	records += !log_code;
	return log_code ? err_set(e, log_code, "the log is behind") : 0;
}

void record_denied(struct gate *g, const struct egress *x, const char *why)
{
	(void)g;
	(void)x;
	(void)why;
	denials++;
}

void record_done(struct gate *g, const struct egress *x,
		 const struct egress_end *end)
{
	(void)g;
	(void)x;
	(void)end;
	dones++;
}

void dial_start(struct dial *d, dial_fn *done)
{
	struct err e = { 0 };

	dials++;
	if (dial_code)
		err_set(&e, dial_code, "no way");
	done(d, &e);
}

void dial_cancel(struct dial *d)
{
	(void)d;
}

bool dial_stays(const struct dial *d)
{
	(void)d;
	return dial_ok;
}

bool connect_stays_raw(struct flow *f)
{
	(void)f;
	return dial_ok;
}

int ask_start(struct ask *a, struct box *b, const struct ask_about *about,
	      ask_fn *fn, struct err *e)
{
	(void)a;
	(void)b;
	(void)about;
	(void)e;
	asks++;
	answer = fn;
	return 0;
}

void ask_cancel(struct ask *a)
{
	(void)a;
	answer = NULL;
}

void refusal_set(struct refusal *r, enum refusal_kind kind, const char *fmt,
		 ...)
{
	va_list ap;

	r->kind = kind;
	va_start(ap, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, ap);
	va_end(ap);
}

void refusal_policy(struct refusal *r, const struct box *b,
		    const struct request *q, const struct ruling *why)
{
	(void)b;
	(void)q;
	(void)why;
	refusal_set(r, REFUSE_POLICY, "denied");
}

void refusal_dial(struct refusal *r, const struct err *e)
{
	refusal_set(r, REFUSE_UPSTREAM, "%s", e->msg);
}

void timer_set(struct loop *l, struct timer *t, uint64_t ms, timer_fn *fn)
{
	(void)l;
	(void)t;
	(void)ms;
	timer = fn;
}

void timer_del(struct loop *l, struct timer *t)
{
	(void)l;
	(void)t;
	timer = NULL;
}

void http_stream_init(struct http_stream *s)
{
	*s = (struct http_stream){ .io.fd = -1 };
}

void http_stream_close(struct http_stream *s)
{
	s->io.fd = -1;
}

void http_stream_move(struct http_stream *to, struct http_stream *from)
{
	*to = *from;
	to->io.fd = 0;
}

/* --- one request --- */

static struct conf conf;
static struct gate gate = { .conf = &conf };
static struct box box = { .gate = &gate, .id = "ix", .ask_ms = 5000 };
static struct http_head head;
static struct flow flow;
static unsigned gone;
static int refused; /* enum refusal_kind; -1: it was not */

static void on_go(struct flow *f)
{
	(void)f;
	gone++;
}

static void on_no(struct flow *f, const struct refusal *r)
{
	(void)f;
	refused = (int)r->kind;
}

static void fresh(void)
{
	memset(&flow, 0, sizeof(flow));
	memset(&head, 0, sizeof(head));
	http_stream_init(&flow.outside);
	flow.box = &box;
	flow.pass.kind = "https";
	flow.pass.request =
		(struct request){ SCHEME_HTTPS, "a.test", 443, "GET", "/" };
	flow.pass.head = &head;
	verdict = kept_verdict = VERDICT_ALLOW;
	budget = BUDGET_OK;
	inject_code = log_code = dial_code = 0;
	dial_ok = true;
	needs_look = false;
	begins = grants = dials = records = dones = denials = ends = asks = 0;
	timer = NULL;
	answer = NULL;
}

static void start(void)
{
	gone = 0;
	refused = -1;
	flow.pass.head = &head;
	pass_start(&flow, on_go, on_no);
}

static void test_allowed(void)
{
	fresh();
	start();
	CHECK(gone == 1 && refused == -1 && begins == 1 && records == 1);
	pass_end(&flow, 200, NULL);
	pass_end(&flow, 200, NULL);
	CHECK(dones == 1 && ends == 1);
}

static void test_denied(void)
{
	fresh();
	verdict = VERDICT_DENY;
	start();
	CHECK(refused == REFUSE_POLICY && begins == 0 && denials == 1);
	/* VERDICT_LOOK that reaches this point is a denial. */
	fresh();
	verdict = VERDICT_LOOK;
	start();
	CHECK(refused == REFUSE_POLICY && gone == 0);
}

/* A slash that came encoded: both readings must be allowed. */
static void test_stricter_reading_wins(void)
{
	fresh();
	head.slashes = true;
	head.sent = "/a%2Fb";
	flow.pass.request.path = "/a/b";
	kept_verdict = VERDICT_DENY;
	start();
	CHECK(refused == REFUSE_POLICY);
	fresh();
	head.slashes = true;
	head.sent = "/a%2Fb";
	flow.pass.request.path = "/a/b";
	kept_verdict = VERDICT_ASK;
	start();
	CHECK(refused == -1 && gone == 0 && asks == 1);
	pass_end(&flow, 0, NULL);
}

static void test_connection_is_reused_for_its_own_place(void)
{
	fresh();
	start();
	CHECK(dials == 1);
	pass_end(&flow, 200, NULL);
	start();
	CHECK(gone == 1 && dials == 1);
	pass_end(&flow, 200, NULL);
	flow.pass.request.host = "b.test";
	start();
	CHECK(dials == 2);
	pass_end(&flow, 200, NULL);
	flow.pass.request.port = 8443;
	start();
	CHECK(dials == 3);
	pass_end(&flow, 200, NULL);
	flow.pass.request.scheme = SCHEME_HTTP;
	start();
	CHECK(dials == 4);
	pass_end(&flow, 200, NULL);
}

/* A private address is open to the request that a policy names it for; the next
 * request is checked again. */
static void test_connection_to_private_address_is_not_reused(void)
{
	fresh();
	start();
	flow.outside_named = true;
	pass_end(&flow, 200, NULL);
	start();
	CHECK(gone == 1 && dials == 2);
	pass_end(&flow, 200, NULL);
}

static void test_pause_ends(void)
{
	fresh();
	budget = BUDGET_PAUSE;
	start();
	CHECK(timer && refused == -1 && gone == 0);
	timer(&flow.pass.timer);
	CHECK(timer && refused == -1 && begins == 2);
	flow.pass.began_ms -= box.ask_ms + 1;
	timer(&flow.pass.timer);
	CHECK(refused == REFUSE_BUDGET && gone == 0);
	/* More budget in time: it goes on. */
	fresh();
	budget = BUDGET_PAUSE;
	start();
	budget = BUDGET_OK;
	timer(&flow.pass.timer);
	CHECK(gone == 1 && refused == -1);
	pass_end(&flow, 200, NULL);
}

static void test_nothing_leaves_without_the_log(void)
{
	fresh();
	log_code = EAGAIN;
	start();
	CHECK(timer && gone == 0 && dials == 0);
	timer(&flow.pass.timer);
	CHECK(timer && refused == -1);
	flow.pass.log_ms -= 5100;
	timer(&flow.pass.timer);
	CHECK(refused == REFUSE_LOG && gone == 0 && dials == 0);
}

static void test_budget_is_used_up(void)
{
	fresh();
	budget = BUDGET_DENY;
	start();
	CHECK(refused == REFUSE_BUDGET && dials == 0 && denials == 1);
	/* A person lifts it. */
	fresh();
	budget = BUDGET_ASK;
	start();
	CHECK(asks == 1 && refused == -1 && gone == 0);
	answer(&flow.pass.ask, true, "approved");
	CHECK(grants == 1 && gone == 1);
	pass_end(&flow, 200, NULL);
}

static void test_approval(void)
{
	fresh();
	verdict = VERDICT_ASK;
	start();
	CHECK(asks == 1 && begins == 0 && gone == 0);
	answer(&flow.pass.ask, false, "denied by a person");
	CHECK(refused == REFUSE_PERSON && gone == 0);
	fresh();
	verdict = VERDICT_ASK;
	start();
	answer(&flow.pass.ask, true, "approved");
	CHECK(gone == 1 && grants == 0 && begins == 1);
	pass_end(&flow, 200, NULL);
}

static void test_credentials_are_refused(void)
{
	fresh();
	inject_code = EACCES;
	start();
	CHECK(refused == REFUSE_SECRET && records == 0 && ends == 1);
	fresh();
	inject_code = ETIMEDOUT;
	start();
	CHECK(refused == REFUSE_UPSTREAM && dials == 0);
}

static void test_dial_fails(void)
{
	fresh();
	dial_code = EACCES;
	start();
	CHECK(refused == REFUSE_UPSTREAM && gone == 0);
	/* The log has the request already: the refusal is its end. */
	CHECK(denials == 0 && dones == 1);
}

static bool stays(void)
{
	struct refusal r;

	return pass_review(&flow, &r);
}

static void test_review(void)
{
	fresh();
	start();
	CHECK(stays());
	verdict = VERDICT_DENY;
	CHECK(!stays());
	verdict = VERDICT_LOOK;
	CHECK(!stays());
	flow.pass.ruling.verdict = VERDICT_ALLOW;
	verdict = VERDICT_ASK;
	CHECK(!stays());
	flow.pass.ruling.verdict = VERDICT_ALLOW;
	flow.pass.approved = true;
	CHECK(stays());
	verdict = VERDICT_ALLOW;
	dial_ok = false;
	CHECK(!stays());
	dial_ok = true;
	/* A tunnel to a host that a secret is for now. */
	flow.pass.head = NULL;
	CHECK(stays());
	needs_look = true;
	CHECK(!stays());
	pass_end(&flow, 0, NULL);
	CHECK(stays());
}

static void test_review_while_a_person_is_asked(void)
{
	fresh();
	verdict = VERDICT_ASK;
	start();
	verdict = VERDICT_ALLOW;
	CHECK(stays());
	CHECK(gone == 1 && !answer);
	pass_end(&flow, 200, NULL);
	/* About a budget: the policy does not answer for the person. */
	fresh();
	budget = BUDGET_ASK;
	start();
	CHECK(stays());
	CHECK(gone == 0 && answer && asks == 1);
	pass_end(&flow, 0, NULL);
}

int main(void)
{
	test_allowed();
	test_denied();
	test_stricter_reading_wins();
	test_connection_is_reused_for_its_own_place();
	test_connection_to_private_address_is_not_reused();
	test_pause_ends();
	test_nothing_leaves_without_the_log();
	test_budget_is_used_up();
	test_approval();
	test_credentials_are_refused();
	test_dial_fails();
	test_review();
	test_review_while_a_person_is_asked();
	return CHECK_DONE();
}
