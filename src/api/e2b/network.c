#include "api/e2b/network.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"

/* What is not named: the web, wherever it is served. */
#define ALL_OF_THE_WEB "allow * *:*"
/* What upstream says of names without "deny everything". */
#define NEEDS_DENY_ALL                                                 \
	"network.allowOut: names count only where everything else is " \
	"denied: add '0.0.0.0/0' to denyOut, or set "                  \
	"allow_internet_access to false"

static const char *text_of(const json_t *v)
{
	const char *s = json_string_value(v);

	return s && strlen(s) == json_string_length(v) ? s : NULL;
}

static void put(json_t *rules, const char *effect, const char *methods,
		const char *target)
{
	AUTO(buf_done) struct buf line = { 0 };

	buf_printf(&line, "%s %s %s", effect, methods, target);
	json_array_append_new(rules, json_string(buf_str(&line)));
}

/* On every port, whatever is spoken there. */
static void put_network(json_t *rules, const char *effect,
			const struct network *x)
{
	AUTO(buf_done) struct buf target = { 0 };

	buf_puts(&target, "[");
	network_print(x, true, &target);
	buf_puts(&target, "]:*");
	put(rules, effect, "*", buf_str(&target));
	put(rules, effect, "tcp", buf_str(&target));
}

/* A name, perhaps with "*." in front of it, as a rule has it. */
static int read_name(const char *s, char out[POLICY_HOST_CAP])
{
	char name[POLICY_HOST_CAP];
	bool below = str_starts(s, "*."), address = false;
	int n;

	if (below)
		s += 2;
	if (host_read(s, strlen(s), name, &address) < 0 || address)
		return -EINVAL;
	n = snprintf(out, POLICY_HOST_CAP, "%s%s", below ? "*." : "", name);
	return n < POLICY_HOST_CAP ? 0 : -EINVAL;
}

/* What a list says of everything: "0.0.0.0/0". */
static bool is_all(const struct network *x)
{
	return x->bits == 0 || (x->bits == 96 && IN6_IS_ADDR_V4MAPPED(&x->net));
}

/* Of IPv6, by how it is written, and yet all of IPv4 is in it: "::/0". */
static bool is_mixed(const struct network *x)
{
	static const struct in6_addr v4 = {
		.s6_addr = { [10] = 0xff, [11] = 0xff }
	};

	return x->bits < 96 && network_has(x, &v4);
}

struct reading {
	json_t *rules;
	bool names; /* some are allowed by name */
	bool allow_all, deny_all;
};

static int read_allowed(struct reading *r, const char *s, struct err *e)
{
	char name[POLICY_HOST_CAP];
	struct err none = { 0 };
	struct network x;

	if (strcmp(s, "*") == 0) {
		r->allow_all = true;
		return 0;
	}
	if (network_read(&x, s, strlen(s), &none) == 0) {
		if (is_mixed(&x))
			return err_set(e, EINVAL,
				       "network.allowOut: '%.64s' has all of "
				       "IPv4 in it: say '0.0.0.0/0' if that is "
				       "meant, or '2000::/3'",
				       s);
		if (is_all(&x))
			r->allow_all = true;
		else
			put_network(r->rules, "allow", &x);
		return 0;
	}
	if (read_name(s, name) < 0)
		return err_set(e, EINVAL,
			       "network.allowOut: '%.100s' is no name, address "
			       "or CIDR block",
			       s);
	r->names = true;
	put(r->rules, "allow", "*", name);
	return 0;
}

static int read_denied(struct reading *r, const char *s, struct err *e)
{
	struct err none = { 0 };
	struct network x;

	if (network_read(&x, s, strlen(s), &none) < 0)
		return err_set(e, EINVAL,
			       "network.denyOut: '%.100s' is no address or "
			       "CIDR block",
			       s);
	if (is_all(&x))
		r->deny_all = true;
	else
		put_network(r->rules, "deny", &x);
	return 0;
}

static int read_list(struct reading *r, const json_t *network, const char *key,
		     int (*one)(struct reading *r, const char *s,
				struct err *e),
		     struct err *e)
{
	const json_t *list = json_object_get(network, key), *v;
	size_t i;

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list) || json_array_size(list) > SPEC_RULES_MAX / 2)
		return err_set(e, EINVAL,
			       "network.%s: not a list of at most %d", key,
			       SPEC_RULES_MAX / 2);
	json_array_foreach ((json_t *)list, i, v) {
		if (!text_of(v))
			return err_set(e, EINVAL,
				       "network.%s: not a list of texts", key);
		if (one(r, text_of(v), e) < 0)
			return -e->code;
	}
	return 0;
}

static int check_known(const json_t *network, const json_t *internet,
		       struct err *e)
{
	const json_t *proxy = json_object_get(network, "egressProxy");

	if (network && !json_is_null(network) && !json_is_object(network))
		return err_set(e, EINVAL, "network: not an object");
	if (internet && !json_is_null(internet) && !json_is_boolean(internet))
		return err_set(e, EINVAL,
			       "allow_internet_access: not true or false");
	if (proxy && !json_is_null(proxy))
		return err_set(e, EINVAL,
			       "network.egressProxy: not supported here; the "
			       "operator may set upstream_proxy for all");
	return 0;
}

json_t *e2b_network_rules(const json_t *network, const json_t *internet,
			  bool web, struct err *e)
{
	struct reading r = { .rules = json_array() };

	r.deny_all = json_is_false(internet) || !web;
	if (check_known(network, internet, e) < 0 ||
	    read_list(&r, network, "allowOut", read_allowed, e) < 0 ||
	    read_list(&r, network, "denyOut", read_denied, e) < 0) {
		json_decref(r.rules);
		return NULL;
	}
	if (r.names && !r.deny_all && !r.allow_all) {
		json_decref(r.rules);
		err_set(e, EINVAL, NEEDS_DENY_ALL);
		return NULL;
	}
	/* What is allowed beats what is denied, so "all" comes first then. */
	if (r.allow_all)
		json_array_insert_new(r.rules, 0, json_string(ALL_OF_THE_WEB));
	else if (!r.deny_all)
		json_array_append_new(r.rules, json_string(ALL_OF_THE_WEB));
	return r.rules;
}

/* --- headers --- */

/* Is everything that `b` is about also below `a`, "*.x.test"? */
static bool covers(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	/* "*.x.test" has "a.x.test", "*.a.x.test": what ends in ".x.test". */
	return str_starts(a, "*.") && m > n - 1 &&
	       strcmp(b + m - (n - 1), a + 1) == 0;
}

static bool has_field(const struct e2b_headers *h, const char *host,
		      const char *field)
{
	size_t i;

	for (i = 0; i < h->n; i++)
		if (strcmp(h->all[i].host, host) == 0 &&
		    strcasecmp(h->all[i].field, field) == 0)
			return true;
	return false;
}

/*
 * Theirs takes the rules of the most special host and no others; a door adds
 * all that fit, one for each field. Both are the same when the special ones
 * have all the fields of the others.
 */
static int check_overlaps(const struct e2b_headers *h, struct err *e)
{
	size_t i, k;

	for (i = 0; i < h->n; i++)
		for (k = 0; k < h->n; k++)
			if (covers(h->all[i].host, h->all[k].host) &&
			    !has_field(h, h->all[k].host, h->all[i].field))
				return err_set(
					e, EINVAL,
					"network.rules: '%.64s' has no header "
					"'%.64s', and '%.64s' has: give it to "
					"both, or name other hosts",
					h->all[k].host, h->all[i].field,
					h->all[i].host);
	return 0;
}

/* A name itself is more special than what is below one, long more than short
 * ones. */
static bool is_before(const char *a, const char *b)
{
	bool below = str_starts(a, "*."), other = str_starts(b, "*.");

	return below == other ? below && strlen(a) > strlen(b) : other;
}

/* The most special first: what is earlier wins. */
static struct e2b_header *place_for(struct e2b_headers *h, const char *host)
{
	size_t i = h->n;

	while (i > 0 && is_before(host, h->all[i - 1].host))
		i--;
	memmove(&h->all[i + 1], &h->all[i], (h->n - i) * sizeof(h->all[0]));
	h->n++;
	return &h->all[i];
}

static int add_header(struct e2b_headers *h, const char *host,
		      const char *field, json_t *value, struct err *e)
{
	struct e2b_header *x;
	size_t i, n = 0;

	if (!text_of(value) || json_string_length(value) == 0)
		return err_set(e, EINVAL,
			       "network.rules: the value of '%.64s' is no text",
			       field);
	for (i = 0; i < h->n; i++) {
		x = &h->all[i];
		n += strcmp(x->host, host) == 0;
		if (strcmp(x->host, host) != 0 ||
		    strcasecmp(x->field, field) != 0)
			continue;
		x->value = value; /* a later rule of the host */
		return 0;
	}
	if (n == E2B_HEADERS_MAX || h->n == ARRAY_LEN(h->all))
		return err_set(e, EINVAL,
			       "network.rules: at most %d headers of a host, "
			       "%zu of all",
			       E2B_HEADERS_MAX, ARRAY_LEN(h->all));
	x = place_for(h, host);
	memcpy(x->host, host, sizeof(x->host));
	x->value = value;
	if (str_copy(x->field, sizeof(x->field), field) < 0)
		return err_set(e, EINVAL,
			       "network.rules: a header's name is long");
	return 0;
}

static int read_rule(struct e2b_headers *h, const char *host,
		     const json_t *rule, struct err *e)
{
	const json_t *change = json_object_get(rule, "transform");
	json_t *headers = json_object_get(change, "headers"), *v;
	const char *field;

	if (!json_is_object(rule) || (change && !json_is_object(change)) ||
	    (headers && !json_is_object(headers)))
		return err_set(e, EINVAL,
			       "network.rules: not {\"transform\": "
			       "{\"headers\": {...}}}");
	json_object_foreach (headers, field, v)
		if (add_header(h, host, field, v, e) < 0)
			return -e->code;
	return 0;
}

int e2b_network_headers(const json_t *network, struct e2b_headers *out,
			struct err *e)
{
	json_t *rules = json_object_get(network, "rules"), *list;
	char host[POLICY_HOST_CAP];
	const char *key;
	size_t i;

	out->n = 0;
	if (!rules || json_is_null(rules))
		return 0;
	if (!json_is_object(rules))
		return err_set(e, EINVAL, "network.rules: not an object");
	json_object_foreach (rules, key, list) {
		if (read_name(key, host) < 0)
			return err_set(e, EINVAL,
				       "network.rules: '%.100s' is no name, or "
				       "'*.' and a name",
				       key);
		if (!json_is_array(list))
			return err_set(e, EINVAL,
				       "network.rules: '%.100s' has no list of "
				       "rules",
				       key);
		for (i = 0; i < json_array_size(list); i++)
			if (read_rule(out, host, json_array_get(list, i), e) <
			    0)
				return -e->code;
	}
	return check_overlaps(out, e);
}

/* --- what is shown --- */

static void hide_values(json_t *rule)
{
	json_t *headers =
		json_object_get(json_object_get(rule, "transform"), "headers");
	void *at = json_object_iter(headers);

	for (; at; at = json_object_iter_next(headers, at))
		json_object_iter_set_new(headers, at, json_string("***"));
}

json_t *e2b_network_shown(const json_t *network)
{
	json_t *out = json_object(), *rules, *list;
	static const char *const keys[] = {
		"allowOut",           "denyOut",         "rules",
		"allowPublicTraffic", "maskRequestHost", "httpsPorts"
	};
	const char *host;
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		json_t *v = json_object_get(network, keys[i]);

		if (v && !json_is_null(v))
			json_object_set_new(out, keys[i], json_deep_copy(v));
	}
	rules = json_object_get(out, "rules");
	json_object_foreach (rules, host, list)
		for (i = 0; i < json_array_size(list); i++)
			hide_values(json_array_get(list, i));
	return out;
}
