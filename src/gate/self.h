/*
 * Port 49983 of a sandbox that was made over E2B's API: programs of theirs ask
 * there, from inside, whether it is well and what its environment is.
 *
 *	GET /health	204
 *	GET /envs	a JSON object, for who has the sandbox's token
 *
 * Nothing of it leaves the sandbox, and all of it was said by the api.
 */
#pragma once

#include "gate/gate.h"
#include "http/parse.h"

/* GATE_SELF. */
int self_apply(struct gate *g, const struct gate_msg *m) MUST_CHECK;
void self_forget(struct box *b);
void self_answer(const struct box *b, const struct http_head *h, bool close,
		 struct buf *out);
