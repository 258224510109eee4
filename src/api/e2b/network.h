/*
 * The network options of an E2B sandbox, in our words: rules of a policy, and
 * secrets for the headers that are added to its requests (network_secret.c).
 *
 *	allowOut	rules that allow; names on the web's own ports, as
 *			theirs; addresses and networks on any
 *	denyOut		rules that deny, behind these
 *	the rest	everything on the web, unless it is denied
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api/call.h"
#include "api/inner.h"
#include "base/err.h"
#include "policy/policy.h"
#include "spec/spec.h"

struct api;

enum {
	/* Of one host: as many as a door adds to one request. */
	E2B_HEADERS_MAX = 4,
	E2B_SECRET_CAP = 40,
	E2B_FIELD_CAP = NAME_CAP * 2,
};

/* A header of `rules`; `value` is part of the body it came in. */
struct e2b_header {
	char host[POLICY_HOST_CAP]; /* "x.test", "*.x.test" */
	char field[E2B_FIELD_CAP];
	json_t *value;
};

struct e2b_headers {
	struct e2b_header all[SPEC_SECRETS_MAX];
	size_t n;
};

/*
 * `network` is an object or NULL, `internet` allow_internet_access or NULL.
 * Lines of policy; an empty array: no way out. `web`: what is not said is
 * allowed (the configuration's e2b_internet). NULL with a message.
 */
json_t *e2b_network_rules(const json_t *network, const json_t *internet,
			  bool web, struct err *e);
/* The headers that `network` has rules for, the most special host first. */
int e2b_network_headers(const json_t *network, struct e2b_headers *out,
			struct err *e) MUST_CHECK;
/* What may be kept and shown of it: all but the values of headers. */
json_t *e2b_network_shown(const json_t *network);

/* --- all of it, for a create or a change --- */

struct e2b_network;
/* `e` NULL: "rules" and "secrets" are in the spec. */
typedef void e2b_network_fn(struct e2b_network *n, const struct err *e);

/* Zero-initialise; embedded in its owner. */
struct e2b_network {
	struct api *api; /* private, as the rest; NULL: not begun */
	struct identity who;
	char project[NAME_CAP];
	char request_id[64];
	json_t *spec;
	struct e2b_headers headers;
	char names[SPEC_SECRETS_MAX][E2B_SECRET_CAP];
	size_t n_made; /* secrets that are ours to remove */
	size_t at;     /* the header that is being sealed */
	/* The owner's: a sandbox is being given them. */
	bool applying;
	unsigned char key[32];
	struct inner_ask ask;
	e2b_network_fn *done;
};

/* What is asked for; valid during the call, but for `spec`. */
struct e2b_network_ask {
	const struct identity *who;
	const char *project; /* of the sandbox */
	const char *request_id;
	json_t *network;        /* or NULL */
	const json_t *internet; /* allow_internet_access, or NULL */
	json_t *spec;           /* the caller's; as it is until the end */
};

/*
 * Puts "rules" and "secrets" into the spec. Values of headers are sealed for
 * the project's door and wiped out of `network`: ask for e2b_network_shown()
 * before.
 *
 * 1: it is done, and `done` is not called; 0: it will be, from the loop; or an
 * error.
 */
int e2b_network_start(struct e2b_network *n, struct api *a,
		      const struct e2b_network_ask *q, e2b_network_fn *done,
		      struct err *e) MUST_CHECK;
/* A sandbox has the secrets now, and they end with it. */
void e2b_network_keep(struct e2b_network *n);
/* The end, at any time, also twice: secrets that nobody has are removed. */
void e2b_network_done(struct e2b_network *n);
