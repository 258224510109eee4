/* Which rule decides. */
#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/guards.h"
#include "policy/target.h"

/* '*' is any run of characters; the last one seen is where we come back to. */
static bool matches(const char *pattern, const char *path, bool any_case)
{
	const char *star = NULL, *from = NULL;

	while (*path) {
		if (*pattern == '*') {
			star = ++pattern;
			from = path;
		} else if (*pattern == *path ||
			   (any_case &&
			    tolower((unsigned char)*pattern) ==
				    tolower((unsigned char)*path))) {
			pattern++;
			path++;
		} else if (star) {
			pattern = star;
			path = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

bool path_matches(const char *pattern, const char *path)
{
	return matches(pattern, path, false);
}

/*
 * The path as a server may read it that ignores parameters of segments
 * ("/admin;x/y") and repeated slashes.
 */
static void plain_path(const char *path, struct buf *out)
{
	const char *s;

	for (s = path; *s; s++) {
		if (*s == ';')
			s += strcspn(s, "/");
		if (!*s)
			break;
		if (*s != '/' || buf_len(out) == 0 ||
		    buf_data(out)[buf_len(out) - 1] != '/')
			buf_add(out, s, 1);
	}
}

/* A rule that withholds something is not stepped around by a spelling of the
 * path that some servers take for the same; one that allows is exact. */
static bool path_fits(const struct rule *r, const char *path)
{
	AUTO(buf_done) struct buf plain = { 0 };

	if (path_matches(r->path, path))
		return true;
	if (r->effect == EFFECT_ALLOW)
		return false;
	plain_path(path, &plain);
	return matches(r->path, buf_str(&plain), true);
}

bool host_fits(enum host_kind kind, const char *pattern, size_t n,
	       const char *host, size_t m)
{
	switch (kind) {
	case HOST_ANY:
		return true;
	case HOST_TREE:
		if (m == n && memcmp(host, pattern, n) == 0)
			return true;
		__attribute__((fallthrough));
	case HOST_BELOW:
		return m > n + 1 &&
		       (host[m - n - 1] == '.' || !GUARD(LABELS)) &&
		       memcmp(host + m - n, pattern, n) == 0;
	case HOST_NAME:
	case HOST_ADDRESS:
		return m == n && memcmp(host, pattern, n) == 0;
	case HOST_NETWORK: /* of which no text is a member */
		break;
	}
	return false;
}

/* Who is asked for: a name or an address, and what is known of it. */
struct asked {
	const char *host;
	size_t n;
	bool is_address;
	struct in6_addr address;    /* that the host itself is */
	const struct in6_addr *has; /* that the name has; or NULL */
};

static struct asked asked_for(const char *host, const struct in6_addr *has)
{
	struct asked x = { .host = host, .n = strlen(host), .has = has };
	bool v4;

	x.is_address = network_address(&x.address, host, x.n, &v4) == 0;
	return x;
}

static bool is_about(const struct rule *r, const struct asked *x)
{
	if (host_fits(r->kind, r->host, r->host_n, x->host, x->n) ||
	    (r->kind == HOST_NETWORK && x->is_address &&
	     network_has(&r->network, &x->address)))
		return true;
	return x->has && r->effect == EFFECT_DENY &&
	       (r->kind == HOST_ADDRESS || r->kind == HOST_NETWORK) &&
	       network_has(&r->network, x->has);
}

static bool port_matches(const struct rule *r, const struct request *q)
{
	if (r->port == PORT_ANY || !GUARD(PORTS))
		return true;
	if (r->port != PORT_USUAL)
		return r->port == q->port;
	return q->port == (q->scheme == SCHEME_HTTPS ? 443 : 80);
}

/* Of what is known before a request is read. */
static bool place_matches(const struct rule *r, const struct request *q,
			  const struct asked *x)
{
	return (r->schemes & q->scheme) && is_about(r, x) && port_matches(r, q);
}

enum fit { FIT_NO, FIT_YES, FIT_UNKNOWN };

static enum fit fits(const struct rule *r, const struct request *q,
		     const struct asked *x)
{
	if (!place_matches(r, q, x))
		return FIT_NO;
	/* What has neither a method nor a path: a rule about these is not
	 * about it. */
	if (q->scheme == SCHEME_TCP)
		return r->methods || r->path[0] ? FIT_NO : FIT_YES;
	if (r->methods && q->method &&
	    !(r->methods & method_bit(q->method, strlen(q->method))))
		return FIT_NO;
	if (r->path[0] && q->path && !path_fits(r, q->path))
		return FIT_NO;
	if ((r->methods && !q->method) || (r->path[0] && !q->path))
		return FIT_UNKNOWN;
	return FIT_YES;
}

bool policy_try(const struct policy *p, const struct request *q,
		struct trial *t)
{
	return policy_try_at(p, q, NULL, t);
}

bool policy_try_at(const struct policy *p, const struct request *q,
		   const struct in6_addr *a, struct trial *t)
{
	const struct asked x = asked_for(q->host, a);
	size_t i;

	for (i = 0; i < p->n; i++) {
		const struct rule *r = &p->rules[i];

		switch (fits(r, q, &x)) {
		case FIT_NO:
			break;
		case FIT_YES:
			t->rule = r;
			return true;
		case FIT_UNKNOWN:
			if (!t->look)
				t->look = r;
			t->effects |= 1U << r->effect;
			break;
		}
	}
	return false;
}

struct decision trial_end(const struct trial *t)
{
	static const enum verdict verdicts[EFFECTS] = {
		[EFFECT_DENY] = VERDICT_DENY,
		[EFFECT_ALLOW] = VERDICT_ALLOW,
		[EFFECT_ASK] = VERDICT_ASK,
	};
	enum effect effect = t->rule ? t->rule->effect : EFFECT_DENY;

	if (t->effects & ~(1U << effect))
		return (struct decision){ VERDICT_LOOK, t->look };
	return (struct decision){ verdicts[effect], t->rule };
}

struct decision policy_decide(const struct policy *p, const struct request *q)
{
	struct trial t = { 0 };

	(void)policy_try(p, q, &t);
	return trial_end(&t);
}

/* A rule without a port is about 80 for http and 443 for https. */
static bool port_possible(const struct rule *r, uint16_t port)
{
	if (port == 0 || r->port == PORT_ANY)
		return true;
	if (r->port != PORT_USUAL)
		return r->port == port;
	return (port == 80 && (r->schemes & SCHEME_HTTP)) ||
	       (port == 443 && (r->schemes & SCHEME_HTTPS));
}

static bool is_denied(const struct rule *r, const struct denied *d)
{
	unsigned denied = d->any_port;

	if (r->port == PORT_USUAL)
		denied |= d->usual_port;
	return (r->schemes & ~denied) == 0;
}

static void note_denied(const struct rule *r, struct denied *d)
{
	if (r->methods || r->path[0])
		return;
	if (r->port == PORT_ANY)
		d->any_port |= r->schemes;
	else if (r->port == PORT_USUAL)
		d->usual_port |= r->schemes;
}

int policy_knows_host(const struct policy *p, const char *host, uint16_t port,
		      struct denied *denied)
{
	const struct asked x = asked_for(host, NULL);
	size_t i;

	for (i = 0; i < p->n; i++) {
		const struct rule *r = &p->rules[i];

		if (!is_about(r, &x) || !port_possible(r, port))
			continue;
		if (r->effect == EFFECT_DENY)
			note_denied(r, denied);
		else if (!is_denied(r, denied))
			return 1;
		if (denied->any_port == SCHEME_ALL)
			return -1;
	}
	return 0;
}

bool policy_is_open(const struct policy *p)
{
	size_t i;

	for (i = 0; i < p->n; i++)
		if (p->rules[i].kind == HOST_ANY &&
		    p->rules[i].effect == EFFECT_ALLOW)
			return true;
	return false;
}
