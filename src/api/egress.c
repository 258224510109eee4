#include "api/egress.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/product.h"
#include "registry/gate.h"

/* The numbers of a gate_count, and what they are called. */
static const struct figure {
	const char *name, *help;
	size_t at;
} figures[] = {
#define FIGURE(field, help) { #field, help, offsetof(struct gate_count, field) }
	FIGURE(requests, "requests and connections that left sandboxes"),
	FIGURE(denied, "requests and connections that were denied"),
	FIGURE(up_bytes, "bytes from sandboxes to servers"),
	FIGURE(down_bytes, "bytes from servers to sandboxes"),
	FIGURE(tokens_in, "tokens that models were given"),
	FIGURE(tokens_out, "tokens that models gave"),
	FIGURE(cost_micro, "what that cost, in millionths"),
};

static uint64_t get(const struct gate_count *c, const struct figure *f)
{
	return *(const uint64_t *)((const char *)c + f->at);
}

static void add(struct gate_count *c, const struct figure *f, uint64_t v)
{
	*(uint64_t *)((char *)c + f->at) += v;
}

/* Counters of a life never fall: what does is not believed. */
static bool raise_counts(struct api *a, struct gate_count *have,
			 const struct gate_count *c)
{
	bool any = false;
	size_t i;

	for (i = 0; i < ARRAY_LEN(figures); i++) {
		uint64_t old = get(have, &figures[i]);
		uint64_t now = get(c, &figures[i]);

		if (now <= old || now > INT64_MAX)
			continue;
		add(have, &figures[i], now - old);
		add(&a->egress, &figures[i], now - old);
		any = true;
	}
	return any;
}

void egress_count(struct sandbox *s, const struct gate_count *c)
{
	if (!raise_counts(s->api, &s->egress.count, c))
		return;
	s->egress.known = s->egress.dirty = true;
	meter_touch(s);
}

void egress_resume(struct sandbox *s)
{
	struct egress_row row;
	struct err e = { 0 };
	int r = registry_egress_get(&s->api->registry, s->id, &row, &e);

	if (r < 0)
		log_err("sandbox=%s %s, ignoring", s->id, e.msg);
	if (r <= 0)
		return;
	s->egress.known = true;
	s->egress.count = (struct gate_count){ row.requests,  row.denied,
					       row.up_bytes,  row.down_bytes,
					       row.tokens_in, row.tokens_out,
					       row.cost_micro };
}

static int put(struct api *a, const char *id, const char *project,
	       const struct gate_count *c, struct err *e)
{
	const struct egress_row row = { .sandbox = id,
					.project = project,
					.requests = c->requests,
					.denied = c->denied,
					.up_bytes = c->up_bytes,
					.down_bytes = c->down_bytes,
					.tokens_in = c->tokens_in,
					.tokens_out = c->tokens_out,
					.cost_micro = c->cost_micro,
					.updated_ms = clock_wall_ms() };

	return registry_egress_put(&a->registry, &row, e);
}

int egress_save(struct sandbox *s, struct err *e)
{
	int r;

	if (!s->egress.dirty)
		return 0;
	r = put(s->api, s->id, s->project, &s->egress.count, e);
	s->egress.dirty = r < 0;
	return r;
}

/* --- the last word about one that has ended --- */

struct leaving {
	struct list node;
	char id[ID_CAP], project[NAME_CAP];
	struct gate_count count;
};

static void drop(struct egress_ends *x, struct leaving *v)
{
	list_del(&v->node);
	x->n--;
	free(v);
}

void egress_leave(struct egress_ends *x, const struct sandbox *s)
{
	struct leaving *v = xcalloc(1, sizeof(*v));

	memcpy(v->id, s->id, ID_CAP);
	memcpy(v->project, s->project, sizeof(v->project));
	v->count = s->egress.count;
	list_add(&x->all, &v->node);
	if (++x->n > LEAVING_MAX)
		drop(x, container_of(x->all.next, struct leaving, node));
}

void egress_ends_done(struct egress_ends *x)
{
	struct list *n, *next;

	list_each (n, next, &x->all)
		drop(x, container_of(n, struct leaving, node));
}

void egress_last(struct api *a, struct egress_ends *x, const char *id,
		 const struct gate_count *c)
{
	struct list *n, *next;
	struct err e = { 0 };

	list_each (n, next, &x->all) {
		struct leaving *v = container_of(n, struct leaving, node);

		if (strcmp(v->id, id) != 0)
			continue;
		if (raise_counts(a, &v->count, c) &&
		    put(a, v->id, v->project, &v->count, &e) < 0)
			log_err("sandbox=%s %s, ignoring", id, e.msg);
		drop(x, v);
		api_registry_touched(a);
		return;
	}
}

json_t *egress_json(const struct gate_count *c)
{
	json_t *j = json_object();
	size_t i;

	for (i = 0; i < ARRAY_LEN(figures); i++)
		json_object_set_new(
			j, figures[i].name,
			json_integer((json_int_t)get(c, &figures[i])));
	return j;
}

void egress_metrics(const struct api *a, struct buf *out)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(figures); i++)
		buf_printf(out,
			   "# HELP " PRODUCT "_egress_%s_total %s\n"
			   "# TYPE " PRODUCT
			   "_egress_%s_total counter\n" PRODUCT
			   "_egress_%s_total %llu\n",
			   figures[i].name, figures[i].help, figures[i].name,
			   figures[i].name,
			   (unsigned long long)get(&a->egress, &figures[i]));
}
