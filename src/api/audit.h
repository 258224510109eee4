/*
 * What goes into the log (and so into the event stream). An entry is safe from
 * a crash of any role when the call returns, so it is made before the answer.
 *
 * Types are "object.verb": "sandbox.create", "process.exit", "file.write",
 * "api.call". `data` is small; secrets, contents and environments have no
 * place in it.
 *
 * Entries are left in a spool (audit/spool.h), which the scribe reads: nobody
 * waits for it. When it stays away until the spool is full, requests that
 * change something are refused; nothing is lost in silence.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "audit/writer.h"
#include "base/err.h"

struct api;
struct ended;
struct http_conn;
struct identity;
struct sandbox;

struct audit {
	const char *type;
	const struct sandbox *box;  /* or NULL */
	const struct ended *ended;  /* the same of one that has ended */
	const struct identity *who; /* NULL: the daemon by itself */
	const char *request_id;     /* or NULL */
	json_t *data;               /* an object or NULL; taken */
};

void audit_add(struct api *a, const struct audit *entry);

/*
 * The same for what must survive a loss of power: `fn` is called once, from
 * the loop, when the entry is on disk (`e->code` 0), or with LOG_AWAY when
 * that takes too long; the entry stays then.
 */
void audit_add_durable(struct api *a, const struct audit *entry,
		       struct audit_wait *w,
		       void (*fn)(struct audit_wait *w, const struct err *e));
/*
 * The answer to a request whose doing must survive a loss of power: leaves
 * when the entry is on disk. Takes `answer`; NULL: one without a body. When
 * the log does not answer in time, the client is told so (but for a route of
 * ROUTE_ANYWAY); what was done stays done.
 */
void audit_reply(struct api *a, struct http_conn *c, const struct audit *entry,
		 int status, json_t *answer);

/* The number that the log's next entry is likely to get. */
uint64_t audit_next(const struct api *a);
/* The number of the record that the next audit_add() makes. */
uint64_t audit_record(const struct api *a);

/* May something be done that has to be written down? Else LOG_AWAY. */
int audit_ready(struct api *a, struct err *e) MUST_CHECK;
/* The weaker question: does the disk take a record at all? It may be the last
 * one that the spool has room for. */
int audit_writable(const struct api *a, struct err *e) MUST_CHECK;

/* One request, for the log's "api.call"; kept in http_note(). */
struct call;
void audit_call(struct http_conn *c, const struct call *call);
/* ... and the sandbox that it turned out to be about. */
void audit_call_box(struct http_conn *c, const struct sandbox *s);
/* Who asks, until the answer. */
const struct identity *audit_who(struct http_conn *c);
/* http_server's on_answer; `ctx` is the struct api. */
void audit_answer(struct http_conn *c, int status, void *ctx);

/* Private to audit.c, but for what the log's state is asked for. */
struct audit_log {
	struct log_writer w;
	char path[CONF_PATH + 32]; /* of the spool */
	uint64_t first;            /* record of this run */
	uint64_t missed;           /* entries that could not be written */
	bool failing;              /* the last write failed */
	bool reads;      /* requests that change nothing are written */
	unsigned denied; /* budget for refusals, and those beyond */
	uint64_t denied_ms, denied_left_out;
};

int audit_start(struct api *a, struct err *e) MUST_CHECK;
/* From here on there is a scribe. */
void audit_connect(struct api *a);
void audit_stop(struct api *a);
/* {"up", "error", "entries", "spool_bytes"} for GET /v1/host. */
json_t *audit_json(struct api *a);
