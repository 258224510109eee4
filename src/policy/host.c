/*
 * Hosts, as they are compared: one spelling for each. What resolvers would
 * understand in more than one way is refused, not guessed.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/guards.h"
#include "policy/policy.h"

enum { LABEL_MAX = 63 };

static bool label_ok(const char *s, size_t n)
{
	size_t i;

	if (n == 0 || n > LABEL_MAX || s[0] == '-' || s[n - 1] == '-')
		return false;
	for (i = 0; i < n; i++)
		if (!islower((unsigned char)s[i]) &&
		    !isdigit((unsigned char)s[i]) && s[i] != '-' && s[i] != '_')
			return false;
	return true;
}

/* "0x7f.1", "127.1", "2130706433": a last label that is a number. */
static bool looks_like_address(const char *name)
{
	const char *dot = strrchr(name, '.');
	const char *last = dot ? dot + 1 : name;

	return isdigit((unsigned char)last[0]) &&
	       (last[strspn(last, "0123456789")] == '\0' ||
		strncmp(last, "0x", 2) == 0);
}

static int read_name(char *out)
{
	char *p = out, *end;

	if (!GUARD(HOSTFORM))
		return 0;
	for (;;) {
		end = strchr(p, '.');
		if (!label_ok(p, end ? (size_t)(end - p) : strlen(p)))
			return -EINVAL;
		if (!end)
			break;
		p = end + 1;
	}
	return looks_like_address(out) ? -EINVAL : 0;
}

static int read_v6(const char *s, size_t n, char out[POLICY_HOST_CAP])
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr a;

	if (n >= sizeof(text))
		return -EINVAL;
	memcpy(text, s, n);
	text[n] = '\0';
	if (inet_pton(AF_INET6, text, &a) != 1)
		return -EINVAL;
	/* An IPv4 address in disguise is compared as what it is. */
	if (IN6_IS_ADDR_V4MAPPED(&a))
		return inet_ntop(AF_INET, &a.s6_addr[12], out, POLICY_HOST_CAP)
			       ? 0
			       : -EINVAL;
	return inet_ntop(AF_INET6, &a, out, POLICY_HOST_CAP) ? 0 : -EINVAL;
}

int host_read(const char *s, size_t n, char out[POLICY_HOST_CAP], bool *address)
{
	struct in_addr v4;
	size_t i;

	*address = true;
	if (n >= 2 && s[0] == '[' && s[n - 1] == ']')
		return read_v6(s + 1, n - 2, out);
	if (n > 1 && s[n - 1] == '.')
		n--;
	if (n == 0 || n >= POLICY_HOST_CAP || memchr(s, '\0', n))
		return -EINVAL;
	for (i = 0; i < n; i++)
		out[i] = (char)tolower((unsigned char)s[i]);
	out[n] = '\0';
	if (inet_pton(AF_INET, out, &v4) == 1)
		return inet_ntop(AF_INET, &v4, out, POLICY_HOST_CAP) ? 0
								     : -EINVAL;
	*address = false;
	return read_name(out);
}
