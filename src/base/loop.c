#include "base/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

enum { BATCH = 64 };

int loop_init(struct loop *l)
{
	*l = (struct loop){ .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
	if (l->epoll_fd < 0)
		return -errno;
	l->batch = xcalloc(BATCH, sizeof(*l->batch));
	list_init(&l->deferred);
	return 0;
}

static void run_deferred(struct loop *l)
{
	while (!list_empty(&l->deferred)) {
		struct deferred *d =
			container_of(l->deferred.next, struct deferred, node);

		list_del(&d->node);
		d->fn(d);
	}
}

void loop_done(struct loop *l)
{
	run_deferred(l);
	if (l->epoll_fd >= 0)
		close(l->epoll_fd);
	free(l->batch);
	free(l->heap);
	l->epoll_fd = -1;
	l->batch = NULL;
	l->heap = NULL;
}

int io_add(struct loop *l, struct io *io, int fd, uint32_t events, io_fn *fn)
{
	struct epoll_event ev = { .events = events, .data.ptr = io };

	io->fd = fd;
	io->fn = fn;
	io->events = events;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	io->armed = true;
	return 0;
}

int io_set(struct loop *l, struct io *io, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = io };

	if (!io->armed || io->events == events)
		return 0;
	io->events = events;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, io->fd, &ev) < 0)
		return -errno;
	return 0;
}

void io_del(struct loop *l, struct io *io)
{
	int i;

	if (!io->armed)
		return;
	io->armed = false;
	epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
	for (i = l->batch_i; i < l->batch_n; i++)
		if (l->batch[i].data.ptr == io)
			l->batch[i].data.ptr = NULL;
}

void io_close(struct loop *l, struct io *io)
{
	io_del(l, io);
	if (io->fd >= 0)
		close(io->fd);
	io->fd = -1;
}

/* The timers are a binary heap; slot i has its children at 2i+1 and 2i+2. */
static void heap_put(struct loop *l, unsigned i, struct timer *t)
{
	l->heap[i] = t;
	t->slot = i + 1;
}

static void heap_up(struct loop *l, unsigned i)
{
	struct timer *t = l->heap[i];

	while (i > 0 && l->heap[(i - 1) / 2]->at_ms > t->at_ms) {
		heap_put(l, i, l->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(l, i, t);
}

static void heap_down(struct loop *l, unsigned i)
{
	struct timer *t = l->heap[i];
	unsigned c;

	while ((c = 2 * i + 1) < l->heap_n) {
		if (c + 1 < l->heap_n &&
		    l->heap[c + 1]->at_ms < l->heap[c]->at_ms)
			c++;
		if (l->heap[c]->at_ms >= t->at_ms)
			break;
		heap_put(l, i, l->heap[c]);
		i = c;
	}
	heap_put(l, i, t);
}

void timer_set(struct loop *l, struct timer *t, uint64_t in_ms, timer_fn *fn)
{
	timer_del(l, t);
	if (l->heap_n == l->heap_cap) {
		l->heap_cap = l->heap_cap ? 2 * l->heap_cap : 16;
		l->heap = xrealloc(l->heap, l->heap_cap * sizeof(*l->heap));
	}
	t->at_ms = clock_boot_ms() + in_ms;
	t->fn = fn;
	l->heap[l->heap_n++] = t;
	heap_up(l, l->heap_n - 1);
}

void timer_del(struct loop *l, struct timer *t)
{
	unsigned i;
	struct timer *last;

	if (t->slot == 0)
		return;
	i = t->slot - 1;
	t->slot = 0;
	last = l->heap[--l->heap_n];
	if (last == t)
		return;
	heap_put(l, i, last);
	heap_up(l, i);
	heap_down(l, last->slot - 1);
}

static int wait_ms(struct loop *l)
{
	uint64_t now, left;

	if (l->heap_n == 0)
		return -1;
	now = clock_boot_ms();
	if (l->heap[0]->at_ms <= now)
		return 0;
	left = l->heap[0]->at_ms - now;
	return left > INT_MAX ? INT_MAX : (int)left;
}

static void run_timers(struct loop *l)
{
	uint64_t now;

	if (l->heap_n == 0)
		return;
	now = clock_boot_ms();
	while (l->heap_n > 0 && l->heap[0]->at_ms <= now) {
		struct timer *t = l->heap[0];

		timer_del(l, t);
		t->fn(t);
	}
}

void loop_defer(struct loop *l, struct deferred *d,
		void (*fn)(struct deferred *d))
{
	d->fn = fn;
	list_add(&l->deferred, &d->node);
}

int loop_run(struct loop *l)
{
	while (!l->stop) {
		if (l->before_wait)
			l->before_wait(l);
		run_deferred(l);
		l->batch_i = 0;
		l->batch_n =
			epoll_wait(l->epoll_fd, l->batch, BATCH, wait_ms(l));
		if (l->batch_n < 0) {
			l->batch_n = 0;
			if (errno != EINTR)
				return -errno;
		}
		while (l->batch_i < l->batch_n) {
			struct epoll_event *ev = &l->batch[l->batch_i++];
			struct io *io = ev->data.ptr;

			if (io)
				io->fn(io, ev->events);
		}
		l->batch_n = 0;
		run_timers(l);
		run_deferred(l);
	}
	return 0;
}
