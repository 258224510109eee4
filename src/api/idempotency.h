/*
 * Creates that may be repeated. A client that names its create with
 * `Idempotency-Key: KEY` and hears no answer asks again with the same key and
 * body, and gets the answer of the first time: also when we crashed in
 * between, because the answer is kept in the commit that makes the sandbox
 * survive us. Keys are a project's own and count for a day.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "registry/registry.h"

struct api;
struct http_conn;
struct identity;

enum {
	REPLAY_KEY_CAP = 128 + 1,
	REPLAYS_MAX = 2000, /* of a project; the oldest are forgotten */
};

/* A create under way; embedded, zero-initialise. */
struct replay {
	struct list node;
	bool given; /* a key came with the request */
	char key[REPLAY_KEY_CAP], project[NAME_CAP];
	unsigned char digest[REGISTRY_HASH];
};

void replays_init(struct api *a);
/*
 * Looks at a request with its body: true when it was answered here, by the
 * answer of the first time or by an error. Else replay_done() follows, and
 * before it replay_keep() when it worked.
 */
bool replay_answer(struct api *a, struct http_conn *c,
		   const struct identity *who, const char *body, size_t n,
		   struct replay *r);
/* In the transaction of what the answer is about. */
int replay_keep(struct api *a, const struct replay *r, const char *answer,
		struct err *e) MUST_CHECK;
/* Harmless when nothing was begun. */
void replay_done(struct replay *r);
/* Forgets those that are too old or too many. */
void replays_prune(struct api *a);
