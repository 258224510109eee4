/* Idempotency keys: creates under way and creates that were answered, of two
 * projects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/idempotency.h"
#include "api/reply.h"
#include "base/clock.h"
#include "check.h"

static struct api api;
static struct http_head head;
static int status;
static char word[64];

/* The one row of the database. */
static struct replay_row row;
static uint64_t asked_after_ms;

const struct http_head *http_request(const struct http_conn *c)
{
	(void)c;
	return &head;
}

void reply_error(struct api *a, struct http_conn *c, int code, const char *w,
		 const char *msg)
{
	(void)a;
	(void)c;
	(void)msg;
	status = code;
	snprintf(word, sizeof(word), "%s", w);
}

void reply_err(struct api *a, struct http_conn *c, const struct err *e)
{
	reply_error(a, c, 500, "error", e->msg);
}

void reply_text(struct api *a, struct http_conn *c, int code,
		const struct http_field *extra, const char *json)
{
	(void)extra;
	reply_error(a, c, code, json, "");
}

int registry_replay_get(struct registry *r, const char *project,
			const char *key, uint64_t after_ms,
			void (*fn)(void *arg, const struct replay_row *row),
			void *arg, struct err *e)
{
	(void)r;
	(void)e;
	asked_after_ms = after_ms;
	if (!row.key || strcmp(row.project, project) != 0 ||
	    strcmp(row.key, key) != 0)
		return 0;
	fn(arg, &row);
	return 1;
}

int registry_replay_add(struct registry *r, const struct replay_row *add,
			struct err *e)
{
	(void)r;
	(void)e;
	row = *add;
	return 0;
}

int registry_replay_prune(struct registry *r, uint64_t before_ms, unsigned keep,
			  struct err *e)
{
	(void)r;
	(void)before_ms;
	(void)keep;
	(void)e;
	return 0;
}

static bool answered(const char *project, const char *key, const char *body,
		     struct replay *r)
{
	struct identity who = { 0 };

	snprintf(who.project, sizeof(who.project), "%s", project);
	head.n_fields = key != NULL;
	head.field[0] = (struct http_field){ "Idempotency-Key", key };
	*r = (struct replay){ 0 };
	status = 0;
	*word = '\0';
	return replay_answer(&api, NULL, &who, body, strlen(body), r);
}

static void test_under_way(void)
{
	struct replay one, two, three;

	CHECK(!answered("p", "k", "body", &one));
	CHECK(answered("p", "k", "body", &two) && status == 409);
	CHECK_STR(word, "busy");
	CHECK(answered("p", "k", "other", &two) && status == 422);
	CHECK(!answered("p", "k2", "body", &two));
	/* The same key of another project is another create. */
	CHECK(!answered("q", "k", "body", &three));
	replay_done(&three);
	replay_done(&two);
	replay_done(&one);
	replay_done(&one);
	CHECK(!answered("p", "k", "body", &one));
	replay_done(&one);
}

static void test_kept(void)
{
	struct replay r, again;
	struct err e = { 0 };
	uint64_t now = clock_wall_ms();

	CHECK(!answered("p", "k", "body", &r));
	CHECK(replay_keep(&api, &r, "the answer", &e) == 0);
	CHECK(row.created_ms >= now);
	CHECK(answered("p", "k", "body", &again) && status == 409);
	list_del(&r.node); /* the create ended, its row stays */
	r.given = false;
	CHECK(answered("p", "k", "body", &again) && status == 201);
	CHECK_STR(word, "the answer");
	CHECK(asked_after_ms + 86400000 >= now);
	CHECK(answered("p", "k", "another", &again) && status == 422);
	CHECK(!answered("q", "k", "body", &again));
	replay_done(&again);
	row.key = NULL;
}

static void test_keys(void)
{
	char longest[130];
	struct replay r;

	CHECK(!answered("p", NULL, "body", &r) && !r.given);
	CHECK(answered("p", "", "body", &r) && status == 400);
	CHECK(answered("p", "a b", "body", &r) && status == 400);
	CHECK(answered("p", "\xc3\xa4", "body", &r) && status == 400);
	memset(longest, 'k', sizeof(longest));
	longest[129] = '\0';
	CHECK(answered("p", longest, "body", &r) && status == 400);
	longest[128] = '\0';
	CHECK(!answered("p", longest, "body", &r));
	replay_done(&r);
}

int main(void)
{
	replays_init(&api);
	test_under_way();
	test_kept();
	test_keys();
	return CHECK_DONE();
}
