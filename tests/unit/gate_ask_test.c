/* Requests that wait for a person: how many may, how often, and who hears the
 * answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "gate/ask.h"
#include "gate/ask_hook.h"
#include "gate/record.h"

static unsigned told, events, hooks, late;
static char shown_path[2048], shown_part[GATE_PART_CAP];
static timer_fn *expiry;
static uint64_t expiry_ms;

void gate_tell(struct gate *g, const struct gate_msg *m)
{
	(void)g;
	told += m->kind == GATE_ASK;
	if (m->kind != GATE_ASK)
		return;
	snprintf(shown_path, sizeof(shown_path), "%s", m->path);
	snprintf(shown_part, sizeof(shown_part), "%s", m->part);
}

int record_event(struct gate *g, const struct box *b, const char *type,
		 const char *json, struct err *e)
{
	(void)g;
	(void)b;
	(void)json;
	(void)e;
	events += strcmp(type, "approval.ask") == 0;
	late += strcmp(type, "approval.expired") == 0;
	return 0;
}

void record_string(struct buf *out, const char *s)
{
	buf_printf(out, "\"%s\"", s);
}

void ask_hook(struct gate *g, const char *json)
{
	(void)g;
	(void)json;
	hooks++;
}

void timer_set(struct loop *l, struct timer *t, uint64_t ms, timer_fn *fn)
{
	(void)l;
	(void)t;
	expiry = fn;
	expiry_ms = ms;
}

void timer_del(struct loop *l, struct timer *t)
{
	(void)l;
	(void)t;
}

static struct conf conf = { .ask_timeout_ms = 7000 };
static struct gate gate = { .conf = &conf };
static struct project project = { .name = "p" };
static struct box one = { .gate = &gate, .project = &project, .id = "i1" };
static struct box two = { .gate = &gate, .project = &project, .id = "i2" };
static struct ask asks[ASKS_MAX + 1];
static const struct request request = { SCHEME_HTTPS, "a.test", 443, "GET",
					"/" };
static const struct ruling ruling = { .part = "p" };
static struct err why;
static const struct ask *answered;
static bool allowed;

static void on_answer(struct ask *a, bool allow, const char *text)
{
	(void)text;
	answered = a;
	allowed = allow;
}

static int start(struct ask *a, struct box *b, const char *target,
		 const char *over)
{
	const struct ask_about about = { &request, &ruling, target, over };

	why = (struct err){ 0 };
	*a = (struct ask){ 0 };
	return ask_start(a, b, &about, on_answer, &why);
}

/* The limit of a sandbox leaves room for other sandboxes. */
static void test_limit_of_a_sandbox(void)
{
	unsigned i;

	for (i = 0; i < ASKS_OF_BOX; i++)
		CHECK(start(&asks[i], &one, NULL, NULL) == 0);
	CHECK(start(&asks[i], &one, NULL, NULL) == -EMFILE);
	CHECK(strstr(why.msg, "32 requests of this sandbox wait") != NULL);
	CHECK(start(&asks[i], &two, NULL, NULL) == 0);
	ask_cancel(&asks[i]);
	/* A place that is free again. */
	ask_cancel(&asks[0]);
	CHECK(start(&asks[0], &one, NULL, NULL) == 0);
	for (i = 0; i < ASKS_OF_BOX; i++)
		ask_cancel(&asks[i]);
	CHECK(one.n_asks == 0 && two.n_asks == 0);
}

static void test_limit_of_all(void)
{
	static struct box boxes[ASKS_MAX / ASKS_OF_BOX + 1];
	unsigned i;

	for (i = 0; i < ASKS_MAX; i++) {
		struct box *b = &boxes[i / ASKS_OF_BOX];

		b->gate = &gate;
		b->project = &project;
		if (start(&asks[i], b, NULL, NULL) < 0)
			break;
	}
	CHECK(i == ASKS_MAX);
	boxes[i / ASKS_OF_BOX].gate = &gate;
	CHECK(start(&asks[i], &boxes[i / ASKS_OF_BOX], NULL, NULL) == -EMFILE);
	CHECK_STR(why.msg, "too many requests wait for an approval");
	while (i-- > 0)
		ask_cancel(&asks[i]);
}

/* A sandbox that asks and gives up again and again. */
static void test_limit_of_a_rate(void)
{
	unsigned n;

	two.ask_room_ms = 0;
	for (n = 0; n < 100000; n++) {
		if (start(&asks[0], &two, NULL, NULL) < 0)
			break;
		ask_cancel(&asks[0]);
	}
	CHECK(n >= 64 && n < 100000);
	CHECK(strstr(why.msg, "too often") != NULL);
	/* Half a second later there is room for one. */
	two.ask_room_ms -= 500;
	CHECK(start(&asks[0], &two, NULL, NULL) == 0);
	ask_cancel(&asks[0]);
}

static void test_answer(void)
{
	one.ask_room_ms = 0;
	CHECK(start(&asks[0], &one, NULL, NULL) == 0);
	CHECK(start(&asks[1], &one, NULL, NULL) == 0);
	CHECK(start(&asks[2], &one, NULL, NULL) == 0);
	answered = NULL;
	ask_answer(&gate, asks[2].number + 100, true);
	CHECK(!answered);
	/* A late answer releases no other request. */
	ask_cancel(&asks[0]);
	ask_answer(&gate, asks[0].number, true);
	CHECK(!answered);
	ask_answer(&gate, asks[1].number, true);
	CHECK(answered == &asks[1] && allowed);
	ask_answer(&gate, asks[2].number, false);
	CHECK(answered == &asks[2] && !allowed);
	CHECK(one.n_asks == 0);
}

static void test_no_answer_in_time(void)
{
	CHECK(start(&asks[0], &one, NULL, NULL) == 0);
	CHECK(expiry_ms == 7000);
	late = 0;
	allowed = true;
	expiry(&asks[0].timer);
	CHECK(late == 1 && answered == &asks[0] && !allowed);
	one.ask_ms = 90;
	CHECK(start(&asks[0], &one, NULL, NULL) == 0);
	CHECK(expiry_ms == 90);
	ask_cancel(&asks[0]);
	one.ask_ms = 0;
}

static void test_shown(void)
{
	static char path[3000];

	CHECK(start(&asks[0], &one, "/a?b=c", NULL) == 0);
	CHECK_STR(shown_path, "/a?b=c");
	CHECK_STR(shown_part, "p");
	hooks = told = 0;
	ask_shown(&gate, asks[0].number, 17);
	ask_shown(&gate, asks[0].number, 17);
	CHECK(hooks == 1 && asks[0].shown == 17);
	asks_tell(&gate);
	CHECK(told == 1);
	ask_cancel(&asks[0]);
	/* A person sees that a URL was cut, and that it is about a budget. */
	memset(path, 'x', sizeof(path) - 1);
	CHECK(start(&asks[0], &one, path, "the budget is used up") == 0);
	CHECK(strstr(shown_path, "(cut, of 2999 bytes)") != NULL);
	CHECK_STR(shown_part, GATE_PART_BUDGET);
	ask_cancel(&asks[0]);
}

int main(void)
{
	test_limit_of_a_sandbox();
	test_limit_of_all();
	test_limit_of_a_rate();
	test_answer();
	test_no_answer_in_time();
	test_shown();
	return CHECK_DONE();
}
