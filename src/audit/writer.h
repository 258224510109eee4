/*
 * A writer of the log: a spool (audit/spool_file.h), and the connection to the
 * scribe, which is told how long the spool is, at most once in a while, and
 * tells what is written and what is on disk. While it is away the spool grows;
 * nothing here waits.
 *
 * The struct is embedded in its owner. Entries are in the form of
 * audit/entry.h.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "audit/spool_file.h"
#include "base/conf.h"
#include "base/list.h"
#include "base/loop.h"
#include "wire/scribe.h"

/* The code of an error: the log does not take more, or does not answer. */
enum { LOG_AWAY = ENOLINK };

/* Zero-initialise; set what comes first. */
struct log_writer {
	struct loop *loop;
	char name[SCRIBE_NAME]; /* as the scribe knows it */
	char socket[CONF_PATH + 32];
	struct spool_file spool;
	unsigned poke_ms; /* from an entry to the scribe's hearing of it */
	/*
	 * The log's number counts when the spool does not know of it (a writer
	 * that cannot read the log). Else it is a reason to start over.
	 */
	bool adopt;
	/* The scribe has spoken; `grown`: there are new entries in the log. */
	void (*on_ack)(struct log_writer *w, bool grown);

	struct io io;
	struct timer poke, retry, give_up;
	struct list waits;
	unsigned pause_ms, stuck;
	bool up;   /* it has answered */
	bool told; /* that it is away */
	bool sync_due;
	uint64_t written, synced; /* records */
	uint64_t seq, segment; /* the log's last entry and file; 0: not known */
	uint64_t late,
		late_ms; /* a record that is waited for, and since when */
};

/* Embedded in who waits for the disk. Zero-initialise. */
struct audit_wait {
	struct list node;
	uint64_t number, until_ms;
	bool busy;
	void (*fn)(struct audit_wait *w, const struct err *e);
};

/* The spool's descriptors are set. As spool_file_open(). */
int writer_open(struct log_writer *w, uint64_t in_log,
		struct err *e) MUST_CHECK;
void writer_connect(struct log_writer *w);
/* Says goodbye: what was added last is announced. */
void writer_stop(struct log_writer *w);

/* The record's number, or -errno. writer_poke() says that there is one. */
static inline int64_t writer_add(struct log_writer *w, const char *body,
				 size_t n)
{
	return spool_file_add(&w->spool, body, n);
}
void writer_poke(struct log_writer *w, bool sync);
/*
 * `fn` is called once, from the loop, when record `number` is on disk
 * (`e->code` 0), or with LOG_AWAY when that takes too long.
 */
void writer_wait(struct log_writer *w, struct audit_wait *wait);
/* `fn` is not called any more. Harmless when nothing is waited for. */
void audit_cancel(struct audit_wait *w);

/* Is the scribe there, and does it take what it is given? */
bool writer_is_heard(const struct log_writer *w);
