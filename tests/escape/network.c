/* Group G: what can be reached. `port` is a listener of the host on 127.0.0.1
 * and ::1 (and `host`, an address of the host), `abstract` a socket's name.
 * `door=1`: the sandbox has a door, with rules that allow none of these. Every
 * address outside then connects, to the door, which says no. */
#include "probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* The first interface that is not lo, or NULL. */
static const char *foreign_interface(void)
{
	static char name[IF_NAMESIZE];
	char text[8192], *line, *rest = text;

	if (slurp("/proc/net/dev", text, sizeof(text)) < 0)
		return "no /proc/net/dev";
	while ((line = strsep(&rest, "\n"))) {
		if (!strchr(line, ':') || strchr(line, '|') ||
		    sscanf(line, " %15[^:]:", name) != 1)
			continue;
		if (strcmp(name, "lo") != 0)
			return name;
	}
	return NULL;
}

static void g1(void)
{
	struct if_nameindex *all = if_nameindex();
	const char *name = foreign_interface();
	char text[4096], *line, *rest = text;
	struct ifreq lo = { .ifr_name = "lo" };
	int fd;

	wall(!name, "interface %s", name ? name : "");
	for (struct if_nameindex *i = all; i && i->if_index; i++)
		wall(strcmp(i->if_name, "lo") == 0, "interface %s", i->if_name);
	if (all)
		if_freenameindex(all);
	slurp("/proc/net/route", text, sizeof(text));
	strsep(&rest, "\n"); /* heading */
	while (rest && (line = strsep(&rest, "\n")) && *line)
		wall(strncmp(line, "lo\t", 3) == 0, "route by %.15s", line);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (ioctl(fd, SIOCGIFFLAGS, &lo) == 0) /* set what is set */
		REFUSED("flags of an interface", ioctl(fd, SIOCSIFFLAGS, &lo),
			EPERM);
	close(fd);
}

/* What is behind a connection: nothing, or the door's refusal. */
static bool says_no(int fd)
{
	static const char ask[] = "GET / HTTP/1.1\r\nHost: canary.test\r\n\r\n";
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char text[16] = "";
	ssize_t n;

	if (send(fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL) < 0 ||
	    poll(&p, 1, 500) == 0)
		return true;
	n = recv(fd, text, sizeof(text) - 1, 0);
	return n <= 0 || strncmp(text, "HTTP/1.1 403", 12) == 0 ||
	       strncmp(text, "HTTP/1.1 400", 12) == 0;
}

static bool is_loopback(const char *address)
{
	return strncmp(address, "127.", 4) == 0 ||
	       strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::1") == 0 ||
	       strncmp(address, "::ffff:127.", 11) == 0;
}

/*
 * 0 connected, or the error; ETIMEDOUT after a second. A connection that only
 * the door has taken was refused.
 */
static int reach(const char *address, int port)
{
	bool v6 = strchr(address, ':') != NULL;
	struct sockaddr_in a4 = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons((uint16_t)port),
				   .sin6_scope_id = if_nametoindex("lo") };
	int fd = socket(v6 ? AF_INET6 : AF_INET,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int err = 0;

	if (fd < 0)
		return errno;
	if (inet_pton(v6 ? AF_INET6 : AF_INET, address,
		      v6 ? (void *)&a6.sin6_addr : (void *)&a4.sin_addr) != 1)
		return EINVAL;
	if (connect(fd, v6 ? (void *)&a6 : (void *)&a4,
		    v6 ? sizeof(a6) : sizeof(a4)) < 0) {
		err = errno;
		if (err == EINPROGRESS) {
			err = ETIMEDOUT;
			if (poll(&p, 1, 1000) == 1)
				getsockopt(fd, SOL_SOCKET, SO_ERROR, &err,
					   &len);
		}
	}
	if (err == 0 && param("door") && !is_loopback(address) && says_no(fd))
		err = ECONNREFUSED;
	close(fd);
	return err;
}

static void unreachable(const char *address, int port)
{
	int err = reach(address, port);
	char what[64];

	snprintf(what, sizeof(what), "%s port %d", address, port);
	refused(what, err ? -1 : 0, err,
		(int[]){ ECONNREFUSED, ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL,
			 0 });
}

static void g3(void)
{
	int port = (int)param_num("port", 0);

	if (port <= 0) {
		skip("needs port=N of a listener on the host");
		return;
	}
	unreachable("127.0.0.1", port);
	unreachable("127.0.0.53", port);
	unreachable("0.0.0.0", port);
	unreachable("::1", port);
	unreachable("::ffff:127.0.0.1", port);
	if (param("host"))
		unreachable(param("host"), port);
}

static void g4(void)
{
	static const char *const metadata[] = { "169.254.169.254",
						"fd00:ec2::254",
						"100.100.100.200" };

	if (foreign_interface()) { /* a packet might really leave */
		gap("not tried: there is interface %s", foreign_interface());
		return;
	}
	for (size_t i = 0; i < ALL(metadata); i++)
		unreachable(metadata[i], 80);
}

/* IPC objects of the host: a shm key, a file of /dev/shm, a queue. */
static void g5(void)
{
	long key = param_num("shmkey", 0);
	const char *shm = param("shm");
	char path[128], text[4096];
	int fd;

	if (key)
		REFUSED("shared memory of the host", shmget((key_t)key, 0, 0),
			ENOENT);
	if (shm) {
		snprintf(path, sizeof(path), "/dev/shm/%s", shm);
		wall(access(path, F_OK) < 0, "%s of the host is there", path);
		fd = (int)syscall(SYS_mq_open, shm, O_RDONLY, 0, NULL);
		refused("queue of the host", fd, errno, (int[]){ ENOENT, 0 });
	}
	/* a new namespace has nothing but a heading here */
	slurp("/proc/sysvipc/shm", text, sizeof(text));
	wall(!strchr(text, '\n') || strchr(text, '\n')[1] == '\0',
	     "shared memory of others is listed");
	if (!key && !shm)
		observed("no canary given: shmkey=, shm=");
}

static void g6(void)
{
	const char *name = param("abstract");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char text[16384];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len;

	slurp("/proc/net/unix", text, sizeof(text));
	if (!name || strlen(name) > sizeof(a.sun_path) - 2) {
		skip("needs abstract=NAME of a listener on the host");
		return;
	}
	wall(!strstr(text, name), "@%s is in /proc/net/unix", name);
	memcpy(a.sun_path + 1, name, strlen(name));
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			  strlen(name));
	REFUSED("abstract socket of the host",
		connect(fd, (struct sockaddr *)&a, len), ECONNREFUSED);
	close(fd);
}

/* Of the door: a name that does not exist, with no address. */
static bool no_name(const char *p, ssize_t n)
{
	return param("door") && n >= 12 && (p[3] & 15) != 0 && p[6] == 0 &&
	       p[7] == 0;
}

/* A datagram to port 53 must fail at once. */
static void g8(void)
{
	static const char *const resolvers[] = { "127.0.0.53", "8.8.8.8",
						 "1.1.1.1" };
	static const char query[] =
		"\x12\x34\1\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1";

	if (foreign_interface()) {
		gap("not tried: there is interface %s", foreign_interface());
		return;
	}
	for (size_t i = 0; i < ALL(resolvers); i++) {
		struct sockaddr_in a = { .sin_family = AF_INET,
					 .sin_port = htons(53) };
		int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char answer[512];
		ssize_t n = -1;

		inet_pton(AF_INET, resolvers[i], &a.sin_addr);
		if (connect(fd, (void *)&a, sizeof(a)) < 0 ||
		    send(fd, query, sizeof(query) - 1, 0) < 0 ||
		    poll(&p, 1, 300) == 0 ||
		    (n = recv(fd, answer, sizeof(answer), 0)) < 0 ||
		    no_name(answer, n))
			good();
		else
			breach("%s answered", resolvers[i]);
		close(fd);
		unreachable(resolvers[i], 53);
	}
}

/* Addresses that need an interface, and those of many. */
static void g10(void)
{
	static const char *const one[] = { "fe80::1", "fe80::a00:27ff:fe00:1",
					   "fec0::1", "::ffff:169.254.169.254",
					   "64:ff9b::a9fe:a9fe" };
	static const char *const many[] = { "ff02::1", "ff02::fb", "ff05::2" };

	if (foreign_interface()) {
		gap("not tried: there is interface %s", foreign_interface());
		return;
	}
	for (size_t i = 0; i < ALL(one); i++)
		unreachable(one[i], 80);
	for (size_t i = 0; i < ALL(many); i++) {
		struct sockaddr_in6 a = { .sin6_family = AF_INET6,
					  .sin6_port = htons(5353),
					  .sin6_scope_id = 1 };
		int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char answer[64];

		inet_pton(AF_INET6, many[i], &a.sin6_addr);
		if (sendto(fd, "x", 1, 0, (void *)&a, sizeof(a)) < 0 ||
		    poll(&p, 1, 100) == 0 ||
		    recv(fd, answer, sizeof(answer), 0) < 0)
			good();
		else
			breach("%s answered", many[i]);
		close(fd);
	}
}

/* The door's own ports, by every way to take one that is taken. */
static void g11(void)
{
	static const struct {
		int type, port, option;
	} ways[] = {
		{ SOCK_STREAM, 3128, 0 },
		{ SOCK_STREAM, 3128, SO_REUSEADDR },
		{ SOCK_STREAM, 3128, SO_REUSEPORT },
		{ SOCK_DGRAM, 53, 0 },
		{ SOCK_DGRAM, 53, SO_REUSEADDR },
		{ SOCK_DGRAM, 53, SO_REUSEPORT },
	};
	static const in_addr_t at[] = { INADDR_LOOPBACK, INADDR_ANY };

	if (!param("door")) {
		skip("needs a door");
		return;
	}
	for (size_t i = 0; i < ALL(ways) * ALL(at); i++) {
		struct sockaddr_in a = { .sin_family = AF_INET };
		int fd = socket(AF_INET, ways[i / 2].type | SOCK_CLOEXEC, 0);
		int on = 1;
		long rc;

		a.sin_port = htons((uint16_t)ways[i / 2].port);
		a.sin_addr.s_addr = htonl(at[i % 2]);
		if (ways[i / 2].option)
			setsockopt(fd, SOL_SOCKET, ways[i / 2].option, &on,
				   sizeof(on));
		rc = bind(fd, (void *)&a, sizeof(a));
		/* bound but never listening, it takes nothing away */
		if (rc == 0 && ways[i / 2].type == SOCK_STREAM)
			rc = listen(fd, 1);
		refused("port of the door", rc, errno,
			(int[]){ EADDRINUSE, 0 });
		close(fd);
	}
}

const struct row rows_network[] = {
	{ "G1", "interfaces and routes", g1, 0, 0 },
	{ "G3", "listeners of the host", g3, 0, 0 },
	{ "G4", "metadata services", g4, 0, 0 },
	{ "G5", "shared memory and queues of others", g5, 0, 0 },
	{ "G6", "abstract sockets of the host", g6, 0, 0 },
	{ "G8", "name servers", g8, 0, 0 },
	{ "G10", "addresses with a zone, and of many", g10, 0, 0 },
	{ "G11", "ports of the door", g11, BY_NAME, 0 },
	{ 0 },
};
