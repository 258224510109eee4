#include "api/share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Only projects that hold something are in the list, so it is short. */
static struct share *share_find(const struct pool *p, const char *project)
{
	struct list *l;

	for (l = p->shares.next; l != &p->shares; l = l->next) {
		struct share *s = container_of(l, struct share, node);

		if (strcmp(s->project, project) == 0)
			return s;
	}
	return NULL;
}

static struct share *share_new(struct pool *p, const char *project)
{
	struct share *s = xcalloc(1, sizeof(*s));

	s->pool = p;
	snprintf(s->project, sizeof(s->project), "%s", project);
	list_add(&p->shares, &s->node);
	return s;
}

static void refuse(const struct pool *p, const struct share *s, struct err *e)
{
	if (s)
		err_set(e, EUSERS,
			"project %s has its share of all %s, %llu of %llu: "
			"wait for some to end",
			*s->project ? s->project : "-", p->what,
			(unsigned long long)s->n, (unsigned long long)p->max);
	else
		err_set(e, EAGAIN, "all %s are in use, %llu of %llu: try again",
			p->what, (unsigned long long)p->used,
			(unsigned long long)p->max);
}

struct share *share_take(struct pool *p, const char *project, uint64_t n,
			 struct err *e)
{
	struct share *s;
	uint64_t left = p->max > p->used ? p->max - p->used : 0;

	if (!p->shares.next)
		list_init(&p->shares);
	s = share_find(p, project);
	if (n > left || (s ? s->n : 0) > left - n) {
		refuse(p, s, e);
		return NULL;
	}
	if (!s)
		s = share_new(p, project);
	s->n += n;
	p->used += n;
	return s;
}

void share_give(struct share *s, uint64_t n)
{
	if (!s)
		return;
	s->n -= n;
	s->pool->used -= n;
	if (s->n > 0)
		return;
	list_del(&s->node);
	free(s);
}
