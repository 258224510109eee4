/* The worker's status lines; their form is in wire/worker.h. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct report {
	int fd;
	uint64_t last_ms; /* of the last progress line */
};

/* At most ten lines a second; calls in between cost a look at the clock. */
int report_progress(struct report *r, uint64_t entries, uint64_t bytes,
		    struct err *e) MUST_CHECK;
/* `json` is ASCII without line ends, of at most OCI_RUN_MAX bytes. */
int report_config(struct report *r, const char *json, struct err *e) MUST_CHECK;
int report_done(struct report *r, uint64_t entries, uint64_t bytes,
		struct err *e) MUST_CHECK;
/* What is not printable ASCII becomes '?': names in it are an attacker's. */
void report_error(struct report *r, const struct err *why);
