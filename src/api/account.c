#include "api/account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"

static struct list *account_bucket(struct api *a, const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619u;
	return &a->accounts[h % ACCOUNT_BUCKETS];
}

void accounts_init(struct api *a)
{
	size_t i;

	for (i = 0; i < ACCOUNT_BUCKETS; i++)
		list_init(&a->accounts[i]);
}

static struct account *account_find(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, account_bucket(a, id)) {
		struct account *x = container_of(n, struct account, node);

		if (strcmp(x->id, id) == 0)
			return x;
	}
	return NULL;
}

struct account *account_hold(struct api *a, const char *id, const char *project)
{
	struct account *x = account_find(a, id);

	if (!x) {
		x = xcalloc(1, sizeof(*x));
		x->api = a;
		snprintf(x->id, sizeof(x->id), "%s", id);
		snprintf(x->project, sizeof(x->project), "%s", project);
		list_add(account_bucket(a, id), &x->node);
	}
	x->refs++;
	return x;
}

void account_release(struct account *x)
{
	if (!x || --x->refs > 0)
		return;
	if (x->kept)
		gate_account_gone(x);
	list_del(&x->node);
	free(x);
}

bool account_is_needed(struct api *a, const char *id)
{
	const struct account *x = account_find(a, id);
	const struct sandbox *s = box_by_id(a, id);

	return x && x->refs > (s && s->account == x ? 1U : 0U);
}

void account_resume(struct account *x)
{
	struct err e = { 0 };

	if (x->counted)
		return;
	x->counted = true;
	if (registry_usage_family(&x->api->registry, x->id, &x->cpu_us, &e) < 0)
		log_err("account=%s %s, counting from 0", x->id, e.msg);
}

/* Budgets are used faster from now on: the members look again. */
static void account_plan(const struct account *x)
{
	struct list *n, *next;

	list_each (n, next, &x->api->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (s->account == x && s->spec.cpu_budget_ms > 0)
			meter_plan(s);
	}
}

void box_set_account(struct sandbox *s, const char *id)
{
	struct account *old = s->account;

	s->account = account_hold(s->api, id, s->project);
	s->account->n_boxes++;
	if (old)
		old->n_boxes--;
	account_release(old);
	if (strcmp(id, s->id) == 0)
		return;
	s->account->kept = true;
	account_resume(s->account);
	account_plan(s->account);
}

bool account_is_shared(const struct sandbox *s)
{
	return s->account->n_boxes > 1 || strcmp(s->account->id, s->id) != 0;
}
