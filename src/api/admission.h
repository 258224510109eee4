/*
 * How much may be promised. Sandboxes mostly wait, so their limits may add up
 * to more than the host has: by the factors overcommit_memory and
 * overcommit_cpus of the configuration, and not beyond. And whatever was
 * promised, nothing starts when the host itself is about to run out.
 */
#pragma once

#include <errno.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"

struct api;
struct spec;

/* The host has no room: 503. */
enum { ERR_HOST_FULL = ENOSR };

/* The limits of the users' sandboxes, added up. */
struct promise {
	uint64_t mem_bytes, cpus_milli;
};

struct host_load {
	uint64_t processors, mem_bytes, mem_available;
	double load;
};

struct admission {
	struct host_load host; /* of a few seconds ago */
	struct timer timer;
};

void host_load(struct host_load *h);
void admission_start(struct api *a);
/*
 * May the promise grow by what `to` has more than `from` (NULL: nothing)?
 * ERR_HOST_FULL says what is missing.
 */
int admit(struct api *a, const struct spec *from, const struct spec *to,
	  struct err *e) MUST_CHECK;
