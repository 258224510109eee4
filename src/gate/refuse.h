/*
 * What people and models are told: why something was refused, and what can be
 * done about it. Short plain text, and one word for programs.
 */
#pragma once

/* Where the gate looks inside, it speaks HTTP/1.1. */
#define HTTP2_REMEDY                                                           \
	"use HTTP/1.1, or allow the host as a whole ('allow * https://HOST', " \
	"no methods, paths or secrets)"

#include "gate/decide.h"
#include "gate/gate.h"

enum refusal_kind {
	REFUSE_POLICY,
	REFUSE_PERSON,
	REFUSE_BUDGET,
	REFUSE_SECRET,
	REFUSE_CANARY,
	REFUSE_HOST,    /* it names one host here and another there */
	REFUSE_ADDRESS, /* that is nobody's business */
	REFUSE_BAD,     /* malformed */
	REFUSE_METHOD,
	REFUSE_LARGE,
	REFUSE_SLOW, /* the sandbox */
	REFUSE_LOG,
	REFUSE_UPSTREAM,
	REFUSE_LATE, /* the server */
	REFUSALS
};

struct refusal {
	enum refusal_kind kind;
	int status; /* 0: that of the kind */
	char text[640];
};

void refusal_set(struct refusal *r, enum refusal_kind kind, const char *fmt,
		 ...) PRINTF_LIKE(3, 4);
/* "denied by policy research, line 4: ask an operator to allow ..." */
void refusal_policy(struct refusal *r, const struct box *b,
		    const struct request *q, const struct ruling *why);
/* What http_parse_request() said. */
void refusal_parse(struct refusal *r, int status, const char *why);
/* Why there is no way to a server (dial.h). */
void refusal_dial(struct refusal *r, const struct err *e);

/* The word, for the log and for programs. */
const char *refusal_word(const struct refusal *r);
int refusal_status(const struct refusal *r);
/* The answer. `close`: the connection ends with it. `method` NULL: not known;
 * an answer to HEAD has no body. */
void refusal_answer(const struct refusal *r, const char *method, bool close,
		    struct buf *out);

/* The gate's own pages: true when `path` is one, and its answer in `out`. */
bool page_answer(struct box *b, const char *method, const char *path,
		 bool close, struct buf *out);

/* "POST https://api.test:8443": what a rule would have to allow. */
void request_words(const struct request *q, struct buf *out);
