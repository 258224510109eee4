/*
 * Between the host's line (a virtio port) and the agent's socket. The agent
 * tells connections from each other, a port only says whether anybody is at
 * its other end: whenever somebody comes, the agent gets a new connection.
 *
 * That word and the bytes take different ways, and either may be first. So the
 * host is silent until it has heard the agent's hello: what is in the port when
 * somebody is seen to have come is of who was there before, all of that is
 * there by then, and it is dropped. Who leaves and comes back so fast that we
 * do not see it hears no hello; it leaves again then, and stays away longer.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "guest/guest.h"

enum { PIECE = 64 * 1024, HELD_MAX = 256 * 1024, LOOK_MS = 500 };

struct bridge {
	int port_fd, agent_fd, change_fd;
	struct buf in, out; /* to the agent, to the host */
};

static int dial(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX,
				  .sun_path = "/" GUEST_AGENT_SOCK };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 &&
	    connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void hang_up(struct bridge *b)
{
	auto_close(&b->agent_fd);
	buf_clear(&b->in);
	buf_clear(&b->out);
}

static bool host_is_there(const struct bridge *b)
{
	struct pollfd p = { .fd = b->port_fd, .events = POLLOUT };

	return poll(&p, 1, 0) >= 0 && !(p.revents & POLLHUP);
}

static void meet(struct bridge *b)
{
	char piece[4096];

	while (read(b->port_fd, piece, sizeof(piece)) > 0)
		;
	b->agent_fd = dial();
}

/* Bytes one way, as many as are taken; -1: that end is gone. */
static int move(int from, int to, struct buf *held)
{
	ssize_t n = 0;

	if (buf_len(held) < HELD_MAX)
		n = buf_read(held, from, PIECE);
	if (n == 0 && buf_len(held) == 0)
		return -1;
	if (n < 0 && n != -EAGAIN && n != -EINTR)
		return -1;
	while (buf_len(held) > 0) {
		n = buf_write(held, to);
		if (n == -EAGAIN)
			break;
		if (n < 0)
			return -1;
	}
	return 0;
}

static short wants(const struct buf *from, const struct buf *to)
{
	return (short)((buf_len(from) < HELD_MAX ? POLLIN : 0) |
		       (buf_len(to) > 0 ? POLLOUT : 0));
}

static void carry(struct bridge *b)
{
	if (move(b->port_fd, b->agent_fd, &b->in) < 0 ||
	    move(b->agent_fd, b->port_fd, &b->out) < 0)
		hang_up(b);
}

/* Something happened, or time went by: who is there? */
static void look(struct bridge *b)
{
	struct signalfd_siginfo si;

	while (read(b->change_fd, &si, sizeof(si)) > 0)
		;
	if (!host_is_there(b))
		hang_up(b);
	else if (b->agent_fd < 0)
		meet(b);
	else
		carry(b);
}

static int watch_port(int fd, struct err *e)
{
	if (fcntl(fd, F_SETOWN, getpid()) < 0 ||
	    fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK | O_ASYNC) < 0)
		return err_sys(e, "watch a port");
	return 0;
}

static int watch_changes(const struct guest *g, struct err *e)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_sys(e, "block SIGIO");
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_sys(e, "watch signals");
	if (watch_port(g->port_fd[GUEST_PORT_AGENT], e) < 0 ||
	    watch_port(g->port_fd[GUEST_PORT_CONTROL], e) < 0)
		return -e->code;
	return fd;
}

int bridge_run(struct guest *g, struct err *e)
{
	struct bridge b = { .port_fd = g->port_fd[GUEST_PORT_AGENT],
			    .agent_fd = -1 };

	b.change_fd = watch_changes(g, e);
	if (b.change_fd < 0)
		return b.change_fd;
	look(&b);
	control_look(g);
	for (;;) {
		struct pollfd p[] = {
			{ .fd = b.change_fd, .events = POLLIN },
			{ .fd = b.agent_fd < 0 ? -1 : b.port_fd,
			  .events = wants(&b.in, &b.out) },
			{ .fd = b.agent_fd, .events = wants(&b.out, &b.in) },
			{ .fd = g->box.pid_fd, .events = POLLIN },
		};

		/* While nobody is there it looks by itself, too: a word of
		 * the port that is missed would be one for ever. */
		if (poll(p, sizeof(p) / sizeof(p[0]),
			 b.agent_fd < 0 ? LOOK_MS : -1) < 0 &&
		    errno != EINTR)
			return err_sys(e, "poll");
		if (p[3].revents)
			return 0;
		look(&b);
		if (p[0].revents)
			control_look(g);
	}
}
