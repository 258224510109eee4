/* HTTP on a connection, between exchange.c and answer.c. */
#pragma once

#include "gate/request.h"
#include "http/chunked.h"

enum state {
	X_HEAD,   /* of a request: it comes */
	X_GATHER, /* its body, because somebody wants it as a whole */
	X_PASS,   /* somebody is asked */
	X_RUN,    /* request and answer are under way */
	X_LAST,   /* our own answer is written */
	X_LINGER, /* nothing is said any more, so that it is heard */
};

struct exchange {
	enum state state;
	bool running, again; /* see run() */
	bool muted, outside_muted;
	bool reused; /* the connection outside is an old one */

	/* The request. */
	struct http_scan scan;
	struct http_head head;
	struct buf in, up, body, target;
	struct http_chunked in_chunks;
	uint64_t in_left;
	bool in_done;   /* its end was read */
	bool up_broken; /* the server does not take it */
	struct scan look;
	size_t gather_max, held;

	/* The answer. */
	struct http_scan from_scan;
	struct http_head answer;
	struct buf from, down;
	struct http_chunked from_chunks;
	uint64_t from_left;
	unsigned continues;
	bool answered, from_done, chunked, close;
	uint64_t lingered;
};

/* Nothing more can be said about it. */
void exchange_cut(struct flow *f, const char *why);
/* An answer of our own, if there was none yet. */
void exchange_refuse(struct flow *f, const struct refusal *r);
void exchange_refuse_with(struct flow *f, enum refusal_kind kind,
			  const char *text);
void exchange_watch(struct flow *f);

/*
 * answer.c: what came from the server (x->from) goes on its way; no more comes
 * from it. False: the flow is over, or is something else now.
 */
bool answer_take(struct flow *f);
bool answer_ended(struct flow *f, int error);
