/*
 * The scribe: the only role that writes the log, and the only one that has its
 * key. It reads what the writers (the api, the gate's doors) left in their
 * spools as an attacker's bytes, adds what passes to the chain, and tells each
 * how far it is.
 */
#pragma once

#include "base/conf.h"
#include "base/list.h"
#include "base/loop.h"
#include "scribe/chain.h"
#include "scribe/keep.h"

enum {
	SYNC_MS = 500,         /* at most, from the log to the disk */
	SIGN_MS = 5000,        /* at most, from an entry to a signed one */
	RETRY_MS = 1000,       /* after a full disk */
	KEEP_MS = 3600000,     /* between looks for files that are too old */
	FEED_MAX = 256 * 1024, /* bytes of spools in one turn, shared ... */
	FEED_MIN = 32 * 1024,  /* ... but each has so many */
	API_CONNS_MAX = 4,
	GATE_CONNS_MAX = SCRIBE_WRITERS_MAX,
	FILES_MAX = 2 * (API_CONNS_MAX + GATE_CONNS_MAX) + 64,
};

/* A socket that writers come by. */
struct door {
	int fd; /* until it is watched */
	struct io io;
	unsigned n, max; /* connections */
};

struct scribe {
	struct conf conf;
	uid_t api_uid, gate_uid;
	struct door api, gate;
	int dir_fd;
	struct loop loop;
	struct io signal_io;
	struct list conns;
	struct chain chain;
	struct keep keep;
	struct timer feed, sync, sign, prune;
	bool stopping;
};

/* setup.c: as root, then no longer root. */
int scribe_set_up(struct scribe *s, struct err *e) MUST_CHECK;
int scribe_drop_privileges(const struct scribe *s, struct err *e) MUST_CHECK;

/* serve.c */
int serve_start(struct scribe *s, struct err *e) MUST_CHECK;
/* Takes what is there, signs it, brings it to the disk. */
void serve_stop(struct scribe *s);
