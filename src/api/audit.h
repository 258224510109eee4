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

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"

struct api;
struct http_conn;
struct identity;
struct sandbox;

/* The code of an error: the log does not take more, or does not answer. */
enum { LOG_AWAY = ENOLINK };

struct audit {
	const char *type;
	const struct sandbox *box;  /* or NULL */
	const struct identity *who; /* NULL: the daemon by itself */
	const char *request_id;     /* or NULL */
	json_t *data;               /* an object or NULL; taken */
};

void audit_add(struct api *a, const struct audit *entry);

/* Embedded in who waits for the disk. Zero-initialise. */
struct audit_wait {
	struct list node;
	uint64_t number, until_ms;
	bool busy;
	void (*fn)(struct audit_wait *w, const struct err *e);
};

/*
 * The same for what must survive a loss of power: `fn` is called once, from
 * the loop, when the entry is on disk (`e->code` 0), or with LOG_AWAY when
 * that takes too long; the entry stays then.
 */
void audit_add_durable(struct api *a, const struct audit *entry,
		       struct audit_wait *w,
		       void (*fn)(struct audit_wait *w, const struct err *e));
/* `fn` is not called any more. Harmless when nothing is waited for. */
void audit_cancel(struct audit_wait *w);

/*
 * The answer to a request whose doing must survive a loss of power: leaves
 * when the entry is on disk. Takes `answer`; NULL: one without a body. When
 * the log does not answer in time, the client is told so; what was done stays
 * done.
 */
void audit_reply(struct api *a, struct http_conn *c, const struct audit *entry,
		 int status, json_t *answer);

/* The number that the log's next entry is likely to get. */
uint64_t audit_next(const struct api *a);

/* May something be done that has to be written down? Else LOG_AWAY. */
int audit_ready(struct api *a, struct err *e) MUST_CHECK;

/* One request, for the log's "api.call"; kept in http_note(). */
struct call;
void audit_call(struct http_conn *c, const struct call *call);
/* ... and the sandbox that it turned out to be about. */
void audit_call_box(struct http_conn *c, const struct sandbox *s);
/* Who asks, until the answer. */
const struct identity *audit_who(struct http_conn *c);
/* http_server's on_answer; `ctx` is the struct api. */
void audit_answer(struct http_conn *c, int status, void *ctx);

/* Private to audit*.c. */
struct audit_log {
	char path[CONF_PATH + 32];
	int spool_fd, read_fd;  /* read_fd is for the scribe */
	uint64_t size;          /* of the spool */
	uint64_t size_max;      /* from here on requests are refused */
	uint64_t next;          /* number of the next record */
	uint64_t mark, mark_at; /* a record and where it begins; 0: none */
	uint64_t floor;  /* records below it were in the log at the start */
	uint64_t missed; /* entries that could not be written */
	bool failing;    /* the last write failed */
	bool reads;      /* requests that change nothing are written */
	unsigned denied; /* budget for refusals, and those beyond */
	uint64_t denied_ms, denied_left_out;

	struct io io; /* the scribe */
	struct timer poke, retry, give_up;
	struct list waits;
	unsigned pause_ms, stuck;
	bool up, told, sync_due;
	uint64_t written, synced; /* records */
	uint64_t seq, segment; /* the log's last entry and file; 0: not known */
};

/* audit_spool.c */
int spool_open(struct audit_log *l, const char *state_dir,
	       struct err *e) MUST_CHECK;
/* The record's number, or -errno. */
int64_t spool_add(struct audit_log *l, const char *body, size_t n) MUST_CHECK;
/* Another file in its place, without what is on disk in the log. */
int spool_shrink(struct audit_log *l) MUST_CHECK;
/* Cuts off what is no record. */
int spool_check(struct audit_log *l, struct err *e) MUST_CHECK;
void spool_close(struct audit_log *l);

/* audit_link.c */
void audit_link_start(struct api *a);
/* There is something new. */
void audit_link_poke(struct api *a, bool sync);
void audit_link_wait(struct api *a, struct audit_wait *w);
/* Says goodbye: what was added last is announced. */
void audit_link_stop(struct api *a);

int audit_start(struct api *a, struct err *e) MUST_CHECK;
void audit_stop(struct api *a);
/* {"up", "entries", "spool_bytes"} for GET /v1/host. */
json_t *audit_json(const struct api *a);
