/*
 * Addresses that are nobody's business: those of this host, of its networks,
 * of the services that clouds keep next to it, and those that are another
 * address in disguise. A name that somebody else controls can have any of
 * them. What RFC 6890 calls not global is here, but for the networks of
 * examples: nobody lives there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/guards.h"
#include "gate/dial.h"

enum { MAPPED_BITS = 96 };

static const char private[] = "a private address";
static const char metadata[] = "the metadata service of a cloud";
static const char reserved[] = "a reserved address";
static const char disguise[] = "an IPv4 address in disguise";

/* The first that matches says why. */
static const struct row {
	const char *text;
	unsigned bits;
	const char *why;
} networks[] = {
	{ "169.254.169.254", 32, metadata },
	{ "169.254.170.2", 32, metadata },
	{ "169.254.170.23", 32, metadata },
	{ "100.100.100.200", 32, metadata },
	{ "168.63.129.16", 32, metadata },
	{ "192.0.0.192", 32, metadata },
	{ "fd00:ec2::254", 128, metadata },
	{ "fd00:ec2::23", 128, metadata },
	{ "fd20:ce::254", 128, metadata },
	{ "0.0.0.0", 8, "an address of this host" },
	{ "10.0.0.0", 8, private },
	{ "100.64.0.0", 10, "an address of a provider's inner network" },
	{ "127.0.0.0", 8, "a loopback address" },
	{ "169.254.0.0", 16, "a link-local address" },
	{ "172.16.0.0", 12, private },
	{ "192.0.0.0", 24, reserved },
	{ "192.31.196.0", 24, reserved },
	{ "192.52.193.0", 24, reserved },
	{ "192.88.99.0", 24, disguise },
	{ "192.168.0.0", 16, private },
	{ "192.175.48.0", 24, reserved },
	{ "198.18.0.0", 15, "an address of benchmarks" },
	{ "224.0.0.0", 4, "a multicast address" },
	{ "240.0.0.0", 4, reserved },
	{ "::", 128, "an address of this host" },
	{ "::1", 128, "a loopback address" },
	{ "::", 96, disguise },
	{ "::ffff:0:0:0", 96, disguise }, /* SIIT */
	{ "64:ff9b:1::", 48, disguise },
	{ "100::", 64, reserved },
	{ "2001::", 32, disguise }, /* Teredo */
	{ "2001::", 23, reserved },
	{ "2002::", 16, disguise }, /* 6to4 */
	{ "3ffe::", 16, reserved },
	{ "5f00::", 16, reserved },
	{ "fc00::", 7, private },
	{ "fe80::", 10, "a link-local address" },
	{ "fec0::", 10, private },
	{ "ff00::", 8, "a multicast address" },
};

void address_map(struct in6_addr *out, const void *v4)
{
	static const unsigned char prefix[12] = { [10] = 0xff, [11] = 0xff };

	memcpy(out->s6_addr, prefix, sizeof(prefix));
	memcpy(out->s6_addr + sizeof(prefix), v4, 4);
}

int address_read(struct in6_addr *out, const char *s)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, s, &v4) == 1)
		address_map(out, &v4);
	else if (inet_pton(AF_INET6, s, out) != 1)
		return -EINVAL;
	return 0;
}

void address_text(const struct in6_addr *a, char out[ADDRESS_CAP])
{
	bool mapped = IN6_IS_ADDR_V4MAPPED(a);

	if (!inet_ntop(mapped ? AF_INET : AF_INET6,
		       a->s6_addr + (mapped ? 12 : 0), out, ADDRESS_CAP))
		out[0] = '\0';
}

socklen_t address_socket(const struct in6_addr *a, uint16_t port,
			 struct sockaddr_storage *out)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(port),
				   .sin6_addr = *a };

	memset(out, 0, sizeof(*out));
	if (!IN6_IS_ADDR_V4MAPPED(a)) {
		memcpy(out, &v6, sizeof(v6));
		return sizeof(v6);
	}
	memcpy(&v4.sin_addr, a->s6_addr + 12, sizeof(v4.sin_addr));
	memcpy(out, &v4, sizeof(v4));
	return sizeof(v4);
}

static bool within(const struct in6_addr *a, const struct in6_addr *net,
		   unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;

	if (memcmp(a, net, bytes) != 0)
		return false;
	return rest == 0 ||
	       ((a->s6_addr[bytes] ^ net->s6_addr[bytes]) >> (8 - rest)) == 0;
}

static const char *listed(const struct in6_addr *a)
{
	struct in6_addr net;
	unsigned i, bits;

	for (i = 0; i < ARRAY_LEN(networks); i++) {
		bits = networks[i].bits;
		if (address_read(&net, networks[i].text) < 0)
			return reserved; /* a row that is wrong */
		if (strchr(networks[i].text, '.'))
			bits += MAPPED_BITS;
		if (within(a, &net, bits))
			return networks[i].why;
	}
	return NULL;
}

/*
 * Would a packet to it stay here? Then its source would be the address itself.
 * Not by binding to it: a host may permit that for every address
 * (ip_nonlocal_bind). Connecting a datagram socket sends nothing. An address
 * that cannot be asked about is taken for our own.
 */
static bool is_ours(const struct in6_addr *a)
{
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} from;
	struct sockaddr_storage to;
	socklen_t to_n = address_socket(a, 9, &to), n = sizeof(from);
	AUTO_CLOSE int fd = -1;

	memset(&from, 0, sizeof(from));
	fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	if (connect(fd, (struct sockaddr *)&to, to_n) < 0)
		return errno != ENETUNREACH && errno != EHOSTUNREACH &&
		       errno != EADDRNOTAVAIL;
	if (getsockname(fd, (struct sockaddr *)&from, &n) < 0)
		return true;
	if (to.ss_family == AF_INET)
		return memcmp(&from.v4.sin_addr, a->s6_addr + 12, 4) == 0;
	return IN6_ARE_ADDR_EQUAL(&from.v6.sin6_addr, a);
}

const char *address_forbidden(const struct in6_addr *a)
{
	static const struct in6_addr nat64 = { .s6_addr = { 0x00, 0x64, 0xff,
							    0x9b } };
	struct in6_addr inner;
	const char *why = GUARD(ADDRESSES) ? listed(a) : NULL;

	if (why)
		return why;
	/* A network without IPv4 reaches all of it so: judged by what it is. */
	if (within(a, &nat64, 96)) {
		address_map(&inner, a->s6_addr + 12);
		return address_forbidden(&inner);
	}
	return GUARD(OWNADDRESS) && is_ours(a) ? "an address of this host"
					       : NULL;
}
