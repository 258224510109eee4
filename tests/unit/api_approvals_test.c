/* Approvals in the api: which requests an answer releases, and which approvals
 * remain when a gate worker disconnects and reconnects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/access.h"
#include "api/api.h"
#include "api/approvals.h"
#include "api/gate_link.h"
#include "api/reply.h"
#include "check.h"
#include "registry/gate.h"

static struct api api;
static struct gate_link link = { .api = &api };
static struct sandbox boxes[2] = { { .id = "iaaa", .project = "p" },
				   { .id = "ibbb", .project = "p" } };

/* Answers that were sent to the gate: a bit for each request. */
static unsigned allowed, denied;
static uint64_t shown;

void gate_send(struct gate_link *l, const struct gate_msg *m, int *fds, int n)
{
	(void)l;
	(void)fds;
	(void)n;
	if (m->kind == GATE_SHOWN)
		shown = m->shown;
	if (m->kind == GATE_ANSWER)
		*(m->allow ? &allowed : &denied) |= 1U << m->number;
}

struct sandbox *gate_box_of(struct gate_link *l, const char *id)
{
	(void)l;
	return box_by_id(&api, id);
}

struct sandbox *box_by_id(struct api *a, const char *id)
{
	(void)a;
	return strcmp(id, boxes[0].id) == 0   ? &boxes[0]
	       : strcmp(id, boxes[1].id) == 0 ? &boxes[1]
					      : NULL;
}

bool access_decided(struct approval *p, bool allow)
{
	(void)p;
	(void)allow;
	return true;
}

int registry_numbers(struct registry *r, const char *name, uint64_t n,
		     uint64_t *last, struct err *e)
{
	(void)r;
	(void)name;
	(void)e;
	*last += n;
	return 0;
}

json_t *json_time(uint64_t wall_ms)
{
	return json_integer((json_int_t)wall_ms);
}

static struct approval *ask(unsigned number, const char *id, const char *scheme,
			    const char *host, uint16_t port, const char *part)
{
	const struct gate_msg m = { .kind = GATE_ASK,
				    .number = number,
				    .id = id,
				    .method = "GET",
				    .scheme = scheme,
				    .host = host,
				    .path = "/a?token=1",
				    .part = part,
				    .rule = "ask *",
				    .port = port };

	shown = 0;
	approval_asked(&link, &m);
	return shown ? approval_find(&api, shown) : NULL;
}

static struct approval *ask_usual(unsigned number, const char *id)
{
	return ask(number, id, "https", "a.test", 443, "p");
}

static void fresh(void)
{
	approvals_lost(&link);
	approvals_settle(&link);
	allowed = denied = 0;
}

static void test_answer_for_a_host(void)
{
	struct approval *p;

	fresh();
	p = ask_usual(1, "iaaa");
	CHECK(ask_usual(2, "iaaa") != NULL);
	CHECK(ask_usual(3, "ibbb") != NULL);
	CHECK(ask(4, "iaaa", "https", "b.test", 443, "p") != NULL);
	CHECK(ask(5, "iaaa", "https", "a.test", 444, "p") != NULL);
	CHECK(ask(6, "iaaa", "http", "a.test", 443, "p") != NULL);
	CHECK(ask(7, "iaaa", "https", "a.test", 443, GATE_PART_BUDGET) != NULL);
	CHECK(approvals_count(&api) == 7);
	approval_answer(&api, p, true, true);
	CHECK(allowed == (1U << 1 | 1U << 2) && denied == 0);
	CHECK(approvals_count(&api) == 5);
}

static void test_answer_for_one(void)
{
	struct approval *p;

	fresh();
	p = ask_usual(1, "iaaa");
	CHECK(ask_usual(2, "iaaa") != NULL);
	approval_answer(&api, p, false, false);
	CHECK(denied == 1U << 1 && allowed == 0);
	CHECK(approvals_count(&api) == 1);
}

/* Another answer is on its way to the log already. */
static void test_answer_leaves_who_is_decided_about(void)
{
	struct approval *p, *q;

	fresh();
	p = ask_usual(1, "iaaa");
	q = ask_usual(2, "iaaa");
	q->deciding = true;
	approval_answer(&api, p, true, true);
	CHECK(allowed == 1U << 1);
	q->deciding = false;
}

static void test_refused_at_once(void)
{
	fresh();
	CHECK(!ask_usual(1, "inone"));
	CHECK(!ask(2, "iaaa", "ftp", "a.test", 21, "p"));
	CHECK(!ask(3, "iaaa", "https", "A.test", 443, "p"));
	CHECK(!ask(4, "iaaa", "https", "a.test", 0, "p"));
	CHECK(denied == (1U << 1 | 1U << 2 | 1U << 3 | 1U << 4));
	CHECK(approvals_count(&api) == 0);
}

/* A gate worker that reconnects reports its waiting requests again. */
static void test_door_comes_back(void)
{
	struct approval *p;
	struct gate_msg m = { .kind = GATE_ASK,
			      .number = 1,
			      .id = "iaaa",
			      .method = "GET",
			      .scheme = "https",
			      .host = "a.test",
			      .path = "/",
			      .part = "p",
			      .rule = "",
			      .port = 443 };

	fresh();
	p = ask_usual(1, "iaaa");
	CHECK(ask_usual(2, "iaaa") != NULL);
	CHECK(approval_waits(p));
	approvals_lost(&link);
	CHECK(!approval_waits(p));
	m.shown = p->number;
	approval_asked(&link, &m);
	CHECK(approval_waits(p));
	approvals_settle(&link);
	CHECK(approvals_count(&api) == 1 && approvals_any(&link));
	/* A restarted gate worker counts from 1: the number means another
	 * request. */
	approvals_lost(&link);
	m.shown = 0;
	shown = 0;
	approval_asked(&link, &m);
	CHECK(shown > m.shown);
	m.number = 1;
	approval_gone(&link, &m);
	approvals_settle(&link);
	CHECK(approvals_count(&api) == 0 && !approvals_any(&link));
}

/* The api sends no answer to a gate worker that may have reused the number. */
static void test_answer_while_the_door_is_away(void)
{
	struct approval *p;

	fresh();
	p = ask_usual(1, "iaaa");
	approvals_lost(&link);
	approval_answer(&api, p, true, false);
	CHECK(allowed == 0 && denied == 0);
}

static void test_shown_to_people(void)
{
	const char *text;
	json_t *j, *entry;

	fresh();
	j = approval_json(&api, ask(1, "iaaa", "https", "a.test", 8443, "p"));
	text = json_string_value(json_object_get(j, "url"));
	CHECK_STR(text, "https://a.test:8443/a?token=1");
	CHECK_STR(json_string_value(json_object_get(j, "about")), "request");
	json_decref(j);
	j = approval_json(
		&api, ask(2, "iaaa", "https", "a.test", 443, GATE_PART_BUDGET));
	CHECK_STR(json_string_value(json_object_get(j, "about")), "budget");
	json_decref(j);
	/* The log gets no query. */
	entry = approval_entry(&api, ask_usual(3, "iaaa"));
	text = json_string_value(json_object_get(entry, "url"));
	CHECK_STR(text, "https://a.test/a");
	json_decref(entry);
}

int main(void)
{
	approvals_init(&api);
	test_answer_for_a_host();
	test_answer_for_one();
	test_answer_leaves_who_is_decided_about();
	test_refused_at_once();
	test_door_comes_back();
	test_answer_while_the_door_is_away();
	test_shown_to_people();
	fresh();
	return CHECK_DONE();
}
