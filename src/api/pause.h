/*
 * Pauses: everything inside a sandbox stands still, in memory, until it is
 * resumed. The warden freezes and thaws; what it says is the truth also after
 * a restart of ours. It leaves us the freezer of what it froze: while nothing
 * is asked of it that might rely on the pause, a snapshot for one, we thaw
 * ourselves and tell it behind the answer. One that is suspended (restart.h)
 * is woken in the same way.
 *
 * Each change has any number of who wait for it, and one request to the
 * warden. A resume that is asked for while a pause is under way follows it,
 * and the other way round: nobody waits for ever, and nobody is told what is
 * not so at that moment.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/box_waiter.h"
#include "api/call.h"
#include "api/warden_link.h"
#include "base/err.h"
#include "base/list.h"
#include "http/server.h"

struct sandbox;

/* Why, and who wants it: for the log. */
struct pause_cause {
	const char *reason;  /* "asked", "idle", "timeout", "request" */
	struct identity who; /* with a name, or the daemon by itself */
	char request_id[HTTP_REQUEST_ID];
};

/* Embedded in who waits for a change; `e->code` 0: it is so. */
struct pause_waiter {
	struct list node;
	struct pause_cause cause;
	void (*fn)(struct pause_waiter *w, struct sandbox *s,
		   const struct err *e);
};

/* Of each sandbox. */
struct pause {
	struct warden_call call;
	struct box_waiter start; /* of one that is suspended */
	struct list pausers, wakers;
	struct pause_cause cause; /* of what is under way */
	uint64_t since_ms;        /* wall time; 0: not in this life of ours */
	uint64_t mem_bytes;       /* that it had then; 0: not known */
	int freezer_fd;           /* -1: only the warden can thaw it */
	bool unheard;             /* its agent is to be asked what it runs */
};

void pause_init(struct sandbox *s);
/* The cause of what a request asks for. */
void pause_because(struct pause_cause *to, const char *reason,
		   const struct identity *who, const struct http_conn *c);

/* Both hear of it from the loop or at once; the waiter may be taken out of its
 * list before. */
void box_pause(struct sandbox *s, struct pause_waiter *w);
void box_wake(struct sandbox *s, struct pause_waiter *w);
/* The same with nobody who waits. */
void box_pause_because(struct sandbox *s, const char *reason);
void box_wake_now(struct sandbox *s, const struct identity *who,
		  const char *request_id);
/* Would a request have to wait for it? */
bool box_sleeps(const struct sandbox *s);
/*
 * May something be sent to its agent? One that was paused a moment ago is
 * woken, and gets what is sent when it is.
 */
int box_usable(struct sandbox *s, const struct identity *who,
	       const char *request_id, struct err *e) MUST_CHECK;

/* The warden says, after a reconnection, whether it is paused. */
void pause_found(struct sandbox *s, bool paused);
/* restart.c changed its state: what was under way is void. */
void pause_moved(struct sandbox *s);
/* It is gone: whoever waits hears so. */
void pause_end(struct sandbox *s);
/* {"since", "memory_at_pause"} of one that is paused. */
json_t *pause_json(const struct sandbox *s);
