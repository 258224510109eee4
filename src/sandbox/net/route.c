/*
 * Routes of a sandbox's network: every address is its own, so that a packet to
 * anywhere ends at a socket inside, and there is nowhere else to go.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "sandbox/net/net.h"

enum { LO_INDEX = 1 }; /* in every network namespace */

struct route_msg {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr out;
	int index;
	/* IPv4 alone: what has no address of its own would take the one that
	 * it connects to, and with the same port for both meet itself. */
	struct rtattr from;
	struct in_addr loopback;
};

/* `ip route replace local default dev lo [src 127.0.0.1]` */
static int ask(int fd, unsigned char family)
{
	const size_t n = family == AF_INET ? sizeof(struct route_msg)
					   : offsetof(struct route_msg, from);
	struct route_msg m = {
		.head = { .nlmsg_len = (uint32_t)n,
			  .nlmsg_type = RTM_NEWROUTE,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK |
					 NLM_F_CREATE | NLM_F_REPLACE },
		.route = { .rtm_family = family,
			   .rtm_table = RT_TABLE_LOCAL,
			   .rtm_protocol = RTPROT_STATIC,
			   .rtm_scope = RT_SCOPE_HOST,
			   .rtm_type = RTN_LOCAL },
		.out = { .rta_len = sizeof(m.out) + sizeof(m.index),
			 .rta_type = RTA_OIF },
		.index = LO_INDEX,
		.from = { .rta_len = sizeof(m.from) + sizeof(m.loopback),
			  .rta_type = RTA_PREFSRC },
		.loopback = { htonl(INADDR_LOOPBACK) },
	};
	/* The answer has the request behind it. */
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		struct route_msg asked;
	} answer;

	if (send(fd, &m, n, 0) != (ssize_t)n)
		return -errno;
	/* The kernel answers before send() returns. */
	if (recv(fd, &answer, sizeof(answer), MSG_DONTWAIT) <
		    (ssize_t)NLMSG_LENGTH(sizeof(answer.err)) ||
	    answer.head.nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return answer.err.error;
}

/* A host without IPv6: its sandboxes have none either, nothing is to do. */
static int ask_v6(int fd)
{
	int r = ask(fd, AF_INET6);

	return r == -EAFNOSUPPORT || r == -EOPNOTSUPP || r == -EACCES ||
			       r == -ENODEV
		       ? 0
		       : r;
}

int route_all_here(struct err *e)
{
	AUTO_CLOSE int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int r;

	if (fd < 0)
		return err_sys(e, "open rtnetlink");
	r = ask(fd, AF_INET);
	if (r == 0)
		r = ask_v6(fd);
	return r < 0 ? err_set(e, -r, "set a route: %s", strerror(-r)) : 0;
}
