/*
 * The connection to the warden. Calls are sent without waiting and answered
 * in any order; while the warden is away they wait, for WARDEN_WAIT_MS.
 *
 * A call is embedded in its owner, who fills `req.op` and its union and keeps
 * the memory until the answer came or the call was cancelled.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fd.h"
#include "base/loop.h"
#include "wire/warden.h"

enum { WARDEN_WAIT_MS = 5000 };
/* The code of an answer that is not the warden's: it is not there. */
enum { WARDEN_AWAY = EHOSTDOWN };

struct warden_call;
/*
 * Called once. Descriptors that came with the answer are in `fds`; what is
 * not taken out with take_fd() is closed afterwards.
 */
typedef void warden_fn(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX]);

/* Zero-initialise. */
struct warden_call {
	struct list node;
	struct warden_req req;
	warden_fn *fn;
	uint64_t until_ms; /* while it waits */
	bool busy;
	bool early; /* may be sent before the link is ready */
};

struct warden_link {
	/* Set before warden_start(). */
	void (*on_up)(void *ctx); /* connected: answer with warden_ready() */
	void (*on_ended)(void *ctx, const struct last_use *last,
			 const struct err *e);
	void *ctx;

	/* Private. */
	struct loop *loop;
	char path[108];
	struct io io;
	struct list waiting, sent, soon;
	struct deferred turn_over;
	struct timer retry, give_up;
	struct warden_call hello;
	uint64_t seq;
	unsigned unanswered; /* cancelled ones, too */
	unsigned pause_ms;
	bool up, ready, told;
	bool was_ready; /* at least once */
	const char *run_dir;
	bool turn_over_set;
};

/* `run_dir` is kept, not copied. */
int warden_start(struct warden_link *w, struct loop *l, const char *run_dir,
		 struct err *e) MUST_CHECK;
void warden_done(struct warden_link *w);
/* From on_up() on: lets the calls through that were not `early`. */
void warden_ready(struct warden_link *w);
static inline bool warden_is_up(const struct warden_link *w)
{
	return w->ready;
}

/* Has it said why it cannot start? */
bool warden_failed(const struct warden_link *w);
/* WARDEN_AWAY with the warden's own last error, if there is one. */
int warden_explain(const struct warden_link *w, struct err *e);

void warden_ask(struct warden_link *w, struct warden_call *c, warden_fn *fn);
/* The answer, if it comes, is dropped. Harmless when nothing was asked. */
void warden_cancel(struct warden_call *c);
/* One call whose failure is only worth a line in the log. */
void warden_chore(struct warden_link *w, enum warden_op op, const char *id);
/*
 * The same at the end of the loop's turn, so that nobody who is to be answered
 * in this one waits for it. What is asked meanwhile still comes after it.
 */
void warden_chore_soon(struct warden_link *w, enum warden_op op,
		       const char *id);
/* Nothing that it was asked is under way. */
bool warden_is_quiet(const struct warden_link *w);
/*
 * The pipes of a worker that the warden has started: what it is told and what
 * it says. Both have their `fn`, and `to` the events it hears first. Takes the
 * descriptors out of `fds`. When it fails, what was not added has none.
 */
int worker_pipes(struct loop *l, int fds[FD_PASS_MAX], struct io *to,
		 struct io *from) MUST_CHECK;
/* Fills the request of a call that names only an id. */
void warden_req_id(struct warden_call *c, enum warden_op op, const char *id);
