/*
 * A tool at work: the sandbox first, then native requests one after the other,
 * then an answer. Embedded as the first member of what the tool remembers.
 *
 * Whatever ends a call (an answer, a client that cancels) closes the requests
 * under way; memory goes at the end of the loop's turn, so that no callback up
 * the stack touches what is gone.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/inner.h"
#include "api/mcp/mcp.h"
#include "base/loop.h"

struct task;

typedef void task_fn(struct task *t);
typedef void task_answer_fn(struct task *t, int status, json_t *answer);

enum { TASK_ERROR_MAX = 64 * 1024 }; /* of an answer that is an error */

struct task {
	struct api *api;
	struct mcp_call *call;
	json_t *args; /* of the tool */
	char box[ID_CAP];
	/* Set by the tool, may be NULL: its own members go. */
	void (*done)(struct task *t);

	/* Private. */
	bool ended;
	task_fn *begin;
	struct inner_ask ask;
	task_answer_fn *answered;
	struct inner in;
	struct task_bytes *bytes;
	struct deferred gone;
};

/*
 * A tool's start(): `size` bytes of zeroes that begin with a struct task, and
 * begin() when there is a sandbox.
 */
void *task_new(struct mcp_call *c, const json_t *args, size_t size,
	       task_fn *begin);
/* The same without a sandbox: nothing is begun. */
void *task_bare(struct mcp_call *c, const json_t *args, size_t size);

/* Arguments; those that are missing are the default. */
const char *task_str(const struct task *t, const char *name, const char *def);
json_int_t task_int(const struct task *t, const char *name, json_int_t def);
bool task_bool(const struct task *t, const char *name, bool def);

/*
 * A native request, with a JSON body (the reference is taken; NULL: none), and
 * what becomes of it. A failure to ask is answered here.
 */
void task_ask(struct task *t, const char *method, const char *target,
	      json_t *body, task_answer_fn *answered);
/* "/v1/sandboxes/ID" and this behind it, which is not encoded. */
void task_target(const struct task *t, struct buf *out, const char *rest);
/* "?name=value" or "&name=value", encoded. */
void target_add(struct buf *target, const char *name, const char *value);

/*
 * An answer of bytes. data() hears of them if the status is 2xx, and may end
 * the task; ended() gets, if it is not, the error as JSON (or NULL).
 */
struct task_bytes {
	void (*data)(struct task *t, const char *p, size_t n);
	void (*ended)(struct task *t, int status, json_t *error, bool whole);
	uint64_t length; /* of the answer; UINT64_MAX: not known */
	struct buf error;
};
void task_fetch(struct task *t, const struct inner_request *q,
		struct task_bytes *b);
/* No more of it: ended() does not come. */
void task_fetch_close(struct task *t);

/* The end of a task without an answer, which was given or is not wanted.
 * Harmless twice. */
void task_end(struct task *t);
/* And with one. `content` is taken. */
void task_reply(struct task *t, json_t *content);
void task_text(struct task *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void task_error(struct task *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* A request that failed: what it said, and what to do about it. */
void task_refused(struct task *t, const char *what, int status,
		  const json_t *answer);
