/*
 * The writing end of the log: entries with a number, each with the hash of
 * the one before, in files that only grow.
 *
 * Entries are put together in memory (chain_add, chain_say), written by one
 * write(2) for many (chain_write), and brought to the disk (chain_sync). When
 * a write fails, everything since the last one that worked is forgotten: the
 * spool still has it.
 *
 * Every file starts with a signed entry (log.start), behind which others name
 * the writers (log.writers), and signed ones (log.head) follow at intervals.
 * The file `head` has the last signed entry that is on disk: what is missing at
 * the end of the log is noticed by it.
 */
#pragma once

#include "audit/entry.h"
#include "base/buf.h"
#include "base/err.h"
#include "scribe/sign.h"
#include "scribe/writers.h"

enum {
	CHAIN_SIGN_EACH = 1000, /* entries without a signed one between them */
};

/* The state behind an entry. */
struct chain_pos {
	uint64_t seq;
	char hash[HASH_HEX + 1];
};

struct chain {
	int dir_fd;
	uint64_t segment_bytes; /* a file that has as many is full */
	struct sign_key key;

	int fd;           /* the file that grows; -1: the next entry makes it */
	uint64_t segment; /* its name */
	uint64_t size;
	struct chain_pos now;     /* with what is in `out` */
	struct chain_pos written; /* in the file */
	struct chain_pos synced;  /* on disk */
	struct writers writers;
	struct buf out;
	bool broken;     /* a sync failed: nobody knows what is on disk */
	unsigned loose;  /* entries behind the last signed one */
	struct buf head; /* the last signed entry */
	bool head_due;   /* ... is not in the file of that name */
	char note[128];  /* for the next log.start: JSON members, or "" */
};

/*
 * Takes up the log in `dir_fd`. What the last writer left half done is cut
 * off, and an entry says so. What somebody else has damaged is left as it is:
 * the log goes on in a new file.
 */
int chain_open(struct chain *c, int dir_fd, uint64_t segment_bytes,
	       struct err *e) MUST_CHECK;
void chain_done(struct chain *c);

/* Begins a file (log.start), unless there is one to go on with. */
void chain_start(struct chain *c);
/* A record of a writer whose body entry_read_body() found good. */
void chain_add(struct chain *c, struct writer *w, const char *body, size_t n,
	       uint64_t number);
/* An entry of our own, signed; `data` is members of an object, or "". */
void chain_say(struct chain *c, const char *type, const char *data);
/* A signed entry over all that came before, if there is any such. */
void chain_sign(struct chain *c);
int chain_write(struct chain *c, struct err *e) MUST_CHECK;
/* Is it time for another file? chain_sync() ends this one then. */
static inline bool chain_is_full(const struct chain *c)
{
	return c->size >= c->segment_bytes;
}
/* A failure is final (`broken`): the next one reads what is really there. */
int chain_sync(struct chain *c, struct err *e) MUST_CHECK;
