/*
 * May another sandbox start? The limits of sandboxes are caps and not
 * reservations: a sandbox that sleeps costs next to nothing, so limits may add
 * up to any sum. The memory that the host really has left decides: below
 * memory_reserve nothing starts.
 *
 * The API reads that figure every few seconds, and sooner after many starts.
 *
 * Places (max_sandboxes) are shared: while there are other projects, one may
 * have three quarters of them; or as many as project_sandboxes says. Suspended
 * sandboxes take none.
 */
#pragma once

#include <errno.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"

struct api;

/* The host has no room: 503. */
enum { ERR_HOST_FULL = ENOSR };

struct host_load {
	uint64_t processors, mem_bytes, mem_available;
	double load;
};

struct admission {
	struct host_load host; /* of a few seconds ago */
	unsigned started;      /* sandboxes since then */
	struct timer timer;
};

void host_load(struct host_load *h);
void admission_start(struct api *a);
/*
 * May `n` more sandboxes of this project start? EMFILE: the host or the project
 * has its number of them. ERR_HOST_FULL: memory is short. Counts them as
 * started.
 */
int admit(struct api *a, const char *project, unsigned n,
	  struct err *e) MUST_CHECK;
/* The same for processes of our own, which take no place. */
int admit_memory(struct api *a, unsigned n, struct err *e) MUST_CHECK;
