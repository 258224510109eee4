/*
 * Requests that wait for a person. Bounded: ASKS_OF_BOX of a sandbox, beyond
 * that it is a denial. No answer in time is one, too.
 */
#pragma once

#include "gate/decide.h"
#include "gate/gate.h"

enum { ASKS_OF_BOX = 32, ASKS_MAX = 1024 };

struct ask;
struct ask_words;
typedef void ask_fn(struct ask *a, bool allowed, const char *why);

/* Embedded in who waits; zero-initialise. */
struct ask {
	struct list node;
	struct box *box;
	uint64_t number, shown;
	struct timer timer;
	ask_fn *fn;
	struct ask_words *words; /* NULL: nothing is asked */
};

/* Subject of an approval. */
struct ask_about {
	const struct request *request;
	const struct ruling *ruling;
	const char *target; /* path and query as they are sent; or NULL */
	const char *over;   /* which budget is used up, in words; or NULL */
};

/* `fn` is called once, from the loop, not after ask_cancel(). Written to the
 * log, told to the api, posted to `ask_webhook`. -errno: refused at once. */
int ask_start(struct ask *a, struct box *b, const struct ask_about *about,
	      ask_fn *fn, struct err *e) MUST_CHECK;
void ask_cancel(struct ask *a);
/* GATE_ANSWER. */
void ask_answer(struct gate *g, uint64_t number, bool allow);
/* GATE_SHOWN. */
void ask_shown(struct gate *g, uint64_t number, uint64_t shown);
/* The api is there again: GATE_ASK for each that waits; before GATE_READY. */
void asks_tell(struct gate *g);
