/*
 * The pools of the api role that requests of all projects take from. Each is
 * shared by projects as share.h says; pools.c has their sizes.
 */
#pragma once

#include "api/share.h"

struct pools {
	struct pool drive_puts;
	struct pool held;     /* requests that wait for a sandbox */
	struct pool relays;   /* upgraded connections */
	struct pool ports;    /* connections into sandboxes */
	struct pool inner;    /* requests of adapters */
	struct pool surveys;  /* looks at what all sandboxes use */
	struct pool readers;  /* of the log */
	struct pool ps_bytes; /* of lists of processes */
	struct pool output;   /* bytes kept of what commands print */
	struct pool archives; /* for builds of templates, on their way */
	struct pool volumes;  /* that the E2B API looks at */
	struct pool sessions; /* of MCP, as the rest */
	struct pool bodies;   /* bytes of messages on their way */
	struct pool messages; /* bytes of messages with calls under way */
};

void pools_init(struct pools *p);
