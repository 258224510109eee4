#include "api/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/e2b/e2b.h"
#include "api/reply.h"
#include "base/guards.h"
#include "http/server.h"

enum { HOST_CAP = 254 };

/*
 * The name or address in `s` ("name:port", "[::1]:port") in lower case,
 * without brackets and without the dot of a full name. false: neither.
 */
static bool host_name(const char *s, char out[HOST_CAP])
{
	const char *end = s[0] == '[' ? strchr(s, ']') : s + strcspn(s, ":");
	size_t i, n;

	if (!end)
		return false;
	s += *s == '[';
	n = (size_t)(end - s);
	end += *end == ']';
	if (*end == ':')
		end += 1 + strspn(end + 1, "0123456789");
	if (*end || n == 0 || n >= HOST_CAP)
		return false;
	for (i = 0; i < n; i++)
		out[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]);
	if (n > 1 && out[n - 1] == '.')
		n--;
	out[n] = '\0';
	return true;
}

static bool is_address(const char *name)
{
	struct in6_addr a;

	return inet_pton(AF_INET, name, &a) == 1 ||
	       inet_pton(AF_INET6, name, &a) == 1;
}

/* The part in front of ".domain", as a length; 0: not below it. */
static size_t below(const char *name, const char *domain)
{
	size_t n = strlen(name), len = strlen(domain);

	if (len == 0 || n <= len + 1 || name[n - len - 1] != '.' ||
	    strcasecmp(name + n - len, domain) != 0)
		return 0;
	return n - len - 1;
}

static bool in_list(const char *list, const char *name)
{
	size_t len = strlen(name);

	while (*list) {
		size_t n;

		list += strspn(list, " ,");
		n = strcspn(list, " ,");
		if (n == len && strncasecmp(list, name, n) == 0)
			return true;
		list += n;
	}
	return false;
}

bool host_is_loopback(const char *host)
{
	char name[HOST_CAP];

	return host_name(host, name) &&
	       (in_list("localhost,127.0.0.1,::1", name) ||
		below(name, "localhost"));
}

bool host_is_ours(const struct conf *c, const char *host)
{
	char name[HOST_CAP], own[HOST_CAP];

	if (!host_name(host, name))
		return false;
	if (in_list("localhost,127.0.0.1,::1", name) ||
	    in_list(c->allowed_hosts, name))
		return true;
	if (*c->domain &&
	    (strcasecmp(name, c->domain) == 0 || below(name, c->domain)))
		return true;
	if (!host_name(c->listen, own))
		return false;
	/* Who came by an address was not led here by a name. */
	if (strcmp(own, "0.0.0.0") == 0 || strcmp(own, "::") == 0)
		return is_address(name);
	return strcmp(own, name) == 0;
}

bool origin_is_same(const char *origin, const char *host)
{
	if (strncasecmp(origin, "http://", 7) == 0)
		origin += 7;
	else if (strncasecmp(origin, "https://", 8) == 0)
		origin += 8;
	else
		return false;
	return strcasecmp(origin, host) == 0;
}

bool host_is_preview(const struct conf *c, const char *host, uint16_t *port,
		     char id[ID_CAP])
{
	char name[HOST_CAP];
	uint64_t n = 0;
	char *dash;
	size_t len;

	if (!host_name(host, name))
		return false;
	len = below(name, c->domain);
	name[len] = '\0';
	dash = strchr(name, '-');
	if (!dash)
		return false;
	*dash++ = '\0';
	if (*name == '0' || parse_u64(name, 65535, &n) < 0 || n == 0 ||
	    !id_valid(dash))
		return false;
	*port = (uint16_t)n;
	memcpy(id, dash, ID_CAP);
	return true;
}

bool hosts_check(struct api *a, struct http_conn *c)
{
	const struct http_head *h = http_request(c);
	const char *host = http_header(h, "host");
	const char *origin = http_header(h, "origin");
	char id[ID_CAP], msg[400];
	uint16_t port;

	if (http_is_local(c))
		return true;
	if (!host) {
		reply_error(a, c, 400, "bad_request", "no Host field");
		return false;
	}
	if (GUARD(HOSTS) && !host_is_ours(&a->conf, host)) {
		snprintf(msg, sizeof(msg),
			 "'%.200s' is not a name of this server: see "
			 "allowed_hosts in its configuration",
			 host);
		reply_error(a, c, 421, "misdirected", msg);
		return false;
	}
	/* What comes to a preview is for what runs in it to judge. */
	if (!GUARD(ORIGIN) || !origin || origin_is_same(origin, host) ||
	    host_is_preview(&a->conf, host, &port, id) || e2b_is_to_sandbox(h))
		return true;
	reply_error(a, c, 403, "foreign_origin",
		    "pages of other servers may not ask this one");
	return false;
}
