/*
 * One HTTP request on its way through: where it wants to go, and what passes
 * of its head and of the answer's. Heads are made anew from what was parsed,
 * never copied. No I/O here.
 */
#pragma once

#include "gate/flow.h"
#include "http/parse.h"

/* True when it may be decided on; else `r`. `own`: it is for us. */
bool request_check(struct flow *f, const struct http_head *h, bool *own,
		   struct refusal *r);

/* The target as it is sent. */
void request_target(const struct http_head *h, struct buf *out);
/* A request to be upgraded to a WebSocket. */
bool request_upgrades(const struct http_head *h);
/* The head as the server sees it. `body_n`: the body's length where it is held
 * as a whole; -1: as the sandbox frames it. */
void request_head(const struct pass *p, bool identity, int64_t body_n,
		  struct buf *out);
/* The head as the sandbox sees it; `chunked`: how the body follows. */
void answer_head(struct pass *p, const struct http_head *a, bool chunked,
		 bool close, struct buf *out);
