/* Lines that are no rules: private places, models, hosts with a budget. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "policy/target.h"

static const char *const overs[OVERS] = {
	[OVER_UNSAID] = "", /* nobody can write it */
	[OVER_DENY] = "deny",
	[OVER_ASK] = "ask",
	[OVER_PAUSE] = "pause",
};

static const char *const shapes[MODEL_SHAPES] = {
	[MODEL_OPENAI] = "openai",
	[MODEL_ANTHROPIC] = "anthropic",
};

const char *over_name(enum over o)
{
	return overs[o];
}

const char *model_shape_name(enum model_shape s)
{
	return shapes[s];
}

int over_set(struct policy *p, const char *word, struct err *e)
{
	size_t i;

	for (i = OVER_DENY; i < OVERS; i++)
		if (strcmp(overs[i], word) == 0) {
			p->over = (enum over)i;
			return 0;
		}
	return err_set(e, EINVAL, "over: '%.32s' is not deny, ask or pause",
		       word);
}

static int pattern_read(struct host_pattern *h, const char *what, const char *s,
			struct err *e)
{
	if (host_kind_read(&h->kind, h->host, s, strlen(s), e) < 0)
		return err_wrap(e, "%s", what);
	if (h->kind == HOST_ANY || h->kind == HOST_NETWORK)
		return err_set(e, EINVAL, "%s: '%.64s' is no host of its own",
			       what, s);
	return 0;
}

static bool same_host(const struct host_pattern *a,
		      const struct host_pattern *b)
{
	return a->kind == b->kind && strcmp(a->host, b->host) == 0;
}

bool host_pattern_fits(const struct host_pattern *p, const char *host)
{
	return host_fits(p->kind, p->host, strlen(p->host), host, strlen(host));
}

void host_pattern_print(const struct host_pattern *p, struct buf *out)
{
	bool v6 = p->kind == HOST_ADDRESS && strchr(p->host, ':');

	buf_printf(out, v6 ? "%s[%s]" : "%s%s", host_prefix(p->kind), p->host);
}

struct budget *budget_of(struct policy *p, const char *host, struct err *e)
{
	struct host_budget x = { 0 };
	size_t i;

	if (pattern_read(&x.host, "budget", host, e) < 0)
		return NULL;
	for (i = 0; i < p->n_budgets; i++)
		if (same_host(&p->budgets[i].host, &x.host))
			return &p->budgets[i].budget;
	if (p->n_budgets == POLICY_BUDGETS_MAX) {
		err_set(e, E2BIG, "budgets of more than %d hosts",
			POLICY_BUDGETS_MAX);
		return NULL;
	}
	p->budgets = xrealloc(p->budgets, (i + 1) * sizeof(*p->budgets));
	p->budgets[p->n_budgets++] = x;
	return &p->budgets[i].budget;
}

int model_add(struct policy *p, const char *host, const char *shape,
	      struct err *e)
{
	struct host_model x = { .shape = MODEL_SHAPES };
	size_t i;

	if (pattern_read(&x.host, "model", host, e) < 0)
		return -e->code;
	for (i = 0; i < MODEL_SHAPES; i++)
		if (strcmp(shapes[i], shape) == 0)
			x.shape = (enum model_shape)i;
	if (x.shape == MODEL_SHAPES)
		return err_set(e, EINVAL,
			       "model: '%.32s' is not openai or anthropic",
			       shape);
	for (i = 0; i < p->n_models; i++)
		if (same_host(&p->models[i].host, &x.host))
			return err_set(e, EEXIST, "model: '%.64s' twice", host);
	if (p->n_models == POLICY_MODELS_MAX)
		return err_set(e, E2BIG, "more than %d models",
			       POLICY_MODELS_MAX);
	p->models = xrealloc(p->models, (i + 1) * sizeof(*p->models));
	p->models[p->n_models++] = x;
	return 0;
}

int private_add(struct policy *p, const char *s, struct err *e)
{
	struct private_place x = { 0 };
	struct err none = { 0 };
	size_t n = strlen(s);

	/* What has a slash is meant for a network, or for nothing. */
	x.is_network =
		network_read(&x.network, s, n, strchr(s, '/') ? e : &none) == 0;
	if (!x.is_network && strchr(s, '/'))
		return err_wrap(e, "private");
	if (!x.is_network && pattern_read(&x.host, "private", s, e) < 0)
		return -e->code;
	if (p->n_privates == POLICY_PRIVATE_MAX)
		return err_set(e, E2BIG, "more than %d private places",
			       POLICY_PRIVATE_MAX);
	p->privates = xrealloc(p->privates,
			       (p->n_privates + 1) * sizeof(*p->privates));
	p->privates[p->n_privates++] = x;
	return 0;
}

bool private_names(const struct private_place *x, const char *host)
{
	struct in6_addr a;
	bool v4;

	if (!x->is_network)
		return host_pattern_fits(&x->host, host);
	return network_address(&a, host, strlen(host), &v4) == 0 &&
	       network_has(&x->network, &a);
}

void private_print(const struct private_place *x, struct buf *out)
{
	if (x->is_network)
		network_print(&x->network, false, out);
	else
		host_pattern_print(&x->host, out);
}
