/* Addresses that are nobody's business. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>

#include "base/auto.h"
#include "check.h"
#include "gate/dial.h"

static bool forbidden(const char *s)
{
	const char *why;
	struct in6_addr a;

	if (address_read(&a, s) < 0) {
		printf("# %s is no address\n", s);
		return false;
	}
	why = address_forbidden(&a);
	printf("# %s: %s\n", s, why ? why : "fine");
	return why;
}

static const char *const bad[] = {
	"0.0.0.0",
	"0.1.2.3",
	"10.0.0.1",
	"10.255.255.255",
	"100.64.0.1",
	"100.127.255.255",
	"100.100.100.200",
	"127.0.0.1",
	"127.255.255.254",
	"169.254.0.1",
	"169.254.169.254",
	"169.254.170.2",
	"172.16.0.1",
	"172.31.255.255",
	"192.0.0.1",
	"192.0.0.192",
	"192.88.99.1",
	"192.168.1.1",
	"198.18.0.1",
	"198.19.255.255",
	"224.0.0.1",
	"239.255.255.255",
	"240.0.0.1",
	"255.255.255.255",
	"168.63.129.16",
	"::",
	"::1",
	"::127.0.0.1",
	"::8.8.8.8",
	"::ffff:127.0.0.1",
	"::ffff:10.0.0.1",
	"::ffff:169.254.169.254",
	"::ffff:0:127.0.0.1",
	"64:ff9b::7f00:1",
	"64:ff9b::10.0.0.1",
	"64:ff9b::169.254.169.254",
	"64:ff9b:1::8.8.8.8",
	"100::1",
	"2001::1",
	"2001:0:7f00:1::",
	"2001:10::1",
	"2001:20::1",
	"2002:7f00:1::",
	"2002:a00:1::1",
	"fc00::1",
	"fd00::1",
	"fd00:ec2::254",
	"fd20:ce::254",
	"fe80::1",
	"febf::1",
	"fec0::1",
	"ff02::1",
	"ff0e::1",
};

static const char *const good[] = {
	"1.1.1.1",         "8.8.8.8",         "9.255.255.255",
	"11.0.0.1",        "100.63.255.255",  "100.128.0.1",
	"126.255.255.255", "128.0.0.1",       "169.253.255.255",
	"169.255.0.1",     "172.15.255.255",  "172.32.0.1",
	"192.0.1.1",       "192.167.255.255", "192.169.0.1",
	"198.17.255.255",  "198.20.0.1",      "203.0.113.10",
	"223.255.255.255", "::ffff:8.8.8.8",  "64:ff9b::8.8.8.8",
	"2001:200::1",     "2001:db8::1",     "2003::1",
	"2606:4700::1111", "2a00:1450::1",    "fe00::1",
};

/* Whatever this machine has is its own, and forbidden. */
static void test_own(void)
{
	struct ifaddrs *all = NULL, *i;
	struct in6_addr a;
	char text[64];

	if (getifaddrs(&all) < 0)
		return;
	for (i = all; i; i = i->ifa_next) {
		int family = i->ifa_addr ? i->ifa_addr->sa_family : 0;
		const void *p =
			family == AF_INET
				? (void *)&((struct sockaddr_in *)i->ifa_addr)
					  ->sin_addr
				: (void *)&((struct sockaddr_in6 *)i->ifa_addr)
					  ->sin6_addr;

		if ((family != AF_INET && family != AF_INET6) ||
		    !(i->ifa_flags & IFF_UP) ||
		    !inet_ntop(family, p, text, sizeof(text)) ||
		    address_read(&a, text) < 0)
			continue;
		CHECK(forbidden(text));
	}
	freeifaddrs(all);
}

int main(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(forbidden(bad[i]));
	for (i = 0; i < ARRAY_LEN(good); i++)
		CHECK(!forbidden(good[i]));
	test_own();
	return CHECK_DONE();
}
