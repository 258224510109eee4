/*
 * Who asks. Over the unix socket the kernel says it: root and the members of
 * the group are the operator. Everybody else shows a key, as
 * `Authorization: Bearer KEY` or `X-API-Key: KEY`. A key that is given counts,
 * also over the unix socket: it narrows what its bearer sees.
 */
#pragma once

#include "api/call.h"
#include "base/err.h"

enum { AUTH_PEERS = 256 };

/*
 * Wrong keys per address, in a table of fixed size: two addresses that share a
 * place share their luck. It only keeps the noise down; what keeps strangers
 * out is that a key cannot be guessed. The right key always passes.
 */
struct auth {
	struct {
		uint64_t peer;
		uint64_t full_ms; /* when all tries are back; boot time */
	} wrong[AUTH_PEERS];
};

/*
 * The identity, or EACCES (nobody), EPERM (not with this scope), EUSERS (too
 * many wrong keys).
 */
int auth_check(struct api *a, struct http_conn *c, const struct route *r,
	       struct identity *who, struct err *e) MUST_CHECK;
