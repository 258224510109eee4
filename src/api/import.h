/*
 * An image on its way into the pool: the warden starts a worker, which unpacks
 * what it is fed behind walls of its own; we never look at a byte of it.
 *
 *	warden: import -> bytes to the worker, its lines to us -> "done"
 *	-> warden: commit -> registry (on disk) -> done()
 *
 * The worker has read an attacker's archive: what it says is bounded, checked
 * and cleaned before anybody sees it. Until the registry has the row, every
 * way out removes the volume.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/images.h"
#include "api/warden_link.h"
#include "base/buf.h"
#include "base/loop.h"

struct api;
struct http_conn;
struct import;

/* From the loop. After done() or failed() the import is over, and silent. */
struct import_ops {
	/* The worker is there: feed it. */
	void (*ready)(struct import *i);
	/* It takes more, or (import_feed() takes all) wants no more. */
	void (*room)(struct import *i);
	/* So much is unpacked; may be NULL. */
	void (*progress)(struct import *i, uint64_t entries, uint64_t bytes);
	/* It has its name; `i->image` is what it is. */
	void (*done)(struct import *i);
	/* EBADMSG: what it was fed with is no image. */
	void (*failed)(struct import *i, const struct err *e);
};

/* Embedded in its owner. */
struct import {
	struct api *api;
	const struct import_ops *ops;
	struct image image; /* id and name from the start on */

	/* Private. */
	struct warden_call call;
	struct io tar, words;
	struct buf line;
	bool fed;      /* there is no more to feed */
	bool unpacked; /* the worker has said "done" */
	bool open;
	uint64_t round; /* of the reconciliation that it began in */
};

/* May an image of this name be made now? */
int import_check(struct api *a, const char *name, struct err *e) MUST_CHECK;
/*
 * `from` says of what: kind, base, from; its id is made here. A failure is
 * returned before anything has begun.
 */
int import_begin(struct import *i, struct api *a, const struct import_ops *ops,
		 const char *name, const struct import_spec *from,
		 struct err *e) MUST_CHECK;
/* How much of it was taken; less than `n`: wait for room(). */
size_t import_feed(struct import *i, const void *p, size_t n);
/* That was all: it is committed when the worker has it unpacked. */
void import_fed(struct import *i);
/* Gives up, or lets go of what is over. Harmless when it is done. */
void import_end(struct import *i);

/* The answer to whoever asked for an image that could not be made. */
void import_refuse(struct api *a, struct http_conn *c, const struct err *e);
