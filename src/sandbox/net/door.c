/*
 * The sockets of a sandbox's door. They are born in its network: the gate,
 * which has no other way in, gets them by the api; in a microVM they are the
 * guest's own, too, and whoever is accepted there is carried to those of the
 * host.
 *
 *	proxy	TCP 127.0.0.1:3128
 *	dns	UDP 127.0.0.1:53
 *	tcp	every port of every other address
 *	udp	port 53 of every other address
 *	link	steers to the last two (steer.c)
 *	self	TCP 127.0.0.1:49983, for those that expect something there
 *
 * Who is inside can have taken the ports before: then there is no door, and
 * nothing goes out. The routes and the program belong to who made the network,
 * and no capability inside reaches them.
 */
#include "sandbox/net/door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "sandbox/net/net.h"

enum {
	PROXY_PORT = 3128,
	DNS_PORT = 53,
	SELF_PORT = 49983,
	NO_PORT = 1, /* tcp must be bound to something that nobody misses */
	BACKLOG = 1024,
	ROOM = 128 * 1024, /* for what a connection sent and nobody read yet */
	FDS_SPARE = 512,   /* the warden's own, launches before all */
};

static const struct kind {
	int type;
	uint16_t port;
	bool all; /* addresses, that is: by the program */
} kinds[] = {
	[DOOR_FD_PROXY] = { SOCK_STREAM, PROXY_PORT, false },
	[DOOR_FD_DNS] = { SOCK_DGRAM, DNS_PORT, false },
	[DOOR_FD_TCP] = { SOCK_STREAM, NO_PORT, true },
	[DOOR_FD_UDP] = { SOCK_DGRAM, DNS_PORT, true },
};

/*
 * What is for all addresses is bound to one of those that are kept for
 * documentation, so that it is in nobody's way inside. As a mapped address: one
 * of IPv6 would take IPv6 alone.
 */
static int bind_to(int fd, const struct kind *k, int family)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET,
				  .sin_port = htons(k->port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(k->port) };

	a4.sin_addr.s_addr = htonl(k->all ? 0xc0000201 : INADDR_LOOPBACK);
	if (family == AF_INET)
		return bind(fd, (struct sockaddr *)&a4, sizeof(a4));
	a6.sin6_addr.s6_addr[10] = a6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&a6.sin6_addr.s6_addr[12], &a4.sin_addr, sizeof(a4.sin_addr));
	return bind(fd, (struct sockaddr *)&a6, sizeof(a6));
}

static int turn_on(int fd, int level, int option)
{
	const int on = 1;

	return setsockopt(fd, level, option, &on, sizeof(on));
}

/* To be bound where no address is yet, and to answer from any that was asked */
static int set_up_all(int fd, const struct kind *k, int family)
{
	const int off = 0;

	if (family == AF_INET6 &&
	    (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0 ||
	     turn_on(fd, IPPROTO_IPV6, IPV6_FREEBIND) < 0))
		return -1;
	if (family == AF_INET && turn_on(fd, IPPROTO_IP, IP_FREEBIND) < 0)
		return -1;
	if (k->type == SOCK_STREAM)
		return 0;
	return family == AF_INET6 ? turn_on(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO)
				  : turn_on(fd, IPPROTO_IP, IP_PKTINFO);
}

/* The gate is not allowed to set options; what is accepted inherits these. */
static int set_up(int fd, const struct kind *k, int family)
{
	const int room = ROOM;

	/* Said once, it stays so: memory of the host's, not of the sandbox's,
	 * would grow up to tcp_rmem for each. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) < 0)
		return -1;
	/* Not for UDP: then others could take the port away. */
	if (k->type == SOCK_STREAM &&
	    (turn_on(fd, SOL_SOCKET, SO_REUSEADDR) < 0 ||
	     turn_on(fd, IPPROTO_TCP, TCP_NODELAY) < 0))
		return -1;
	return k->all ? set_up_all(fd, k, family) : 0;
}

static bool nearly_full(int fd)
{
	struct rlimit files;

	return getrlimit(RLIMIT_NOFILE, &files) == 0 &&
	       (rlim_t)fd + FDS_SPARE > files.rlim_cur;
}

static int make_socket(const struct kind *k, int family, struct err *e)
{
	AUTO_CLOSE int fd =
		socket(family, k->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_sys(e, "make a socket");
	if (nearly_full(fd))
		return err_set(e, EMFILE,
			       "too many doors for this host's limit of open "
			       "files (LimitNOFILE)");
	if (set_up(fd, k, family) < 0)
		return err_sys(e, "set up a socket");
	if (bind_to(fd, k, family) < 0)
		return errno == EADDRINUSE
			       ? err_set(e, EADDRINUSE,
					 "port %u is taken, by a program "
					 "inside or by a gate from before",
					 k->port)
			       : err_sys(e, "take port %u", k->port);
	if (k->type == SOCK_STREAM && listen(fd, BACKLOG) < 0)
		return err_sys(e, "listen on port %u", k->port);
	return take_fd(&fd);
}

/* The network that we are in. Never the own one: what follows would cut it
 * off. */
static int this_net(int home_fd, struct err *e)
{
	AUTO_CLOSE int any_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	AUTO_CLOSE int fd = any_fd < 0 ? -1 : ioctl(any_fd, SIOCGSKNS);
	struct stat ours, its;

	if (fd < 0 || fstat(home_fd, &ours) < 0 || fstat(fd, &its) < 0)
		return err_sys(e, "find its network");
	if (ours.st_ino == its.st_ino && ours.st_dev == its.st_dev)
		return err_set(e, EPERM, "it has the host's network");
	return take_fd(&fd);
}

static int family_of_host(void)
{
	AUTO_CLOSE int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? AF_INET : AF_INET6;
}

static int make_sockets(int fds[GATE_FDS_MAX], struct err *e)
{
	const int family = family_of_host();
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		fds[i] = make_socket(&kinds[i], kinds[i].all ? family : AF_INET,
				     e);
		if (fds[i] < 0)
			return -e->code;
	}
	return 0;
}

/* The kernel cannot do it, or is told not to: not a failure of this one. */
static bool cannot(int r)
{
	return r == -ENOSYS || r == -EINVAL || r == -EPERM || r == -EACCES ||
	       r == -EOPNOTSUPP;
}

/*
 * The routes come last: before them there is no way to anywhere. Where the
 * kernel has no sk_lookup, or keeps it locked, the proxy and the resolver are
 * all there is; `doctor` says so.
 */
static int make_all(int home_fd, int fds[GATE_FDS_MAX], struct err *e)
{
	AUTO_CLOSE int net_fd = this_net(home_fd, e);

	if (net_fd < 0 || make_sockets(fds, e) < 0)
		return -e->code;
	fds[DOOR_FD_LINK] =
		steer(net_fd, fds[DOOR_FD_TCP], fds[DOOR_FD_UDP], e);
	if (fds[DOOR_FD_LINK] >= 0)
		return route_all_here(e);
	if (!cannot(-e->code))
		return -e->code;
	auto_close(&fds[DOOR_FD_TCP]);
	auto_close(&fds[DOOR_FD_UDP]);
	return DOOR_PLAIN;
}

/* Who has the port inside keeps it: nothing goes out by it. */
static int make_self(int *fd, struct err *e)
{
	static const struct kind self = { SOCK_STREAM, SELF_PORT, false };

	*fd = make_socket(&self, AF_INET, e);
	if (*fd >= 0 || e->code != EADDRINUSE)
		return *fd < 0 ? -e->code : 0;
	err_clear(e);
	return 0;
}

void door_sockets_close(int fds[GATE_FDS_MAX])
{
	size_t i;

	for (i = 0; i < GATE_FDS_MAX; i++)
		auto_close(&fds[i]);
}

int door_sockets(int home_fd, bool self, int fds[GATE_FDS_MAX], struct err *e)
{
	struct err other = { 0 };
	int r = 0;

	if (fds[DOOR_FD_PROXY] < 0)
		r = make_all(home_fd, fds, e);
	if (r >= 0 && self && fds[DOOR_FD_SELF] < 0 &&
	    make_self(&fds[DOOR_FD_SELF], &other) < 0) {
		*e = other;
		r = -e->code;
	}
	if (r < 0)
		door_sockets_close(fds);
	return r;
}
