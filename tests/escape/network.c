/* Group G: what can be reached. `port` is a listener of the host on 127.0.0.1
 * and ::1 (and `host`, an address of the host), `abstract` a socket's name. */
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

/* 0 connected, or the error; ETIMEDOUT after a second. */
static int reach(const char *address, int port)
{
	bool v6 = strchr(address, ':') != NULL;
	struct sockaddr_in a4 = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons((uint16_t)port) };
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

		inet_pton(AF_INET, resolvers[i], &a.sin_addr);
		if (connect(fd, (void *)&a, sizeof(a)) < 0 ||
		    send(fd, query, sizeof(query) - 1, 0) < 0 ||
		    poll(&p, 1, 300) == 0 ||
		    recv(fd, answer, sizeof(answer), 0) < 0)
			good();
		else
			breach("%s answered", resolvers[i]);
		close(fd);
		unreachable(resolvers[i], 53);
	}
}

const struct row rows_network[] = {
	{ "G1", "interfaces and routes", g1, 0, 0 },
	{ "G3", "listeners of the host", g3, 0, 0 },
	{ "G4", "metadata services", g4, 0, 0 },
	{ "G5", "shared memory and queues of others", g5, 0, 0 },
	{ "G6", "abstract sockets of the host", g6, 0, 0 },
	{ "G8", "name servers", g8, 0, 0 },
	{ 0 },
};
