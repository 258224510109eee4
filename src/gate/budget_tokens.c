/*
 * Tokens and money. A request holds the most that it may use until its answer
 * says how many tokens it used.
 */
#include <stdio.h>

#include "gate/budget_parts.h"
#include "gate/gate.h"
#include "gate/model.h"
#include "gate/prices.h"

/* Holds so many instead of what it held before. */
static void hold_tokens(struct budget_hold *h, uint64_t tokens, uint64_t cost)
{
	unsigned i;

	for (i = 0; i <= h->n_slots; i++) {
		struct state_budget *s = counter(h, i);

		s->tokens_held += tokens - h->tokens;
		s->cost_held += cost - h->cost;
	}
	h->tokens = tokens;
	h->cost = cost;
}

static void check_tokens(struct budget_hold *h, bool priced)
{
	struct box *b = h->box;
	unsigned i;

	for (i = 0; i < h->n_slots && !h->why[0]; i++) {
		unsigned slot = h->slots[i];
		const struct budget *l = &b->budgets->v[slot].limit;
		const struct state_budget *s = counter(h, i);

		if (h->model->request.found.background &&
		    has_tokens(&b->budgets->v[slot]))
			snprintf(h->why, sizeof(h->why),
				 "this sandbox has a budget of tokens or cost, "
				 "and the gate cannot count the tokens of a "
				 "call in the background");
		else if (l->tokens && !is_granted(h, slot, LIMIT_TOKENS) &&
			 tokens_of(s) > l->tokens)
			(void)budget_stop(h, slot, LIMIT_TOKENS);
		else if (l->cost_micro && !is_granted(h, slot, LIMIT_COST) &&
			 s->count.cost_micro + s->cost_held > l->cost_micro)
			(void)budget_stop(h, slot, LIMIT_COST);
		else if (l->cost_micro && !priced &&
			 !is_granted(h, slot, LIMIT_COST))
			snprintf(h->why, sizeof(h->why),
				 "no price is known for the model '%.60s': ask "
				 "an operator to add it",
				 h->model->request.found.model);
	}
}

void budget_request_body(struct budget_hold *h, const void *p, size_t n)
{
	struct model_use *m = h->model;
	const char *model;
	struct model_tokens most;
	uint64_t cost = 0;
	bool priced;

	if (!h->open || !m || n == 0)
		return;
	model_request(m, p, n);
	most = model_most(m);
	model = m->request.found.model;
	priced = prices_cost(h->box->gate->prices, model, most.in, most.out,
			     &cost);
	hold_tokens(h, most.in + most.out, cost);
	check_tokens(h, priced);
}

void budget_answer_body(struct budget_hold *h, const void *p, size_t n)
{
	if (h->open && h->model)
		model_answer(h->model, p, n);
}

void budget_cut(struct budget_hold *h)
{
	if (h->open && h->model)
		h->model->cut = true;
}

bool budget_wants_bodies(const struct budget_hold *h)
{
	return h->open && h->model;
}

/* Of the model that was asked for and the one that answered, the dearer one; a
 * request that we could not read leaves the answer's word. */
static uint64_t cost_of(const struct budget_hold *h, struct model_tokens t)
{
	const struct prices *p = h->box->gate->prices;
	const char *asked = h->model->request.found.model;
	const char *answered = h->model->answer.found.model;
	uint64_t a = 0, b = 0;

	if (*asked || !*answered)
		(void)prices_cost(p, asked, t.in, t.out, &a);
	if (*answered)
		(void)prices_cost(p, answered, t.in, t.out, &b);
	return a > b ? a : b;
}

void budget_settle(struct budget_hold *h, int status)
{
	struct model_tokens t = model_used(h->model, status);
	uint64_t cost = cost_of(h, t);
	unsigned i;

	hold_tokens(h, 0, 0);
	for (i = 0; i <= h->n_slots; i++) {
		struct gate_count *c = &counter(h, i)->count;

		c->tokens_in += t.in;
		c->tokens_out += t.out;
		c->cost_micro += cost;
	}
}
