/*
 * After every (re)connection to the warden: what it has and what we believe
 * are made the same. See docs/architecture.md, "Who knows what".
 */
#pragma once

#include <stdint.h>

#include "api/warden_link.h"

struct api;

struct reconcile {
	uint64_t round; /* marks what was found in this one */
	struct warden_call call;
	unsigned killed, dropped;
};

/* warden_link's on_up and on_ended; `ctx` is the struct api. */
void reconcile_start(void *ctx);
/* The pool is ours (pool_id.h): begins the walk. */
void reconcile_walk(struct api *a);
void reconcile_ended(void *ctx, const struct last_use *last,
		     const struct err *e);
/* In main.c: one is complete, clients may come. */
void api_serve(struct api *a);
