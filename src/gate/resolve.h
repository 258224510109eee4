/*
 * Names, for real: asked of the host's resolvers after a decision, for that
 * one connection. Nothing is searched for: a name is looked up as it is.
 *
 * c-ares makes and reads the messages. Sending them is done here: its own
 * channels open files, which a door has not, and without /dev/urandom their
 * numbers can be guessed. Each question has a socket of its own, so a forged
 * answer has to guess its port as well as its number.
 */
#pragma once

#include "gate/gate.h"

enum {
	RESOLVE_FOUND = 8,       /* addresses of a name that are looked at */
	RESOLVE_MAX = 256,       /* names at once */
	RESOLVE_SERVERS = 3,     /* as libc */
	RESOLVE_CACHED = 256,    /* names */
	RESOLVE_KEEP_MS = 30000, /* at most, or as long as they say */
};

struct server {
	struct in6_addr address;
	uint16_t port;
};

struct host_line {
	struct in6_addr address;
	char *host; /* owned */
};

/* What a resolver was told; resolve_conf.c. */
struct resolve_conf {
	struct server servers[RESOLVE_SERVERS];
	unsigned n_servers;
	struct host_line *hosts; /* owned */
	unsigned n_hosts;
};

/* `setting`: "ADDRESS[:PORT], ...", or "" for what resolv.conf says. The
 * files' contents may be NULL; lines that nobody understands are left out. */
int resolve_conf_read(struct resolve_conf *c, const char *setting,
		      const char *resolv, const char *hosts,
		      struct err *e) MUST_CHECK;
void resolve_conf_done(struct resolve_conf *c);

/* The contents of the host's resolv.conf and hosts; again when they changed.
 * The error is of the setting `resolver`. */
int resolver_set(struct gate *g, const char *resolv, const char *hosts,
		 struct err *e) MUST_CHECK;
void resolver_free(struct resolver *r);

struct resolve;
/* `e` has a code: ENOENT no such name, ETIMEDOUT, EIO (in words). */
typedef void resolve_fn(struct resolve *q, const struct err *e);

struct question {
	struct resolve *query;
	int type;
	bool done, tcp;
	uint16_t id;
	unsigned tries;
	struct io io;
	struct timer timer;
	unsigned char *out; /* with two bytes of length in front, for TCP */
	size_t out_n, sent;
	struct buf in;
};

/* One name. Zero-initialise. */
struct resolve {
	struct in6_addr found[RESOLVE_FOUND];
	unsigned n_found;

	/* Private. */
	struct resolver *resolver;
	struct list node;
	resolve_fn *fn;
	char host[POLICY_HOST_CAP], box[ID_CAP];
	struct question question[2];
	unsigned ttl_s;
	bool refused; /* a server said that there is no such name */
	struct timer timer;
};

/* 1: it is known already; 0: `fn` is called once, from the loop; or -errno.
 * `box`: whose sandbox asks; one does not learn what another looked up. */
int resolve_start(struct resolve *q, struct resolver *r, const char *box,
		  const char *host, resolve_fn *fn, struct err *e) MUST_CHECK;
/* Silent. Harmless when it is over, or never began. */
void resolve_cancel(struct resolve *q);
