#include "gate/decide.h"

struct ruling box_decide(const struct box *b, const struct request *r)
{
	struct ruling out = { .verdict = VERDICT_DENY, .part = "no rule" };
	struct decision d;
	unsigned i;

	for (i = 0; i < b->n_parts; i++) {
		d = policy_decide(&b->parts[i].policy, r);
		if (!d.rule)
			continue;
		out.verdict = d.verdict;
		out.part = b->parts[i].name;
		out.rule = d.rule;
		return out;
	}
	return out;
}

bool box_knows_host(const struct box *b, const char *host, uint16_t port)
{
	(void)b;
	(void)host;
	(void)port;
	return false;
}

void ruling_text(const struct box *b, const struct ruling *r, struct buf *out)
{
	(void)b;
	buf_puts(out, r->part);
}

bool box_names_address(const struct box *b, const char *host,
		       const struct in6_addr *a, uint16_t port)
{
	(void)host;
	(void)b;
	(void)a;
	(void)port;
	return false;
}
