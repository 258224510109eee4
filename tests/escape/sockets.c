/* Group D, sockets: families, protocols and options that a sandbox lacks. */
#include "probe.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static void d11(void)
{
	/* the kernel may lack it, so that the filter shows in the others */
	REFUSED("AF_ALG", socket(38, SOCK_SEQPACKET, 0), EAFNOSUPPORT);
	REFUSED("AF_ALG pair", socketpair(38, SOCK_SEQPACKET, 0, (int[2]){ 0 }),
		EAFNOSUPPORT);
	/* without the filter the kernel says EOPNOTSUPP */
	REFUSED("pair of AF_INET",
		socketpair(AF_INET, SOCK_STREAM, 0, (int[2]){ 0 }),
		EAFNOSUPPORT);
}

static void d12(void)
{
	char name[32];

	REFUSED("AF_RXRPC", socket(33, SOCK_DGRAM, 2), EAFNOSUPPORT);
	REFUSED("AF_KEY", socket(15, SOCK_RAW, 2), EAFNOSUPPORT);
	for (int proto = 1; proto <= 22; proto++) {
		snprintf(name, sizeof(name), "netlink %d", proto);
		REFUSED(name, socket(AF_NETLINK, SOCK_RAW, proto),
			EPROTONOSUPPORT);
	}
	wall(socket(AF_NETLINK, SOCK_RAW, 0) >= 0 || peer(),
	     "NETLINK_ROUTE is refused: getifaddrs() fails");
}

static void d13(void)
{
	REFUSED("AF_VSOCK", socket(40, SOCK_STREAM, 0), EAFNOSUPPORT);
	REFUSED("AF_VSOCK datagrams", socket(40, SOCK_DGRAM, 0), EAFNOSUPPORT);
	/* a family that always exists, and is EPERM without the filter */
	REFUSED("AF_PACKET", socket(17, SOCK_RAW, 0), EAFNOSUPPORT);
}

static void d14(void)
{
	char name[32];

	for (int family = 0; family <= 64; family++) {
		if (family == AF_UNIX || family == AF_INET ||
		    family == AF_INET6 || family == AF_NETLINK)
			continue;
		snprintf(name, sizeof(name), "family %d", family);
		REFUSED(name, socket(family, SOCK_RAW, 0), EAFNOSUPPORT);
		REFUSED(name, socket(family, SOCK_DGRAM, 0), EAFNOSUPPORT);
	}
}

static void d15(void)
{
	static const char *const ulps[] = { "tls", "espintcp", "smc", "mptcp" };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	for (size_t i = 0; i < ALL(ulps); i++)
		REFUSED(ulps[i], setsockopt(fd, IPPROTO_TCP, 31, ulps[i], 8),
			EPERM);
	REFUSED("IPPROTO_SCTP", socket(AF_INET, SOCK_STREAM, 132),
		EPROTONOSUPPORT);
	REFUSED("IPPROTO_MPTCP", socket(AF_INET, SOCK_STREAM, 262),
		EPROTONOSUPPORT);
	close(fd);
}

static void d16(void)
{
	struct sock_filter ret = { BPF_RET | BPF_K, 0, 0, ~0U };
	struct sock_fprog prog = { 1, &ret };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), minus = -1, encap = 2;

	REFUSED("SO_ATTACH_FILTER",
		setsockopt(fd, SOL_SOCKET, 26, &prog, sizeof(prog)), EPERM);
	REFUSED("SO_ATTACH_BPF",
		setsockopt(fd, SOL_SOCKET, 50, &minus, sizeof(minus)), EPERM);
	REFUSED("SO_ATTACH_REUSEPORT_CBPF",
		setsockopt(fd, SOL_SOCKET, 51, &prog, sizeof(prog)), EPERM);
	REFUSED("SO_ATTACH_REUSEPORT_EBPF",
		setsockopt(fd, SOL_SOCKET, 52, &minus, sizeof(minus)), EPERM);
	REFUSED("UDP_ENCAP", setsockopt(fd, 17, 100, &encap, sizeof(encap)),
		EPERM);
	REFUSED("IP_XFRM_POLICY", setsockopt(fd, 0, 17, &encap, sizeof(encap)),
		EPERM);
	close(fd);
}

/* The pair would take it: the kernel refuses it of datagrams alone. */
static void d28(void)
{
	char byte = 'x';
	struct iovec io = { .iov_base = &byte, .iov_len = 1 };
	struct mmsghdr many = { .msg_hdr = { .msg_iov = &io,
					     .msg_iovlen = 1 } };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		gap("no pair of sockets: %s", errno_name(errno));
		return;
	}
	REFUSED("send", send(pair[0], "x", 1, MSG_OOB), EOPNOTSUPP);
	REFUSED("send with other flags",
		send(pair[0], "x", 1, MSG_OOB | MSG_NOSIGNAL), EOPNOTSUPP);
	REFUSED("sendmsg", sendmsg(pair[0], &many.msg_hdr, MSG_OOB),
		EOPNOTSUPP);
	REFUSED("sendmmsg", sendmmsg(pair[0], &many, 1, MSG_OOB), EOPNOTSUPP);
	wall(send(pair[0], "x", 1, MSG_NOSIGNAL) == 1 || peer(),
	     "plain data is refused, too");
	close(pair[0]);
	close(pair[1]);
}

static void g2(void)
{
	REFUSED("raw IPv4", socket(AF_INET, SOCK_RAW, IPPROTO_RAW), EPERM,
		EPROTONOSUPPORT);
	REFUSED("raw IPv6", socket(AF_INET6, SOCK_RAW, IPPROTO_RAW), EPERM,
		EPROTONOSUPPORT);
	REFUSED("raw UDP", socket(AF_INET, SOCK_RAW, IPPROTO_UDP), EPERM);
	REFUSED("ping", socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP),
		EPROTONOSUPPORT);
	REFUSED("ping, IPv6", socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6),
		EPROTONOSUPPORT);
}

const struct row rows_sockets[] = {
	{ "D11", "AF_ALG", d11, 0, 0 },
	{ "D12", "RxRPC, PF_KEY, netlink", d12, 0, 0 },
	{ "D13", "vsock", d13, 0, 0 },
	{ "D14", "every other family", d14, 0, 0 },
	{ "D15", "TCP_ULP and other transports", d15, 0, 0 },
	{ "D16", "BPF on sockets, UDP_ENCAP", d16, 0, 0 },
	{ "D28", "urgent data of unix sockets", d28, 0, 0 },
	{ "G2", "raw and ping sockets", g2, 0, 0 },
	{ 0 },
};
