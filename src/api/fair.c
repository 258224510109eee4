#include "api/fair.h"

#include <stdlib.h>

#include "api/api.h"
#include "base/clock.h"

enum { SLICE_US = 500 };

struct fair_key {
	struct list node;
	struct list waiting; /* struct fair_request, in the order they came */
	char name[WHO_CAP];  /* see identity */
	uint64_t used_us;    /* in this turn of the loop */
};

struct fair_request {
	struct list node;
	struct api *api;
	struct http_conn *conn;
	struct call call;
	handler_fn *fn;
};

static struct fair_key *key_of(struct fair *f, const char *name)
{
	struct list *pos, *tmp;
	struct fair_key *k;

	list_each (pos, tmp, &f->keys) {
		k = container_of(pos, struct fair_key, node);
		if (strcmp(k->name, name) == 0)
			return k;
	}
	k = xcalloc(1, sizeof(*k));
	list_init(&k->waiting);
	snprintf(k->name, sizeof(k->name), "%s", name);
	list_add(&f->keys, &k->node);
	return k;
}

/* A new turn begins: everybody has a whole slice. */
static void on_turn(struct loop *l)
{
	struct api *a = container_of(l, struct api, loop);
	struct list *pos, *tmp;

	list_each (pos, tmp, &a->fair.keys) {
		struct fair_key *k = container_of(pos, struct fair_key, node);

		k->used_us = 0;
		if (!list_empty(&k->waiting))
			continue;
		list_del(&k->node);
		free(k);
	}
}

void fair_init(struct api *a)
{
	list_init(&a->fair.keys);
	a->loop.before_wait = on_turn;
}

static void run_now(struct api *a, struct http_conn *c, const struct call *call,
		    handler_fn *fn, struct fair_key *k)
{
	uint64_t start = clock_boot_us();

	fn(a, c, call);
	k->used_us += clock_boot_us() - start;
}

/* Runs what waits of one key, as long as its slice lasts. */
static void run_waiting(struct fair_key *k)
{
	while (!list_empty(&k->waiting) && k->used_us < SLICE_US) {
		struct fair_request *q = container_of(
			k->waiting.next, struct fair_request, node);

		list_del(&q->node);
		http_own(q->conn, NULL, NULL);
		run_now(q->api, q->conn, &q->call, q->fn, k);
		free(q);
	}
}

static void on_next(struct timer *t)
{
	struct api *a = container_of(t, struct api, fair.next);
	struct list *pos, *tmp;
	bool more = false;

	list_each (pos, tmp, &a->fair.keys) {
		struct fair_key *k = container_of(pos, struct fair_key, node);

		run_waiting(k);
		more |= !list_empty(&k->waiting);
	}
	if (more)
		timer_set(&a->loop, t, 0, on_next);
}

static void on_gone(struct http_conn *c, void *owner)
{
	struct fair_request *q = owner;

	(void)c;
	list_del(&q->node);
	free(q);
}

void fair_run(struct api *a, struct http_conn *c, const struct call *call,
	      handler_fn *fn)
{
	struct fair_key *k = key_of(&a->fair, call->who.name);
	struct fair_request *q;

	if (k->used_us < SLICE_US && list_empty(&k->waiting)) {
		run_now(a, c, call, fn, k);
		return;
	}
	q = xcalloc(1, sizeof(*q));
	q->api = a;
	q->conn = c;
	q->call = *call;
	q->fn = fn;
	list_add(&k->waiting, &q->node);
	http_own(c, q, on_gone);
	if (a->fair.next.slot == 0)
		timer_set(&a->loop, &a->fair.next, 0, on_next);
}
