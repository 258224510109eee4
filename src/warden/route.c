/*
 * Routes of a sandbox's network: every address is its own, so that a packet to
 * anywhere ends at a socket inside, and there is nowhere else to go.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "warden/warden.h"

enum { LO_INDEX = 1 }; /* in every network namespace */

struct route_msg {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr out;
	int index;
};

/* `ip route replace local default dev lo` */
static int ask(int fd, unsigned char family)
{
	struct route_msg m = {
		.head = { .nlmsg_len = sizeof(m),
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
	};
	/* The answer has the request behind it. */
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		struct route_msg asked;
	} answer;

	if (send(fd, &m, sizeof(m), 0) != (ssize_t)sizeof(m))
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
