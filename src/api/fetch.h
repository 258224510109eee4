/*
 * A worker that speaks to a registry for us (wire/fetch.h). What it says is a
 * stranger's: it is bounded and of the right form here, and its content is
 * compared with digests by whoever asked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/warden_link.h"
#include "base/buf.h"
#include "base/conf.h"
#include "base/loop.h"
#include "wire/fetch.h"

struct api;
struct fetch;

/* From the loop. After failed() it is over, and silent. */
struct fetch_ops {
	/* DATA, SENT and DONE of the request under way. */
	void (*said)(struct fetch *f, const struct fetch_record *r);
	/* All that was asked has left; may be NULL. */
	void (*room)(struct fetch *f);
	void (*failed)(struct fetch *f, const struct err *e);
};

/* Embedded in its owner. */
struct fetch {
	struct api *api;
	const struct fetch_ops *ops;

	/* Private. */
	struct warden_call call;
	struct io to, from;
	struct buf out, in;
	bool open;
};

/* Are the operator's lists of registries such lists? */
int fetch_check(const struct conf *c, struct err *e) MUST_CHECK;
/* EPERM: the operator does not allow this registry. */
int fetch_allowed(struct api *a, const char *host, struct err *e) MUST_CHECK;
/* The worker is started; requests may follow at once. */
void fetch_begin(struct fetch *f, struct api *a, const struct fetch_ops *ops,
		 const struct fetch_record *open);
void fetch_ask(struct fetch *f, const struct fetch_record *r);
/* Bytes that have not left yet. */
size_t fetch_queued(const struct fetch *f);
/* Harmless when it is over. */
void fetch_end(struct fetch *f);
