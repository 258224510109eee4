/*
 * Model APIs and what they cost: the file `models` of the configuration.
 *
 *	# host HOST SHAPE
 *	host  api.example.com  openai
 *	# model PATTERN in PRICE out PRICE, per million tokens
 *	model small-*  in 0.15 out 0.60
 *
 * A `*` in PATTERN is any run of characters; the first that matches counts.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/policy.h"

enum {
	PRICES_TEXT_MAX = 256 * 1024,
	PRICES_MAX = 1024,
	PRICES_HOSTS_MAX = 256,
};

struct prices;

/* Before the keeper gives up the files; its doors inherit it. A file that is
 * missing is an empty one. */
int prices_read(struct prices **out, const char *path,
		struct err *e) MUST_CHECK;
int prices_parse(struct prices **out, const char *text, size_t n,
		 struct err *e) MUST_CHECK;
void prices_free(struct prices *p);

/* The entry of a host, or NULL. `p` may be NULL: nothing is known. */
const struct host_model *prices_host(const struct prices *p, const char *host);
/* What so many tokens cost, in millionths; false: nobody knows. Of a model
 * without a name ("") it is as much as of the dearest. */
bool prices_cost(const struct prices *p, const char *model, uint64_t in,
		 uint64_t out, uint64_t *micro);
