/* Lines that are no rules: private places, models, hosts with a budget. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
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
	if (h->kind == HOST_ANY)
		return err_set(e, EINVAL, "%s: '*' is no host of its own",
			       what);
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

/* The address as a mapped one, or one of IPv6, with or without brackets. */
static int read_address(const char *s, size_t n, struct in6_addr *out, bool *v4)
{
	char text[INET6_ADDRSTRLEN];
	struct in_addr a;

	if (n >= 2 && s[0] == '[' && s[n - 1] == ']') {
		s++;
		n -= 2;
	}
	if (n >= sizeof(text))
		return -EINVAL;
	memcpy(text, s, n);
	text[n] = '\0';
	*v4 = inet_pton(AF_INET, text, &a) == 1;
	if (!*v4) {
		if (inet_pton(AF_INET6, text, out) != 1)
			return -EINVAL;
		*v4 = IN6_IS_ADDR_V4MAPPED(out);
		return 0;
	}
	*out = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
	memcpy(&out->s6_addr[12], &a, sizeof(a));
	return 0;
}

static bool has_bits_behind(const struct in6_addr *a, unsigned bits)
{
	unsigned i;

	for (i = bits; i < 128; i++)
		if (a->s6_addr[i / 8] & 0x80 >> i % 8)
			return true;
	return false;
}

/* ADDRESS[/BITS]: 1; 0: it is none; or an error. */
static int read_network(struct private_place *x, const char *s, struct err *e)
{
	const char *slash = strchr(s, '/');
	size_t n = slash ? (size_t)(slash - s) : strlen(s);
	uint64_t bits;
	bool v4;

	if (read_address(s, n, &x->net, &v4) < 0)
		return slash ? err_set(e, EINVAL,
				       "private: '%.64s' is no network: write "
				       "10.0.0.0/8 or fd00::/8",
				       s)
			     : 0;
	x->network = true;
	x->bits = 128;
	if (!slash)
		return 1;
	if (parse_u64(slash + 1, v4 ? 32 : 128, &bits) < 0)
		return err_set(e, EINVAL, "private: '%.8s' is no prefix length",
			       slash + 1);
	x->bits = (unsigned)bits + (v4 ? 96 : 0);
	if (has_bits_behind(&x->net, x->bits))
		return err_set(e, EINVAL,
			       "private: '%.64s' has bits behind its prefix",
			       s);
	return 1;
}

int private_add(struct policy *p, const char *s, struct err *e)
{
	struct private_place x = { 0 };
	int r = read_network(&x, s, e);

	if (r < 0)
		return r;
	if (r == 0 && pattern_read(&x.host, "private", s, e) < 0)
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
	unsigned whole = x->bits / 8, rest = x->bits % 8;
	bool v4;

	if (!x->network)
		return host_pattern_fits(&x->host, host);
	return read_address(host, strlen(host), &a, &v4) == 0 &&
	       memcmp(&a, &x->net, whole) == 0 &&
	       (rest == 0 || ((a.s6_addr[whole] ^ x->net.s6_addr[whole]) >>
			      (8 - rest)) == 0);
}

void private_print(const struct private_place *x, struct buf *out)
{
	bool v4 = IN6_IS_ADDR_V4MAPPED(&x->net) && x->bits >= 96;
	char text[INET6_ADDRSTRLEN] = "";

	if (!x->network) {
		host_pattern_print(&x->host, out);
		return;
	}
	if (v4)
		inet_ntop(AF_INET, &x->net.s6_addr[12], text, sizeof(text));
	else
		inet_ntop(AF_INET6, &x->net, text, sizeof(text));
	buf_puts(out, text);
	if (x->bits < 128)
		buf_printf(out, "/%u", x->bits - (v4 ? 96 : 0));
}
