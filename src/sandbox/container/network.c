#include "sandbox/container/network.h"

#include <errno.h>
#include <linux/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/fd.h"
#include "sandbox/walls.h"

int network_new(void)
{
	AUTO_CLOSE int fd = -1;
	struct ifreq ifr = { .ifr_name = "lo" };

	if (!WALL(NETNS))
		return 0;
	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr) < 0)
		return -errno;
	ifr.ifr_flags |= IFF_UP;
	return ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

int network_any_port(int proc_fd)
{
	if (!WALL(NETNS))
		return 0;
	return knob_write_at(proc_fd, "sys/net/ipv4/ip_unprivileged_port_start",
			     "0");
}
