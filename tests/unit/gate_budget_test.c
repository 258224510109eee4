/* Budgets: what has room, what has not, and what a killed door leaves. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "gate/account.h"
#include "gate/budget.h"
#include "gate/prices.h"
#include "gate/record.h"
#include "gate/state.h"
#include "http/parse.h"

static unsigned events, pauses;

/* The door's ends, for what is told. */
void gate_tell(struct gate *g, const struct gate_msg *m)
{
	(void)g;
	pauses += m->kind == GATE_PAUSE;
}

int record_event(struct gate *g, const struct box *b, const char *type,
		 const char *json, struct err *e)
{
	(void)g;
	(void)b;
	(void)json;
	(void)e;
	events += strcmp(type, "budget.over") == 0;
	return 0;
}

void record_string(struct buf *out, const char *s)
{
	buf_printf(out, "\"%s\"", s);
}

static struct conf conf;
static struct gate gate = { .conf = &conf, .api = { .fd = -1 } };
static struct account account = { .id = "ix" };
static struct box box = { .gate = &gate, .id = "ix", .account = &account };
static struct box kin = { .gate = &gate, .id = "iy", .account = &account };
static struct box_part parts[2];
static struct http_head head;

static void policies(const char *a, const char *b)
{
	const char *const text[] = { a, b };
	struct err e = { 0 };
	unsigned i;

	for (i = 0; i < 2; i++) {
		policy_done(&parts[i].policy);
		parts[i].policy = (struct policy){ 0 };
		if (policy_parse(&parts[i].policy, text[i], strlen(text[i]),
				 &e) < 0) {
			fprintf(stderr, "%s\n", e.msg);
			abort();
		}
	}
	box.parts = parts;
	box.n_parts = 2;
	box.generation++;
}

/* Another gate worker: the counters are all that is left. */
static void restart(void)
{
	budget_forget(&box);
	budget_forget(&kin);
	account = (struct account){ .id = "ix", .state = box.state };
	list_init(&account.boxes);
	list_add(&account.boxes, &box.in_account);
}

static void fresh(const char *a, const char *b)
{
	free(box.state);
	box.state = xcalloc(1, sizeof(*box.state));
	restart();
	policies(a, b);
}

static char why[256];

static struct box *who = &box;

static enum budget_answer begin(struct budget_hold *h, const char *host)
{
	const struct request q = { .scheme = SCHEME_HTTPS,
				   .host = host,
				   .port = 443 };
	struct err e = { 0 };
	enum budget_answer a;

	*h = (struct budget_hold){ 0 };
	a = budget_begin(h, who, &q, &head, &e);
	memcpy(why, e.msg, sizeof(e.msg));
	return a;
}

/* How many requests pass, one after the other. */
static int passes(const char *host, int most)
{
	struct budget_hold h = { 0 };
	int i;

	for (i = 0; i < most && begin(&h, host) == BUDGET_OK; i++)
		budget_end(&h, 0);
	return i;
}

static void test_requests(void)
{
	struct budget_hold h = { 0 };
	struct gate_count c;

	fresh("", "");
	CHECK(passes("a.test", 1000) == 1000);
	box_count(&box, &c);
	CHECK(c.requests == 1000);
	/* Of two policies the stricter one, whichever it is. */
	fresh("budget requests 10/h", "budget requests 3/h, up 1MB");
	CHECK(passes("a.test", 100) == 3);
	CHECK(begin(&h, "a.test") == BUDGET_DENY);
	CHECK_STR(why, "the budget of this sandbox is used up (3 requests "
		       "in 1 h): ask an operator for more");
	fresh("budget requests 10/m", "budget requests 3/s");
	CHECK(passes("a.test", 100) == 10);
	/* The window has passed. */
	events = 0;
	restart();
	box.state->budgets[0].window_ms -= 61000;
	CHECK(passes("a.test", 100) == 10);
	CHECK(passes("a.test", 100) == 0);
	CHECK(events == 1);
	/* A clock that was set back refills nothing: here, or for the next
	 * door. */
	box.state->budgets[0].window_ms += 3600000;
	CHECK(passes("a.test", 100) == 0);
	restart();
	CHECK(passes("a.test", 100) == 0);
	/* In all: a window does not help. */
	fresh("budget requests 5", "budget requests 100/h");
	CHECK(passes("a.test", 100) == 5);
	box.state->budgets[0].window_ms = 0;
	CHECK(passes("a.test", 100) == 0);
	/* More of it, while it runs. */
	policies("budget requests 7", "");
	CHECK(passes("a.test", 100) == 2);
}

/* Of two policies each limit is the smaller one, in either order. */
static void test_smaller_of_two(void)
{
	static const char *const texts[2] = {
		"budget requests 5, up 1000, down 50, connections 2",
		"budget requests 3, up 2000, down 70, connections 9",
	};
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct budget_hold h = { 0 }, two = { 0 }, three = { 0 };

		fresh(texts[i], texts[!i]);
		CHECK(passes("a.test", 1) == 1);
		CHECK(begin(&h, "a.test") == BUDGET_OK);
		CHECK(begin(&two, "a.test") == BUDGET_OK);
		CHECK(begin(&three, "a.test") == BUDGET_DENY);
		CHECK(strstr(why, "2 connections at once") != NULL);
		CHECK(budget_down(&h, 50) && !budget_down(&h, 1));
		CHECK(budget_up(&two, 1000) && !budget_up(&two, 1));
		budget_end(&h, 0);
		budget_end(&two, 0);
		CHECK(begin(&three, "a.test") == BUDGET_DENY);
		CHECK(strstr(why, "3 requests in all") != NULL);
	}
}

/* A rate has room again when its time has passed. */
static void test_rate_passes(void)
{
	unsigned i;

	fresh("budget rate 2/s", "");
	CHECK(passes("a.test", 2) == 2);
	for (i = 0; i < 1000 && passes("a.test", 1) == 0; i++)
		usleep(10000);
	CHECK(i < 1000);
}

/* More hosts with a budget than there are counters: nothing leaves. */
static void test_too_many_hosts(void)
{
	AUTO(buf_done) struct buf one = { 0 }, two = { 0 };
	struct budget_hold h = { 0 };
	unsigned i;

	for (i = 0; i < STATE_BUDGETS; i++)
		buf_printf(i % 2 ? &one : &two, "budget h%u.test requests 2\n",
			   i);
	fresh(buf_str(&one), buf_str(&two));
	CHECK(begin(&h, "other.test") == BUDGET_DENY);
	CHECK(strstr(why, "too many hosts") != NULL);
}

/* All places are taken: a new host does not get that of one that still has a
 * budget. */
static void test_places(void)
{
	AUTO(buf_done) struct buf text = { 0 };
	unsigned i;

	for (i = 0; i < STATE_BUDGETS - 1; i++)
		buf_printf(&text, "budget h%u.test requests 2\n", i);
	fresh(buf_str(&text), "");
	for (i = 0; i < STATE_BUDGETS - 1; i++) {
		char host[32];

		snprintf(host, sizeof(host), "h%u.test", i);
		CHECK(passes(host, 9) == 2);
	}
	buf_clear(&text);
	buf_puts(&text, "budget new.test requests 2\n");
	for (i = 0; i < STATE_BUDGETS - 2; i++)
		buf_printf(&text, "budget h%u.test requests 2\n", i);
	policies(buf_str(&text), "");
	CHECK(passes("h0.test", 9) == 0);
	CHECK(passes("h13.test", 9) == 0);
	CHECK(passes("new.test", 9) == 2);
}

/* A person lifts one limit of one request: the others hold. */
static void test_granted(void)
{
	const struct request q = { .scheme = SCHEME_HTTPS,
				   .host = "a.test",
				   .port = 443 };
	struct budget_hold h = { 0 };
	struct err e = { 0 };

	fresh("budget requests 1, up 1KB\nbudget a.test requests 1\nover ask",
	      "");
	CHECK(begin(&h, "a.test") == BUDGET_OK);
	CHECK(budget_up(&h, 1000));
	budget_end(&h, 0);
	CHECK(begin(&h, "a.test") == BUDGET_ASK);
	budget_grant(&h);
	/* There is another: of the host. */
	CHECK(budget_begin(&h, &box, &q, &head, &e) == BUDGET_ASK);
	CHECK_STR(e.msg, "the budget of a.test is used up (1 requests in all): "
			 "ask an operator for more");
	budget_grant(&h);
	CHECK(budget_begin(&h, &box, &q, &head, &e) == BUDGET_OK);
	CHECK(budget_up(&h, 24));
	CHECK(!budget_up(&h, 1));
	budget_end(&h, 0);
}

static void test_hosts(void)
{
	fresh("budget a.test requests 2", "budget *.b.test requests 4\n"
					  "budget requests 9");
	CHECK(passes("a.test", 100) == 2);
	CHECK_STR(why, "the budget of a.test is used up (2 requests in all): "
		       "ask an operator for more");
	CHECK(passes("x.b.test", 3) == 3);
	CHECK(passes("y.b.test", 100) == 1);
	CHECK(passes("b.test", 100) == 3); /* the sandbox's own */
	/* Counters stay with their host when the policy changes. */
	policies("budget c.test requests 2\nbudget a.test requests 3", "");
	CHECK(passes("a.test", 100) == 1);
	CHECK(passes("c.test", 100) == 2);
}

static void test_over(void)
{
	struct budget_hold h = { 0 };

	fresh("over ask", "budget requests 1, rate 5/s\nover pause");
	CHECK(begin(&h, "a.test") == BUDGET_OK);
	budget_end(&h, 0);
	CHECK(begin(&h, "a.test") == BUDGET_ASK);
	policies("", "budget requests 1\nover pause");
	CHECK(pauses == 0);
	CHECK(begin(&h, "a.test") == BUDGET_PAUSE);
	CHECK(begin(&h, "a.test") == BUDGET_PAUSE && pauses == 1);
	/* What passes by itself is no matter for people. */
	fresh("", "budget connections 2\nover ask");
	CHECK(begin(&h, "a.test") == BUDGET_OK);
	{
		struct budget_hold two = { 0 }, three = { 0 };

		CHECK(begin(&two, "a.test") == BUDGET_OK);
		CHECK(begin(&three, "a.test") == BUDGET_DENY);
		CHECK(strstr(why, "2 connections at once") != NULL);
		budget_end(&two, 0);
		budget_end(&two, 0);
		CHECK(begin(&three, "a.test") == BUDGET_OK);
		budget_end(&three, 0);
	}
	budget_end(&h, 0);
	/* A rate of 5 in an hour: no busy machine sees two of its windows. */
	fresh("", "budget rate 5/h\nover ask");
	CHECK(passes("a.test", 1000) == 5);
	CHECK(begin(&h, "a.test") == BUDGET_DENY);
	CHECK(strstr(why, "5 requests in 1 h") != NULL);
}

static void test_bytes(void)
{
	struct budget_hold h = { 0 }, other = { 0 };

	fresh("budget up 1000, down 2000", "budget a.test up 600");
	CHECK(begin(&h, "a.test") == BUDGET_OK);
	CHECK(budget_up(&h, 500) && !budget_why(&h)[0]);
	CHECK(!budget_up(&h, 101));
	CHECK(strstr(budget_why(&h), "budget of a.test") != NULL);
	CHECK(!budget_up(&h, 1)); /* it was stopped */
	CHECK(begin(&other, "b.test") == BUDGET_OK);
	CHECK(budget_up(&other, 500) && !budget_up(&other, 1));
	CHECK(budget_down(&other, 2000) && !budget_down(&other, 1));
	budget_end(&other, 0);
	budget_end(&h, 0);
	CHECK(begin(&h, "c.test") == BUDGET_DENY);
	CHECK(box.state->budgets[0].count.up_bytes == 1000);
	CHECK(box.state->budgets[0].count.down_bytes == 2000);
	CHECK(!budget_up(&h, 1)); /* not open */
}

#define BODY "{\"model\":\"small\",\"max_tokens\":400}"
#define ANSWER                                                       \
	"{\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":20," \
	"\"total_tokens\":30}}"

static void test_tokens(void)
{
	struct budget_hold h = { 0 }, other = { 0 };
	struct prices *p = NULL;
	static const char text[] = "host m.test openai\n"
				   "model small in 1000 out 1000";
	struct err e = { 0 };
	struct gate_count c;

	CHECK(prices_parse(&p, text, sizeof(text) - 1, &e) == 0);
	gate.prices = p;
	fresh("budget tokens 1000", "model x.test anthropic");
	CHECK(budget_needs_look(&box, "x.test", 443));
	CHECK(budget_needs_look(&box, "m.test", 443));
	CHECK(!budget_needs_look(&box, "y.test", 443));
	/* Two of them have room, the third has not: nothing of it leaves. */
	CHECK(begin(&h, "m.test") == BUDGET_OK && budget_wants_bodies(&h));
	budget_request_body(&h, BODY, strlen(BODY));
	CHECK(budget_up(&h, strlen(BODY)));
	CHECK(begin(&other, "m.test") == BUDGET_OK);
	budget_request_body(&other, BODY, strlen(BODY));
	CHECK(budget_up(&other, strlen(BODY)));
	{
		struct budget_hold third = { 0 };

		CHECK(begin(&third, "m.test") == BUDGET_OK);
		budget_request_body(&third, BODY, strlen(BODY));
		CHECK(!budget_up(&third, strlen(BODY)));
		CHECK(strstr(budget_why(&third), "1000 tokens") != NULL);
		budget_end(&third, 0);
	}
	/* Settled, there is room again. */
	budget_answer_body(&h, ANSWER, strlen(ANSWER));
	budget_end(&h, 200);
	budget_answer_body(&other, "{}", 2);
	budget_end(&other, 400);
	box_count(&box, &c);
	CHECK(c.tokens_in == 10 && c.tokens_out == 20);
	CHECK(c.cost_micro == 30000);
	CHECK(box.state->budgets[0].tokens_held == 0);
	/* Killed while one was under way: what it held is used. */
	CHECK(begin(&h, "m.test") == BUDGET_OK);
	budget_request_body(&h, BODY, strlen(BODY));
	free(h.model);
	restart();
	CHECK(passes("y.test", 1) == 1);
	box_count(&box, &c);
	CHECK(c.tokens_in + c.tokens_out > 430);
	CHECK(c.cost_micro > 30000 + 400000);
	/* Money. */
	fresh("budget cost 0.45", "");
	CHECK(begin(&h, "m.test") == BUDGET_OK);
	budget_request_body(&h, BODY, strlen(BODY));
	CHECK(budget_up(&h, strlen(BODY)));
	budget_end(&h, 0);
	policies("budget cost 0.40", "");
	CHECK(begin(&h, "m.test") == BUDGET_OK);
	budget_request_body(&h, BODY, strlen(BODY));
	CHECK(!budget_up(&h, strlen(BODY)));
	budget_end(&h, 0);
	CHECK(begin(&h, "m.test") == BUDGET_OK);
	/* One that cannot be read: as dear as the dearest, till it is known. */
	budget_request_body(&h, "\x1f\x8b", 2);
	CHECK(!budget_up(&h, 2));
	budget_end(&h, 0);
	policies("budget cost 9", "");
	CHECK(begin(&h, "m.test") == BUDGET_OK);
	budget_request_body(&h, "\x1f\x8b", 2);
	CHECK(budget_up(&h, 2) && box.state->budgets[0].cost_held > 4000000);
	budget_answer_body(&h, "{\"model\":\"small\",", 17);
	budget_answer_body(&h, &ANSWER[1], strlen(ANSWER) - 1);
	box_count(&box, &c);
	budget_end(&h, 200);
	CHECK(box.state->budgets[0].count.cost_micro == c.cost_micro + 30000);
	CHECK(begin(&h, "m.test") == BUDGET_OK);
	budget_request_body(&h, "{\"model\":\"new\"}", 15);
	CHECK(!budget_up(&h, 15));
	CHECK(strstr(budget_why(&h), "no price is known") != NULL);
	budget_end(&h, 0);
	gate.prices = NULL;
	prices_free(p);
}

static enum budget_answer begin_post(struct budget_hold *h, const char *path)
{
	const struct request q = { SCHEME_HTTPS, "m.test", 443, "POST", path };
	struct err e = { 0 };
	enum budget_answer a;

	*h = (struct budget_hold){ 0 };
	a = budget_begin(h, &box, &q, &head, &e);
	memcpy(why, e.msg, sizeof(e.msg));
	return a;
}

/* With a token budget, the gate refuses calls whose tokens it cannot count. */
static void test_uncounted_calls(void)
{
	static const char body[] = "{\"model\":\"small\",\"max_tokens\":4,"
				   "\"background\":true}";
	static const char text[] = "host m.test openai\n"
				   "model small in 1 out 1";
	struct budget_hold h = { 0 };
	struct prices *p = NULL;
	struct err e = { 0 };

	CHECK(prices_parse(&p, text, sizeof(text) - 1, &e) == 0);
	gate.prices = p;
	fresh("budget tokens 1000", "");
	CHECK(begin_post(&h, "/v1/batches") == BUDGET_DENY);
	CHECK(strstr(why, "a batch") != NULL);
	CHECK(begin_post(&h, "/v1/messages/batches/") == BUDGET_DENY);
	CHECK(begin_post(&h, "/v1/responses") == BUDGET_OK);
	budget_request_body(&h, body, sizeof(body) - 1);
	CHECK(!budget_up(&h, 1));
	CHECK(strstr(budget_why(&h), "in the background") != NULL);
	budget_end(&h, 0);
	/* Only requests are limited: it may. */
	fresh("budget requests 1000", "");
	CHECK(begin_post(&h, "/v1/batches") == BUDGET_OK);
	budget_request_body(&h, body, sizeof(body) - 1);
	CHECK(budget_up(&h, 1));
	budget_end(&h, 0);
	gate.prices = NULL;
	prices_free(p);
}

/* A fork: the limits of its own policies, the counters of its family. */
static void join(const char *text)
{
	static struct box_part part;
	struct err e = { 0 };

	policy_done(&part.policy);
	part.policy = (struct policy){ 0 };
	CHECK(policy_parse(&part.policy, text, strlen(text), &e) == 0);
	free(kin.state);
	kin.state = xcalloc(1, sizeof(*kin.state));
	kin.parts = &part;
	kin.n_parts = 1;
	kin.generation++;
	list_add(&account.boxes, &kin.in_account);
}

static void leave(void)
{
	list_del(&kin.in_account);
	budget_forget(&kin);
	policy_done(&kin.parts->policy);
	kin.parts->policy = (struct policy){ 0 };
	free(kin.state);
	kin.state = NULL;
	who = &box;
}

static void test_family(void)
{
	static const char same[] = "budget requests 5, up 1000\n"
				   "budget a.test requests 3";
	struct budget_hold h = { 0 }, more = { 0 };
	struct gate_count c;

	fresh(same, "");
	join(same);
	CHECK(passes("a.test", 2) == 2);
	who = &kin;
	CHECK(passes("a.test", 9) == 1);
	CHECK_STR(why, "the budget of a.test, shared with ix, is used up (3 "
		       "requests in all): ask an operator for more");
	CHECK(begin(&h, "b.test") == BUDGET_OK);
	CHECK(budget_up(&h, 700));
	budget_end(&h, 0);
	who = &box;
	CHECK(begin(&h, "b.test") == BUDGET_OK);
	CHECK(!budget_up(&h, 301));
	budget_end(&h, 0);
	CHECK(passes("b.test", 9) == 0);
	/* Each is charged for its own share. */
	box_count(&box, &c);
	CHECK(c.requests == 3 && c.up_bytes == 0);
	box_count(&kin, &c);
	CHECK(c.requests == 2 && c.up_bytes == 700);
	leave();
	/* Connections at once. */
	fresh("budget connections 1", "");
	join("budget connections 1");
	CHECK(begin(&h, "a.test") == BUDGET_OK);
	who = &kin;
	CHECK(begin(&more, "a.test") == BUDGET_DENY);
	budget_end(&h, 0);
	CHECK(begin(&more, "a.test") == BUDGET_OK);
	budget_end(&more, 0);
	leave();
	/* A shorter window of a relative does not refill a longer one. */
	fresh("budget requests 2/h", "");
	join("budget requests 9/s");
	CHECK(passes("a.test", 9) == 2);
	account.live[0].window_ms -= 5000;
	who = &kin;
	CHECK(passes("a.test", 1) == 1);
	who = &box;
	CHECK(passes("a.test", 9) == 0);
	leave();
}

int main(void)
{
	test_requests();
	test_family();
	test_granted();
	test_places();
	test_hosts();
	test_over();
	test_bytes();
	test_tokens();
	test_smaller_of_two();
	test_rate_passes();
	test_too_many_hosts();
	test_uncounted_calls();
	policies("", "");
	policy_done(&parts[0].policy);
	policy_done(&parts[1].policy);
	budget_forget(&box);
	free(box.state);
	return CHECK_DONE();
}
