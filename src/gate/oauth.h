/*
 * Tokens of OAuth 2. The door asks the token endpoint itself (RFC 6749,
 * section 6), a while before the old one ends, once for all who wait. The
 * value of such a secret is lines:
 *
 *	client secret			may be empty
 *	refresh token			empty or missing: the client's own
 *	code, verifier, redirect	from `secret connect`, used once
 *	token				one that nobody renews
 *
 * A new refresh token is sealed like the value was, and told to the api.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

struct oauth;
struct opened;
struct project;

struct oauth *oauth_new(struct opened *o);
/* Who waits hears that it is over. */
void oauth_free(struct oauth *a);

/* The token, or NULL: it must be fetched. */
const char *oauth_token(const struct oauth *a);

/* Embedded in who waits. Zero-initialise. */
struct oauth_wait {
	struct list node;
	/* Once, perhaps before oauth_fetch() returns; `e->code` 0:
	 * oauth_token() has it. */
	void (*fn)(struct oauth_wait *w, const struct err *e);
};
void oauth_fetch(struct oauth *a, struct oauth_wait *w);
void oauth_cancel(struct oauth_wait *w);
/* GATE_CODE of such a secret: can tokens be had? False: it is another kind. */
bool oauth_check(struct project *p, const char *name, uint64_t number);
