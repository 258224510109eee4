#include "api/idempotency.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"

enum { REPLAY_MS = 24 * 3600 * 1000 };

void replays_init(struct api *a)
{
	list_init(&a->replays);
}

static uint64_t oldest_ms(void)
{
	uint64_t now = clock_wall_ms();

	return now > REPLAY_MS ? now - REPLAY_MS : 0;
}

static bool is_key(const char *s)
{
	size_t i;

	for (i = 0; s[i]; i++)
		if (s[i] < '!' || s[i] > '~')
			return false;
	return i > 0 && i < REPLAY_KEY_CAP;
}

static const struct replay *under_way(struct api *a, const struct replay *r)
{
	struct list *n, *next;

	list_each (n, next, &a->replays) {
		const struct replay *o = container_of(n, struct replay, node);

		if (strcmp(o->key, r->key) == 0 &&
		    strcmp(o->project, r->project) == 0)
			return o;
	}
	return NULL;
}

/* What was kept; owned. */
struct kept {
	unsigned char digest[REGISTRY_HASH];
	char *answer;
};

static void take_kept(void *arg, const struct replay_row *row)
{
	struct kept *k = arg;

	memcpy(k->digest, row->digest, sizeof(k->digest));
	k->answer = xstrdup(row->answer);
}

static bool same(const unsigned char *a, const unsigned char *b)
{
	return memcmp(a, b, REGISTRY_HASH) == 0;
}

static void mismatch(struct api *a, struct http_conn *c)
{
	reply_error(a, c, 422, "idempotency_mismatch",
		    "this Idempotency-Key was used with another body");
}

/* In the registry? */
static bool answer_again(struct api *a, struct http_conn *c,
			 const struct replay *r)
{
	static const struct http_field again[] = {
		{ "Idempotent-Replay", "true" }, { 0 }
	};
	struct kept k = { 0 };
	struct err e = { 0 };
	int rc = registry_replay_get(&a->registry, r->project, r->key,
				     oldest_ms(), take_kept, &k, &e);

	if (rc < 0)
		reply_err(a, c, &e);
	else if (rc == 1 && same(k.digest, r->digest))
		reply_text(a, c, 201, again, k.answer);
	else if (rc == 1)
		mismatch(a, c);
	free(k.answer);
	return rc != 0;
}

bool replay_answer(struct api *a, struct http_conn *c,
		   const struct identity *who, const char *body, size_t n,
		   struct replay *r)
{
	const char *key = http_header(http_request(c), "Idempotency-Key");
	const struct replay *other;

	if (!key)
		return false;
	if (!is_key(key)) {
		reply_error(a, c, 400, "bad_request",
			    "Idempotency-Key: not 1 to 128 visible ASCII "
			    "characters");
		return true;
	}
	memcpy(r->key, key, strlen(key) + 1);
	memcpy(r->project, who_project(who), strlen(who_project(who)) + 1);
	SHA256((const unsigned char *)body, n, r->digest);
	other = under_way(a, r);
	if (other && same(other->digest, r->digest)) {
		reply_error(a, c, 409, "busy",
			    "the create with this Idempotency-Key is under "
			    "way: ask again in a moment");
		return true;
	}
	if (other) {
		mismatch(a, c);
		return true;
	}
	if (answer_again(a, c, r))
		return true;
	r->given = true;
	list_add(&a->replays, &r->node);
	return false;
}

int replay_keep(struct api *a, const struct replay *r, const char *answer,
		struct err *e)
{
	struct replay_row row = { .project = r->project,
				  .key = r->key,
				  .answer = answer,
				  .created_ms = clock_wall_ms() };

	memcpy(row.digest, r->digest, sizeof(row.digest));
	return registry_replay_add(&a->registry, &row, e);
}

void replay_done(struct replay *r)
{
	if (r->given)
		list_del(&r->node);
	r->given = false;
}

void replays_prune(struct api *a)
{
	struct err e = { 0 };

	if (registry_replay_prune(&a->registry, oldest_ms(), REPLAYS_MAX, &e) <
	    0)
		log_err("%s, ignoring", e.msg);
}
