/*
 * Clients of sandboxes: HTTP connections that were upgraded to frames.
 *
 * An exec may carry many channels and leaves its processes running when it
 * goes. A run ends with its first process, and the sandbox with it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/auto_snapshot.h"
#include "api/call.h"
#include "api/endpoint.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/product.h"
#include "http/server.h"

struct api;
struct sandbox;

#define WIRE_UPGRADE PRODUCT "-wire/1"

enum {
	PING_MAX = 64,             /* bytes */
	PINGS_MAX = 16,            /* unanswered, per client */
	CLIENT_SLACK = 256 * 1024, /* control frames queued for a client */
	/* The most that waits for one, however many channels it has. */
	CLIENT_MAX = 256 * 2 * WIRE_WINDOW,
};

struct relay {
	struct list node; /* of the agent's clients */
	struct api *api;
	struct sandbox *box; /* NULL: it is gone, and so are we soon */
	struct endpoint ep;
	struct list chans;
	struct share *place;
	unsigned n_chans, n_pings;
	size_t owed; /* queued when the last channel ended; 0: it was taken */
	struct buf spawn; /* a request that comes in several frames */
	uint32_t spawn_no;
	struct buf later; /* one that waits for a snapshot */
	uint32_t later_no;
	struct auto_snapshot auto_snapshot;
	struct identity who;
	char request_id[HTTP_REQUEST_ID];
	bool run;
	bool finishing; /* flush, close our side, wait for theirs */
	struct timer linger;
	struct deferred gone;
};

/*
 * Answers the request with 101 and relays from then on. On failure the
 * connection is finished and a `run`'s sandbox is the caller's to kill.
 */
int relay_start(struct api *a, struct http_conn *c, struct sandbox *s,
		const struct identity *who, bool run, struct err *e) MUST_CHECK;
/* Its agent takes frames again. */
void relay_resume(struct relay *r);
/* The sandbox is gone: its clients follow when they have heard. */
void relays_finish(struct sandbox *s);
