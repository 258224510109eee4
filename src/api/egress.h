/*
 * What went through the doors, as they count it: shown with a sandbox, kept in
 * the registry, added up for the whole of the host since our start.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "wire/gate.h"

enum { LEAVING_MAX = 64 };

struct api;
struct buf;
struct sandbox;
struct usage_filter;

/* Of a sandbox. */
struct egress {
	struct gate_count count;
	bool known; /* something is there to be shown */
	bool dirty; /* the registry has something else */
};

/* New figures of its door. */
void egress_count(struct sandbox *s, const struct gate_count *c);
/* What an earlier life of ours has written. */
void egress_resume(struct sandbox *s);
/* Writes what has changed; in the transaction of the ledger. */
int egress_save(struct sandbox *s, struct err *e) MUST_CHECK;
/* Sandboxes of a door that have ended, and of which it has not said the last
 * word yet; the oldest are forgotten. */
struct egress_ends {
	struct list all;
	unsigned n;
};
void egress_leave(struct egress_ends *x, const struct sandbox *s);
void egress_ends_done(struct egress_ends *x);
void egress_last(struct api *a, struct egress_ends *x, const char *id,
		 const struct gate_count *c);
/* {"requests", "denied", "up_bytes"...} */
json_t *egress_json(const struct gate_count *c);
void egress_metrics(const struct api *a, struct buf *out);
