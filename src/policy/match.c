/* Which rule decides. */
#include <string.h>

#include "policy/policy.h"

/* '*' is any run of characters; the last one seen is where we come back to. */
static bool path_matches(const char *pattern, const char *path)
{
	const char *star = NULL, *from = NULL;

	while (*path) {
		if (*pattern == '*') {
			star = ++pattern;
			from = path;
		} else if (*pattern == *path) {
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

static bool below(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n > m + 1 && name[n - m - 1] == '.' &&
	       strcmp(name + n - m, suffix) == 0;
}

static bool host_matches(const struct rule *r, const char *host)
{
	switch (r->kind) {
	case HOST_ANY:
		return true;
	case HOST_BELOW:
		return below(host, r->host);
	case HOST_NAME:
	case HOST_ADDRESS:
		return strcmp(host, r->host) == 0;
	}
	return false;
}

static bool port_matches(const struct rule *r, const struct request *q)
{
	if (r->port == PORT_ANY)
		return true;
	if (r->port != PORT_USUAL)
		return r->port == q->port;
	return q->port == (q->scheme == SCHEME_HTTPS ? 443 : 80);
}

/* Of what is known before a request is read. */
static bool place_matches(const struct rule *r, const struct request *q)
{
	return (r->schemes & q->scheme) && host_matches(r, q->host) &&
	       port_matches(r, q);
}

enum fit { FIT_NO, FIT_YES, FIT_UNKNOWN };

static enum fit fits(const struct rule *r, const struct request *q)
{
	if (!place_matches(r, q))
		return FIT_NO;
	/* What has neither a method nor a path: a rule about these is not
	 * about it. */
	if (q->scheme == SCHEME_TCP)
		return r->methods || r->path[0] ? FIT_NO : FIT_YES;
	if (r->methods && q->method &&
	    !(r->methods & method_bit(q->method, strlen(q->method))))
		return FIT_NO;
	if (r->path[0] && q->path && !path_matches(r->path, q->path))
		return FIT_NO;
	if ((r->methods && !q->method) || (r->path[0] && !q->path))
		return FIT_UNKNOWN;
	return FIT_YES;
}

struct decision policy_decide(const struct policy *p, const struct request *q)
{
	static const enum verdict verdicts[EFFECTS] = {
		[EFFECT_DENY] = VERDICT_DENY,
		[EFFECT_ALLOW] = VERDICT_ALLOW,
		[EFFECT_ASK] = VERDICT_ASK,
	};
	size_t i;

	for (i = 0; i < p->n; i++) {
		const struct rule *r = &p->rules[i];

		switch (fits(r, q)) {
		case FIT_NO:
			break;
		case FIT_YES:
			return (struct decision){ verdicts[r->effect], r };
		case FIT_UNKNOWN:
			return (struct decision){ VERDICT_LOOK, r };
		}
	}
	return (struct decision){ VERDICT_DENY, NULL };
}
