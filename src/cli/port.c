/*
 * carrel port: a port of a sandbox as one of this machine.
 *
 * Each connection has a process of its own, which asks the daemon for a tunnel
 * and copies bytes both ways: one that hangs is nobody else's trouble.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/product.h"
#include "cli/dial.h"
#include "cli/show.h"

enum {
	PIECE = 64 * 1024,
	TUNNELS_MAX = 512,
	ANSWER_MS = 30 * 1000,
	TTL_DEFAULT_MS = 3600 * 1000,
};

/* One direction. */
struct flow {
	int from, to;
	struct buf b;
	bool eof, closed; /* of `from`; towards `to` */
};

static bool flow_read(struct flow *f)
{
	ssize_t n = buf_read(&f->b, f->from, PIECE);

	if (n == -EINTR || n == -EAGAIN)
		return true;
	f->eof = n == 0;
	return n >= 0;
}

static bool flow_write(struct flow *f)
{
	ssize_t n = send(f->to, buf_data(&f->b), buf_len(&f->b),
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	buf_eat(&f->b, (size_t)n);
	return true;
}

/* The end of one side is passed on; the other may go on talking. */
static void flow_end(struct flow *f)
{
	if (!f->eof || f->closed || buf_len(&f->b) > 0)
		return;
	shutdown(f->to, SHUT_WR);
	f->closed = true;
}

static void flow_poll(const struct flow *f, struct pollfd p[2])
{
	p[0] = (struct pollfd){ .fd = -1, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = -1, .events = POLLOUT };
	if (buf_len(&f->b) > 0)
		p[1].fd = f->to;
	else if (!f->eof)
		p[0].fd = f->from;
}

static void copy_both(struct flow f[2])
{
	struct pollfd p[4];
	bool ok = true;
	int i;

	while (ok && !(f[0].closed && f[1].closed)) {
		flow_poll(&f[0], p);
		flow_poll(&f[1], p + 2);
		if (poll(p, 4, -1) < 0 && errno != EINTR)
			return;
		for (i = 0; i < 2 && ok; i++) {
			if (p[2 * i].revents)
				ok = flow_read(&f[i]);
			if (ok && buf_len(&f[i].b) > 0)
				ok = flow_write(&f[i]);
			flow_end(&f[i]);
		}
	}
}

/* In a process of its own. */
static void tunnel(const struct dial *d, int fd)
{
	struct flow f[2] = { 0 };
	char why[MESSAGE_CAP];
	int inside = -1;

	if (dial(d, NULL, ANSWER_MS, &inside, &f[1].b, why) < 0) {
		complain("%s", why);
		_exit(EXIT_FAILED);
	}
	f[0].from = f[1].to = fd;
	f[1].from = f[0].to = inside;
	copy_both(f);
	_exit(0);
}

static void start_tunnel(const struct dial *d, int fd, unsigned *n)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() == parent)
			tunnel(d, fd);
		_exit(EXIT_FAILED);
	}
	if (pid < 0)
		complain("start a tunnel: %m");
	else
		++*n;
	close(fd);
}

static void serve(const struct dial *d, int listen_fd)
{
	unsigned n = 0;

	for (;;) {
		int fd;

		/* What waits for a free place waits in the backlog. */
		while (n > 0 &&
		       waitpid(-1, NULL, n < TUNNELS_MAX ? WNOHANG : 0) > 0)
			n--;
		fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			start_tunnel(d, fd, &n);
		else if (errno != EINTR && errno != ECONNABORTED)
			break;
	}
}

static int listen_at(struct cli *cli, uint16_t port, uint16_t *out)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		fail(cli, "make a socket: %m");
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(fd, SOMAXCONN) < 0)
		fail(cli,
		     "listen on 127.0.0.1:%u: %m (say another port behind "
		     "it, or 0 for any)",
		     port);
	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		fail(cli, "listen on 127.0.0.1:%u: %m", port);
	*out = ntohs(a.sin_port);
	return fd;
}

/* This process goes on in the background; its parent ends. */
static void leave_terminal(struct cli *cli, uint16_t port)
{
	pid_t pid = fork();
	int null;

	if (pid < 0)
		fail(cli, "start a process: %m");
	if (pid > 0) {
		printf("127.0.0.1:%u\n", port);
		complain("`kill %d` closes the port", (int)pid);
		exit(fflush(stdout) == EOF ? EXIT_FAILED : 0);
	}
	setsid();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    dup2(null, 2) < 0)
		_exit(EXIT_FAILED);
}

/* A number, or a name that the sandbox was given for one. */
static uint16_t find_port(struct cli *cli, const json_t *box, const char *word)
{
	const json_t *ports =
		json_object_get(json_object_get(box, "spec"), "ports");
	uint64_t n = 0;

	if (parse_u64(word, 65535, &n) < 0) {
		json_int_t v = json_integer_value(json_object_get(ports, word));

		n = v > 0 && v <= 65535 ? (uint64_t)v : 0;
	}
	if (n == 0)
		fail(cli,
		     "'%s' is not a port (1 to 65535, or a name of the "
		     "sandbox's ports)",
		     word);
	return (uint16_t)n;
}

static int print_url(struct cli *cli, const char *base, uint16_t port,
		     uint64_t ttl_ms)
{
	char target[TARGET_CAP + 32], url[1024];
	struct buf body = { 0 };
	json_t *j;

	snprintf(target, sizeof(target), "%s/ports/%u/token", base, port);
	buf_printf(&body, "{\"ttl\":%llu}", (unsigned long long)ttl_ms / 1000);
	j = server_get(cli, "POST", target, &body);
	clean_text(url, sizeof(url), show_str(j, "url"));
	if (*url == '\0')
		fail(cli,
		     "the daemon has no address for browsers: set `listen` "
		     "in the configuration");
	puts(url);
	json_decref(j);
	buf_done(&body);
	return 0;
}

int verb_port(struct cli *cli, int argc, char **argv)
{
	bool url = false, detach = false;
	uint64_t ttl_ms = TTL_DEFAULT_MS, local = 0;
	const struct opt table[] = {
		{ "detach", 'd', OPT_FLAG, &detach, NULL,
		  "go on in the background" },
		{ "url", 0, OPT_FLAG, &url, NULL,
		  "print an address for a browser instead, with a token" },
		{ "ttl", 0, OPT_TIME, &ttl_ms, "TIME",
		  "how long the token is good for (default: 1h)" },
		OPT_HELP(cli),
		{ 0 },
	};
	struct dial d = { .cli = cli, .protocol = PRODUCT "-tcp/1" };
	char base[TARGET_CAP], target[TARGET_CAP + 16];
	int n = cli_operands(cli, table, argc, argv);
	uint16_t port;
	json_t *box;
	int fd;

	if (n < 2 || n > 3)
		cli_usage_error(cli, "a sandbox and a port of it are needed");
	if (n == 3 && (url || parse_u64(argv[3], 65535, &local) < 0))
		cli_usage_error(cli, "the local port is 0 to 65535, and not "
				     "with --url");
	server_target(cli, base, "/v1/sandboxes/", argv[1]);
	box = server_get(cli, "GET", base, NULL);
	port = find_port(cli, box, argv[2]);
	json_decref(box);
	if (url)
		return print_url(cli, base, port, ttl_ms);
	snprintf(target, sizeof(target), "%s/tcp/%u", base, port);
	d.target = target;
	fd = listen_at(cli, n == 3 ? (uint16_t)local : port, &port);
	if (detach) {
		leave_terminal(cli, port);
	} else {
		printf("127.0.0.1:%u\n", port);
		fflush(stdout);
	}
	serve(&d, fd);
	fail(cli, "wait for connections: %m");
}
