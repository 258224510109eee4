/* carrel mcp: the Model Context Protocol over stdio. */
#include "cli/mcp.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "http/target.h"

/* One per process. stdin may be a file, which epoll does not take: it is
 * always ready, then. */
static struct {
	struct bridge bridge;
	struct io in, signals;
	struct timer file; /* stdin is one */
	struct buf lines;
	bool is_file, skipping, paused;
} m;

static void on_input(struct io *io, uint32_t events);

static void on_file(struct timer *t)
{
	(void)t;
	on_input(&m.in, EPOLLIN);
}

static void stop_reading(void)
{
	io_del(&m.bridge.loop, &m.in);
	timer_del(&m.bridge.loop, &m.file);
}

static void start_reading(void)
{
	int r = -EPERM;

	if (!m.is_file)
		r = io_add(&m.bridge.loop, &m.in, STDIN_FILENO, EPOLLIN,
			   on_input);
	if (r == -EPERM) {
		m.is_file = true;
		timer_set(&m.bridge.loop, &m.file, 0, on_file);
	} else if (r < 0) {
		fail(m.bridge.cli, "read standard input: %s", strerror(-r));
	}
}

static bool is_blank(const char *p, size_t n)
{
	while (n > 0 && strchr(" \t\r", *p)) {
		p++;
		n--;
	}
	return n == 0;
}

/* A line, or as much of it as there is of one that is too long. */
static void take_line(const char *p, size_t n)
{
	if (n > BRIDGE_LINE_MAX) {
		if (!m.skipping)
			bridge_refuse_long(&m.bridge);
		m.skipping = true;
	} else if (!m.skipping && !is_blank(p, n)) {
		bridge_take(&m.bridge, p, n);
	}
}

static void take_lines(void)
{
	char *end;

	while (!bridge_is_full(&m.bridge) &&
	       (end = memchr(buf_data(&m.lines), '\n', buf_len(&m.lines)))) {
		size_t n = (size_t)(end - buf_data(&m.lines));

		take_line(buf_data(&m.lines), n);
		m.skipping = false;
		buf_eat(&m.lines, n + 1);
	}
	if (buf_len(&m.lines) > BRIDGE_LINE_MAX && !bridge_is_full(&m.bridge)) {
		take_line(buf_data(&m.lines), buf_len(&m.lines));
		buf_clear(&m.lines);
	}
}

static void on_end(void)
{
	stop_reading();
	/* A last line without its end is one, too. */
	if (!m.skipping && !is_blank(buf_data(&m.lines), buf_len(&m.lines)))
		bridge_take(&m.bridge, buf_data(&m.lines), buf_len(&m.lines));
	bridge_drain(&m.bridge);
}

static void on_input(struct io *io, uint32_t events)
{
	ssize_t n = buf_read(&m.lines, STDIN_FILENO, 64 * 1024);

	(void)io;
	(void)events;
	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		on_end();
		return;
	}
	take_lines();
	m.paused = bridge_is_full(&m.bridge);
	if (m.paused)
		stop_reading();
	else if (m.is_file)
		timer_set(&m.bridge.loop, &m.file, 0, on_file);
}

void bridge_room(struct bridge *b)
{
	if (!m.paused || bridge_is_full(b))
		return;
	take_lines();
	m.paused = bridge_is_full(b);
	if (!m.paused)
		start_reading();
}

static void on_signal(struct io *io, uint32_t events)
{
	struct signalfd_siginfo si;

	(void)events;
	if (read(io->fd, &si, sizeof(si)) == sizeof(si))
		bridge_leave(&m.bridge);
}

static int watch_signals(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;
	int fd;

	sigaction(SIGPIPE, &ignore, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno
		      : io_add(&m.bridge.loop, &m.signals, fd, EPOLLIN,
			       on_signal);
}

static void add_wish(struct buf *b, const char *name, const char *value)
{
	if (!value)
		return;
	buf_printf(b, "%c%s=", memchr(buf_data(b), '?', buf_len(b)) ? '&' : '?',
		   name);
	http_encode(b, value);
}

static void set_target(struct cli *cli, const char *image, const char *policy,
		       const char *sandbox, const char *keep)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_puts(&b, "/mcp");
	add_wish(&b, "image", image);
	add_wish(&b, "policy", policy);
	add_wish(&b, "sandbox", sandbox);
	add_wish(&b, "keep", keep);
	if (buf_len(&b) >= sizeof(m.bridge.target))
		fail(cli, "the options are too long");
	memcpy(m.bridge.target, buf_str(&b), buf_len(&b) + 1);
}

/* Before the client says a word: whoever starts us should see why. */
static void check_daemon(struct cli *cli)
{
	struct http_client c = { .fd = -1 };

	server_open(cli, &c);
	http_client_done(&c);
}

int verb_mcp(struct cli *cli, int argc, char **argv)
{
	const char *image = NULL, *policy = NULL, *sandbox = NULL, *keep = NULL;
	const struct opt table[] = {
		{ "image", 'i', OPT_TEXT, &image, "IMAGE",
		  "of the sandbox that is made; default: the daemon's" },
		{ "policy", 0, OPT_TEXT, &policy, "POLICY",
		  "what it may reach; default: nothing" },
		{ "sandbox", 0, OPT_TEXT, &sandbox, "SANDBOX",
		  "work in this one; it stays when the session ends" },
		{ "keep", 0, OPT_TEXT, &keep, "WHAT",
		  "what becomes of one that was made: no (it is removed), "
		  "pause, yes" },
		OPT_HELP(cli),
		{ 0 },
	};
	int r;

	if (cli_operands(cli, table, argc, argv) > 0)
		cli_usage_error(cli, "takes no operands");
	set_target(cli, image, policy, sandbox, keep);
	check_daemon(cli);
	m.bridge.cli = cli;
	m.in.fd = m.signals.fd = -1;
	bridge_init(&m.bridge);
	r = loop_init(&m.bridge.loop);
	if (r == 0)
		r = watch_signals();
	if (r < 0)
		fail(cli, "event loop: %s", strerror(-r));
	start_reading();
	r = loop_run(&m.bridge.loop);
	if (r < 0)
		fail(cli, "event loop: %s", strerror(-r));
	return 0;
}
