/*
 * Snapshots that are taken by themselves before a command is started, if the
 * spec of the sandbox says so ("auto-snapshot": "exec"). The command waits for
 * its snapshot and is not started without it; of each sandbox the newest
 * "snapshot-keep" ones stay.
 */
#pragma once

#include <stdbool.h>

#include "api/call.h"
#include "api/snapshots.h"
#include "http/server.h"

struct sandbox;

/* Embedded in who waits. Zero-initialise. */
struct auto_snapshot {
	struct snapshot_take take;
	struct api *api; /* NULL: nothing is under way */
	struct identity who;
	char request_id[HTTP_REQUEST_ID];
	/* Called once, later; `e->code` 0: there is one. */
	void (*done)(struct auto_snapshot *w, const struct err *e);
};

/* Does a command in this sandbox have to wait for one? */
bool auto_snapshot_wanted(const struct sandbox *s);
int auto_snapshot_take(struct auto_snapshot *w, struct sandbox *s,
		       const struct identity *who, const char *request_id,
		       void (*done)(struct auto_snapshot *w,
				    const struct err *e),
		       struct err *e) MUST_CHECK;
/* `done` is not called any more. Harmless when nothing is under way. */
void auto_snapshot_leave(struct auto_snapshot *w);

/*
 * The same for a request: true when it has to wait, and call->route->fn is
 * called later, or it was answered with why there is no snapshot.
 */
bool auto_snapshot_hold(struct api *a, struct http_conn *c,
			const struct call *call, struct sandbox *s);
