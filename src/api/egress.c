#include "api/egress.h"

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
#define FIGURE(field, help)                                      \
	{                                                        \
#field, help, offsetof(struct gate_count, field) \
	}
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
void egress_count(struct sandbox *s, const struct gate_count *c)
{
	struct gate_count *total = &s->api->egress;
	size_t i;

	for (i = 0; i < ARRAY_LEN(figures); i++) {
		uint64_t old = get(&s->egress.count, &figures[i]);
		uint64_t now = get(c, &figures[i]);

		if (now <= old || now > INT64_MAX)
			continue;
		add(&s->egress.count, &figures[i], now - old);
		add(total, &figures[i], now - old);
		s->egress.known = s->egress.dirty = true;
	}
	if (s->egress.dirty)
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

int egress_save(struct sandbox *s, struct err *e)
{
	const struct gate_count *c = &s->egress.count;
	const struct egress_row row = { .sandbox = s->id,
					.project = s->project,
					.requests = c->requests,
					.denied = c->denied,
					.up_bytes = c->up_bytes,
					.down_bytes = c->down_bytes,
					.tokens_in = c->tokens_in,
					.tokens_out = c->tokens_out,
					.cost_micro = c->cost_micro,
					.updated_ms = clock_wall_ms() };
	int r;

	if (!s->egress.dirty)
		return 0;
	r = registry_egress_put(&s->api->registry, &row, e);
	s->egress.dirty = r < 0;
	return r;
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
