/*
 * The least that a relay can do, to compare a tunnel with: two sockets, a pipe
 * for each way, splice(2).
 *
 *	relay PORT ADDRESS ADDRESS_PORT
 *
 * Listens on 127.0.0.1:PORT and passes each connection on, in a process of its
 * own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"

enum { PIPE_BYTES = 512 * 1024 };

struct way {
	int from, to, pipe[2];
	size_t held;
	bool ended;
};

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	uint64_t n;

	if (inet_pton(AF_INET, host, &a.sin_addr) != 1 ||
	    parse_u64(port, 65535, &n) < 0)
		die("no such address: %s %s", host, port);
	a.sin_port = htons((uint16_t)n);
	return a;
}

static void way_init(struct way *w, int from, int to)
{
	*w = (struct way){ .from = from, .to = to };
	if (pipe2(w->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
		die("pipe: %s", strerror(errno));
	fcntl(w->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
	fcntl(from, F_SETFL, O_NONBLOCK);
}

/* False when it is over. */
static bool move(struct way *w)
{
	ssize_t n = 1;

	while (n > 0) {
		n = w->held ? 1
			    : splice(w->from, NULL, w->pipe[1], NULL, 8 << 20,
				     SPLICE_F_MOVE);
		if (n < 0)
			return errno == EAGAIN;
		if (n == 0) {
			shutdown(w->to, SHUT_WR);
			w->ended = true;
			return true;
		}
		if (!w->held)
			w->held = (size_t)n;
		n = splice(w->pipe[0], NULL, w->to, NULL, w->held,
			   SPLICE_F_MOVE);
		if (n < 0)
			return errno == EAGAIN;
		w->held -= (size_t)n;
	}
	return true;
}

static void relay(int in, const struct sockaddr_in *to)
{
	int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd p[2] = { { .fd = in }, { .fd = out } };
	struct way up, down;

	if (connect(out, (const struct sockaddr *)to, sizeof(*to)) < 0)
		die("connect: %s", strerror(errno));
	way_init(&up, in, out);
	way_init(&down, out, in);
	while (!up.ended || !down.ended) {
		p[0].events = (short)((up.held || up.ended ? 0 : POLLIN) |
				      (down.held ? POLLOUT : 0));
		p[1].events = (short)((down.held || down.ended ? 0 : POLLIN) |
				      (up.held ? POLLOUT : 0));
		if (poll(p, 2, -1) < 0 || (!up.ended && !move(&up)) ||
		    (!down.ended && !move(&down)))
			return;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in at, to;
	int fd, on = 1;

	if (argc != 4)
		die("usage: relay PORT ADDRESS ADDRESS_PORT");
	at = address("127.0.0.1", argv[1]);
	to = address(argv[2], argv[3]);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(fd, 64) < 0)
		die("listen on %s: %s", argv[1], strerror(errno));
	for (;;) {
		int in = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (in < 0)
			die("accept: %s", strerror(errno));
		if (fork() == 0) {
			relay(in, &to);
			_exit(0);
		}
		close(in);
	}
}
