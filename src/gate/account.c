#include "gate/account.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "gate/door.h"

struct account *account_find(struct gate *g, const char *id)
{
	struct list *n, *next;

	list_each (n, next, gate_bucket(g->accounts, id)) {
		struct account *x = container_of(n, struct account, node);

		if (strcmp(x->id, id) == 0)
			return x;
	}
	return NULL;
}

void account_join(struct box *b, const char *id)
{
	struct account *x = account_find(b->gate, id);

	if (!x) {
		x = xcalloc(1, sizeof(*x));
		memcpy(x->id, id, strlen(id) + 1);
		list_init(&x->boxes);
		list_add(gate_bucket(b->gate->accounts, id), &x->node);
	}
	if (!x->state)
		keeper_ask(b->gate, WITHIN_STATE, id);
	list_add(&x->boxes, &b->in_account);
	b->account = x;
}

void account_leave(struct box *b)
{
	struct account *x = b->account;

	list_del(&b->in_account);
	b->account = NULL;
	if (!list_empty(&x->boxes))
		return;
	list_del(&x->node);
	state_unmap(x->state);
	free(x);
}

void account_state_came(struct account *x, int fd)
{
	struct err e = { 0 };

	if (x->state)
		return;
	if (fd >= 0)
		x->state = state_map(fd, x->id, &e);
	if (!x->state)
		log_err("account %s has no counters, the doors of its "
			"sandboxes stay shut: %s",
			x->id, e.msg);
}
