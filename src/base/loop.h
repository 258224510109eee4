/*
 * The event loop of every long-lived process: one thread, one epoll.
 *
 * `struct io` and `struct timer` are embedded in their owners; a callback
 * finds its owner with container_of(). A callback may close and remove any
 * io or timer, its own or another's: events already fetched for it are
 * dropped. Memory is freed with loop_defer(), at the end of the turn, so that
 * no caller up the stack touches a freed object.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/list.h"

struct io;
struct timer;
typedef void io_fn(struct io *io, uint32_t events);
typedef void timer_fn(struct timer *t);

struct io {
	int fd; /* -1 when unused; the owner closes it */
	uint32_t events;
	io_fn *fn;
	bool armed; /* known to epoll */
};

struct timer {
	uint64_t at_ms; /* CLOCK_BOOTTIME */
	timer_fn *fn;
	unsigned slot; /* place in the heap + 1; 0 when not set */
};

/* Embedded in objects that are freed at the end of a turn. */
struct deferred {
	struct list node;
	void (*fn)(struct deferred *d);
};

struct loop {
	int epoll_fd;
	bool stop;
	struct epoll_event *batch;
	int batch_n, batch_i;
	struct timer **heap;
	unsigned heap_n, heap_cap;
	struct list deferred;
	/* Called once per turn, before waiting; may be NULL. */
	void (*before_wait)(struct loop *l);
};

int loop_init(struct loop *l) MUST_CHECK;
void loop_done(struct loop *l);
/* Runs until `stop` is set. 0 or -errno of epoll_wait. */
int loop_run(struct loop *l);

/* Starts watching; `fd` stays the owner's. */
int io_add(struct loop *l, struct io *io, int fd, uint32_t events,
	   io_fn *fn) MUST_CHECK;
/* Changes what is watched; 0 keeps the descriptor but hears only errors. */
int io_set(struct loop *l, struct io *io, uint32_t events);
/* Stops watching; does not close. Harmless when not watched. */
void io_del(struct loop *l, struct io *io);
/* io_del() and close(); fd becomes -1. */
void io_close(struct loop *l, struct io *io);

void timer_set(struct loop *l, struct timer *t, uint64_t in_ms, timer_fn *fn);
void timer_del(struct loop *l, struct timer *t);

void loop_defer(struct loop *l, struct deferred *d,
		void (*fn)(struct deferred *d));
