#include "gate/decide.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/auto.h"
#include "base/guards.h"

/*
 * What nobody allows passes while observing. Of https that is not seen yet,
 * there is more to know.
 */
static void observe(const struct box *b, const struct request *q,
		    struct ruling *r)
{
	if (!(b->flags & GATE_OBSERVE) || r->verdict != VERDICT_DENY)
		return;
	r->observed = true;
	r->verdict = q->scheme == SCHEME_HTTPS && !q->method ? VERDICT_LOOK
							     : VERDICT_ALLOW;
}

/* What people have granted counts where the others say "ask": it takes nothing
 * away from a rule that denies, and names no address. */
static bool is_grants(const struct box_part *p)
{
	return strcmp(p->name, GATE_PART_GRANTS) == 0;
}

static void grant(const struct box *b, const struct request *q,
		  struct ruling *r)
{
	const struct box_part *p = b->parts;
	struct decision d;

	if (r->verdict != VERDICT_ASK || b->n_parts == 0 || !is_grants(p))
		return;
	d = policy_decide(&p->policy, q);
	if (d.verdict == VERDICT_ALLOW)
		*r = (struct ruling){ .verdict = VERDICT_ALLOW,
				      .part = p->name,
				      .rule = d.rule };
}

/* What its rules say, before anybody is asked; `a` as of policy_try_at(). */
static struct ruling try_parts(const struct box *b, const struct request *q,
			       const struct in6_addr *a)
{
	const char *look = "no rule", *part = "no rule";
	struct trial t = { 0 };
	struct decision d;
	bool found = false;
	unsigned i;

	for (i = 0; i < b->n_parts && !found; i++) {
		bool looks = t.look != NULL;

		if (i == 0 && is_grants(&b->parts[i]))
			continue;
		found = policy_try_at(&b->parts[i].policy, q, a, &t);
		if (!looks && t.look)
			look = b->parts[i].name;
		if (found)
			part = b->parts[i].name;
	}
	d = trial_end(&t);
	return (struct ruling){
		.verdict = d.verdict,
		.part = d.verdict == VERDICT_LOOK ? look : part,
		.rule = d.rule,
	};
}

struct ruling box_decide(const struct box *b, const struct request *q)
{
	struct ruling out = try_parts(b, q, NULL);

	grant(b, q, &out);
	observe(b, q, &out);
	if (!GUARD(POLICY) && out.verdict == VERDICT_DENY)
		out.verdict = VERDICT_ALLOW;
	return out;
}

bool box_knows_host(const struct box *b, const char *host, uint16_t port)
{
	struct denied denied = { 0 };
	int r = 0;
	unsigned i;

	if (b->flags & GATE_OBSERVE || !GUARD(NAMES))
		return true;
	for (i = 0; i < b->n_parts && r == 0; i++)
		if (!is_grants(&b->parts[i]))
			r = policy_knows_host(&b->parts[i].policy, host, port,
					      &denied);
	return r > 0;
}

void ruling_text(const struct box *b, const struct ruling *r, struct buf *out)
{
	const char *between = " of ";
	unsigned i;

	if (r->rule) {
		buf_printf(out, "%s, line %u", r->part, r->rule->line);
		return;
	}
	buf_puts(out, "no rule");
	for (i = 0; i < b->n_parts; i++) {
		if (is_grants(&b->parts[i]))
			continue;
		buf_printf(out, "%s%s", between, b->parts[i].name);
		between = ", ";
	}
}

/* --- addresses --- */

bool box_denies_address(const struct box *b, const struct request *q,
			const struct in6_addr *a, struct buf *why)
{
	struct ruling r;

	if (!q || b->flags & GATE_OBSERVE)
		return false;
	r = try_parts(b, q, a);
	/* To look would be too late: the address is known only now. */
	if (r.verdict == try_parts(b, q, NULL).verdict ||
	    (r.verdict != VERDICT_DENY && r.verdict != VERDICT_LOOK))
		return false;
	if (why)
		ruling_text(b, &r, why);
	return true;
}

/* Services that tell whoever asks who the host is, and its credentials. */
static const char *const metadata[] = {
	"::ffff:169.254.169.254", "::ffff:169.254.170.2",
	"::ffff:169.254.170.23",  "::ffff:100.100.100.200",
	"::ffff:168.63.129.16",   "::ffff:192.0.0.192",
	"fd00:ec2::254",          "fd00:ec2::23",
	"fd20:ce::254",
};

static bool is_metadata(const struct in6_addr *a)
{
	struct in6_addr m;
	size_t i;

	for (i = 0; i < ARRAY_LEN(metadata); i++)
		if (inet_pton(AF_INET6, metadata[i], &m) == 1 &&
		    IN6_ARE_ADDR_EQUAL(&m, a))
			return true;
	return false;
}

static bool place_names(const struct private_place *x, const char *host,
			const struct in6_addr *a, bool exact)
{
	if (!x->is_network)
		return !exact && host_pattern_fits(&x->host, host);
	return (x->network.bits == 128 || !exact) &&
	       network_has(&x->network, a);
}

static bool rule_names(const struct rule *r, const char *address, uint16_t port)
{
	if (r->kind != HOST_ADDRESS || r->effect == EFFECT_DENY ||
	    strcmp(r->host, address) != 0)
		return false;
	return r->port == PORT_ANY || r->port == port ||
	       (r->port == PORT_USUAL && (port == 80 || port == 443));
}

static bool policy_names(const struct policy *p, const char *host,
			 const struct in6_addr *a, uint16_t port, bool exact)
{
	char text[INET6_ADDRSTRLEN];
	size_t i;

	for (i = 0; i < p->n_privates; i++)
		if (place_names(&p->privates[i], host, a, exact))
			return true;
	if (IN6_IS_ADDR_V4MAPPED(a))
		inet_ntop(AF_INET, &a->s6_addr[12], text, sizeof(text));
	else
		inet_ntop(AF_INET6, a, text, sizeof(text));
	if (strcmp(text, host) != 0)
		return false;
	for (i = 0; i < p->n; i++)
		if (rule_names(&p->rules[i], text, port))
			return true;
	return false;
}

static bool lets_pass(const struct policy *p, const struct request *q,
		      bool asked)
{
	enum verdict v = q ? policy_decide(p, q).verdict : VERDICT_ALLOW;

	return v == VERDICT_ALLOW || (v == VERDICT_ASK && asked);
}

bool ruling_asked(const struct ruling *r)
{
	return r->verdict == VERDICT_ASK ||
	       strcmp(r->part, GATE_PART_GRANTS) == 0;
}

bool box_names_address(const struct box *b, const struct request *q, bool asked,
		       const char *host, const struct in6_addr *a,
		       uint16_t port)
{
	bool exact = is_metadata(a);
	unsigned i;

	for (i = 0; i < b->n_parts; i++) {
		const struct policy *p = &b->parts[i].policy;

		if (!is_grants(&b->parts[i]) &&
		    policy_names(p, host, a, port, exact) &&
		    lets_pass(p, q, asked))
			return true;
	}
	return false;
}
