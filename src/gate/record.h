/*
 * What goes into the log. An entry is in the spool before the function
 * returns: what it tells of may happen then. While there is no scribe, or the
 * spool is full, the answer is an error and nothing may leave.
 *
 * Denials beyond a few per second and sandbox are counted and told together.
 */
#pragma once

#include "gate/decide.h"
#include "gate/gate.h"

/*
 * Where a door finds the scribe. The scribe listens in run_dir/roles/log, a
 * directory of root and the gate's group (0750; who comes first makes it); the
 * keeper mounts it here in its empty root, and nothing else of the host.
 */
#define GATE_LOG_DIR "/log"

struct egress {
	struct box *box;
	uint64_t number;  /* of the request, unique in this log: set here */
	const char *kind; /* "http", "https", "tunnel", "tcp", "dns" */
	const struct request *request;
	const struct ruling *ruling;
	const char *const *secrets; /* names; may be NULL */
	unsigned n_secrets;
};

/* `spool_fd` is taken: a file that can be read and written, empty or as the
 * last door of this name left it. Needs of the filter: pread64, pwrite64,
 * fstat, ftruncate, fallocate, socket(AF_UNIX), connect, getsockopt, sendmsg,
 * recvmsg, shutdown. */
int recorder_new(struct recorder **out, struct gate *g, int spool_fd,
		 struct err *e) MUST_CHECK;
void recorder_free(struct recorder *r);
/* May anything leave? Else `e` (LOG_AWAY in words). */
int record_ready(struct gate *g, struct err *e) MUST_CHECK;
/* "egress.request": decided, about to leave; "egress.denied". */
int record_request(struct gate *g, struct egress *x, struct err *e) MUST_CHECK;
void record_denied(struct gate *g, const struct egress *x, const char *why);
/* "egress.done". `status` 0: none. */
struct egress_end {
	int status;
	uint64_t up_bytes, down_bytes, ms;
	const char *failure; /* or NULL */
};
void record_done(struct gate *g, const struct egress *x,
		 const struct egress_end *end);
/* Anything else: "approval.ask", "secret.echo", "canary.found",
 * "budget.over"... `json` is an object without its braces: "\"name\":\"x\"".
 * EAGAIN: the sandbox (`b` may be NULL: none) causes too many of them. */
int record_event(struct gate *g, const struct box *b, const char *type,
		 const char *json, struct err *e) MUST_CHECK;
/* Appends a JSON string with its quotes. */
void record_string(struct buf *out, const char *s);
