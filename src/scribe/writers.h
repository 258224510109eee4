/*
 * Who writes to the log, and how far each of them is: the numbers of their
 * records in what is put together, in the file and on disk. The api is always
 * the first. A log that is taken up again knows them all: every file names
 * those that were there before it (log.writers), and entries name themselves.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "audit/entry.h"
#include "base/buf.h"
#include "wire/scribe.h"

struct writer {
	char name[SCRIBE_NAME]; /* "": a free place */
	uint64_t now, written, synced;
	uint64_t seq; /* of its last entry: who was silent for longest */
	bool busy;    /* has a connection: stays */
};

struct writers {
	struct writer v[SCRIBE_WRITERS_MAX];
	unsigned n; /* places that were ever used */
};

void writers_init(struct writers *w);
static inline struct writer *writers_api(struct writers *w)
{
	return &w->v[0];
}
struct writer *writers_find(struct writers *w, const char *name, size_t n);
/*
 * The writer of this name, a new one if need be. When there is no room the one
 * that was silent for longest is forgotten: its name is in `gone` ("": none).
 * NULL: all of them are busy.
 */
struct writer *writers_get(struct writers *w, const char *name,
			   char gone[SCRIBE_NAME]);

void writers_written(struct writers *w);
void writers_synced(struct writers *w);
/* Nothing was written: back to what is in the file. */
void writers_forget(struct writers *w);

/*
 * The next of them, as many as fit an entry, as members of its data; `at`
 * starts at 0. False: there are no more.
 */
bool writers_list(const struct writers *w, unsigned *at, struct buf *out);
/* Whose record an entry of the log is. */
void writers_learn(struct writers *w, const struct entry *e);
/* Does the scribe speak of writers in it? Then what it says. */
bool writers_are_told(const struct entry *e);
void writers_hear(struct writers *w, const struct entry *e);
