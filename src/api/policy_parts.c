#include "api/policy_parts.h"

#include <assert.h>
#include <string.h>

#include "api/api.h"

void policy_parts_done(struct policy_parts *all)
{
	while (all->n > 0)
		policy_done(&all->p[--all->n]);
	gate_parts_done(&all->hold);
}

int policy_parts_add(struct policy_parts *all, const char *name,
		     const char *text, size_t len, struct err *e)
{
	assert(all->n < GATE_PARTS_MAX);
	all->name[all->n] = name;
	return policy_read(&all->p[all->n++], text, len, e);
}

int policy_parts_load(struct policy_parts *all, const struct sandbox *s,
		      struct err *e)
{
	int r = gate_parts(s, &all->hold, &all->msg, e);
	size_t i;

	for (i = 0; r == 0 && i < all->msg.n_parts; i++) {
		const struct gate_part *x = &all->msg.parts[i];

		r = policy_parts_add(all, x->name, x->text, strlen(x->text), e);
	}
	all->first = all->n > 0 && strcmp(all->name[0], GATE_PART_GRANTS) == 0;
	return r;
}

struct decision policy_parts_try(const struct policy_parts *all,
				 const struct request *q, const char **part)
{
	struct trial t = { 0 };
	size_t i;

	*part = NULL;
	for (i = all->first; i < all->n && !*part; i++)
		if (policy_try(&all->p[i], q, &t))
			*part = all->name[i] ? all->name[i] : "";
	return trial_end(&t);
}

struct decision policy_parts_granted(const struct policy_parts *all,
				     const struct request *q)
{
	if (!all->first)
		return (struct decision){ .verdict = VERDICT_DENY };
	return policy_decide(&all->p[0], q);
}
