/*
 * What sandboxes use. Each has a meter: the warden is asked for figures now
 * and then, as often as its limits need it, and at least once a minute. Those
 * of the moment are for people, what they add up to goes to the ledger of the
 * registry: many rows in one commit, every half minute, and within a second
 * for a sandbox that has ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/warden_link.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"

struct api;
struct sandbox;

struct meter {
	struct timer timer;
	struct warden_call call;
	struct sandbox_use last; /* cpu_us is the sum */
	uint64_t at_ms;          /* boot time up to which it was added up */
	uint64_t mem_byte_s, disk_byte_s;
	uint64_t before_us; /* processor time of its earlier lives */
	/* For who is idle: processor time at a moment. */
	uint64_t mark_us, mark_ms;
	bool fresh; /* `last` is of this life of ours */
	bool dirty; /* the ledger has something else */
	bool stopped;
};

struct ledger {
	struct timer flush, upkeep;
	struct list ended; /* rows that wait for a commit */
	unsigned n_ended;
};

void ledger_init(struct api *a);
/* When the sandboxes have been loaded. */
int ledger_start(struct api *a, struct err *e) MUST_CHECK;
/* Writes what waits. */
void ledger_flush(struct api *a);

/* It runs, for a user. */
void meter_start(struct sandbox *s);
/* The same for one of an earlier life. */
void meter_resume(struct sandbox *s);
/* New figures of it. */
void meter_add(struct sandbox *s, const struct sandbox_use *u);
/* Something of it is for the ledger, which has time. */
void meter_touch(struct sandbox *s);
/* Its limits have changed: when is the next look? */
void meter_plan(struct sandbox *s);
/* It has no processes any more, and lives; `last` may be NULL. */
void meter_stop(struct sandbox *s, const struct sandbox_use *last);
/* It is gone; `last` may be NULL. */
void meter_end(struct sandbox *s, const struct sandbox_use *last);
