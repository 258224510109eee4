/*
 * The answer to a request that takes long. A client that accepts
 * application/x-ndjson gets JSON lines: {"progress": {...}} now and then, and
 * last {"done": ...} or {"error": {...}}; any other gets one answer at the end.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/audit.h"
#include "base/err.h"

struct api;
struct http_conn;

/* Embedded in its owner. */
struct long_answer {
	struct api *api;
	struct http_conn *conn; /* NULL: answered, or gone */
	/* It is answered, and as good as gone. */
	void (*over)(struct long_answer *l);

	/* Private. */
	bool lines;
	uint64_t told_ms;
	json_t *answer;
	struct audit_wait wait;
};

/* From here on failures are lines, if lines are wanted. */
void long_start(struct long_answer *l, struct api *a, struct http_conn *c,
		void (*over)(struct long_answer *l));
/* Told only every now and then; takes the reference. `always`: now. */
void long_tell(struct long_answer *l, json_t *progress, bool always);
/* When the entry is on disk. Takes `answer`. */
void long_done(struct long_answer *l, const struct audit *entry, int status,
	       json_t *answer);
/* The same for what has its entry already. */
void long_end(struct long_answer *l, json_t *answer);
void long_fail(struct long_answer *l, const struct err *e);
/* The client is gone: nothing is answered, over() is not called. */
void long_gone(struct long_answer *l);
