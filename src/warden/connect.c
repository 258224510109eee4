/*
 * Sockets inside a sandbox's network, which has no way in from outside.
 *
 * A socket stays for ever in the network namespace that it was made in. So
 * the warden steps over, makes one, and steps back: a few microseconds, where
 * a child would cost a fork. Between the two steps nothing of the sandbox is
 * read, and a warden that cannot come back does not go on.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/log.h"
#include "warden/warden.h"

enum { NET_MS = 200 };

/* The child of a launch says when its network is there: it does so within a
 * moment, or never. */
static void hear_of_net(struct box *b)
{
	struct pollfd said = { .fd = b->talk_io.fd, .events = POLLIN };
	struct err e = { 0 };

	if (said.fd < 0 || poll(&said, 1, NET_MS) <= 0)
		return;
	b->in_net = launch_hear(said.fd, &e) == LAUNCH_NET;
	if (!e.code)
		return;
	log_err("sandbox=%s launch: %s", b->spec.id, e.msg);
	b->failure = e; /* its end will be told with that */
}

/* By its pidfd: a number could be another process's by now. Before the agent
 * runs the child may not be in there yet, or still be making it. */
static int net_of(struct box *b)
{
	if (b->part.netns_fd >= 0)
		return b->part.netns_fd;
	if (b->state != BOX_RUNNING && !b->in_net)
		hear_of_net(b);
	return b->state == BOX_RUNNING || b->in_net ? b->pid_io.fd : -1;
}

int net_enter(struct box *b, struct err *e)
{
	const int fd = net_of(b);

	if (fd < 0)
		return err_set(e, EAGAIN, "sandbox %s is starting", b->spec.id);
	return setns(fd, CLONE_NEWNET) < 0
		       ? err_sys(e, "enter the network of sandbox %s",
				 b->spec.id)
		       : 0;
}

void net_leave(const struct box *b)
{
	if (setns(b->w->net_fd, CLONE_NEWNET) == 0)
		return;
	log_err("no way back from the network of sandbox=%s: %s", b->spec.id,
		strerror(errno));
	abort();
}

static int socket_inside(struct box *b, int family, struct err *e)
{
	int fd;

	if (net_enter(b, e) < 0)
		return -e->code;
	fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		err_sys(e, "make a socket in sandbox %s", b->spec.id);
	net_leave(b);
	return fd < 0 ? -e->code : fd;
}

static int start_connect(int fd, bool v6, uint16_t port)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(port),
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const struct sockaddr *a =
		v6 ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4;

	return connect(fd, a, v6 ? sizeof(a6) : sizeof(a4));
}

static int connect_inside(struct box *b, const struct connect_spec *s,
			  struct err *e)
{
	const bool v6 = s->flags & CONNECT_V6;
	const int on = 1;
	AUTO_CLOSE int fd = -1;

	fd = socket_inside(b, v6 ? AF_INET6 : AF_INET, e);
	if (fd < 0)
		return fd;
	/* Whoever gets it is not allowed to set options. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		return err_sys(e, "set up a socket in sandbox %s", b->spec.id);
	if (start_connect(fd, v6, s->port) < 0 && errno != EINPROGRESS)
		return err_sys(e, "connect to port %u of sandbox %s", s->port,
			       b->spec.id);
	return take_fd(&fd);
}

void box_connect(struct box *b, const struct connect_spec *s, struct waiter *wt)
{
	struct warden_rep rep = { 0 };
	AUTO_CLOSE int fd = -1;

	if (b->state != BOX_RUNNING) {
		err_set(&rep.err, b->state == BOX_ENDING ? ESRCH : EAGAIN,
			"sandbox %s is %s", b->spec.id,
			b->state == BOX_ENDING ? "ending" : "starting");
	} else if (box_is_vm(b)) {
		relay_connect(b, s, wt);
		return;
	} else {
		fd = connect_inside(b, s, &rep.err);
	}
	answer_rep(wt, &rep, &fd, fd >= 0);
}
