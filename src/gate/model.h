/*
 * One exchange with a model API: what it may cost, as its request says, and
 * what it did cost, as its answer says.
 */
#pragma once

#include <stddef.h>

#include "gate/prices.h"
#include "gate/usage.h"

struct model_use {
	enum model_shape shape;
	struct usage_reader request, answer;
	uint64_t request_bytes, answer_bytes;
	bool cut; /* nobody saw the end of the answer */
};

struct model_tokens {
	uint64_t in, out;
};

/* At most, as far as the request was read. */
struct model_tokens model_most(const struct model_use *m);
/*
 * At the end; `status` is the answer's, 0: there was none. An answer that was
 * cut off before it said what it used may have cost the most. One that went
 * well and does not say so has cost what its request allowed, or as many
 * tokens as its bytes may be, and at least one for each event.
 */
struct model_tokens model_used(const struct model_use *m, int status);
void model_request(struct model_use *m, const void *p, size_t n);
void model_answer(struct model_use *m, const void *p, size_t n);
