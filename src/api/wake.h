/*
 * Requests that need a sandbox which is paused: held, with their bodies still
 * at the client, until it runs again, then handled as if it always had.
 */
#pragma once

#include <stdbool.h>

#include "api/call.h"

struct sandbox;

enum {
	HELD_MAX = 1024, /* requests that wait at once */
	HELD_BOX_MAX = 256,
};

/*
 * Does the sandbox have to be woken first? Then the request is not its
 * handler's yet: call->route->fn is called when it runs, or the request is
 * answered with what went wrong.
 */
bool wake_hold(struct api *a, struct http_conn *c, const struct call *call,
	       struct sandbox *s);
