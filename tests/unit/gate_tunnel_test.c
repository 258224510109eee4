/*
 * A tunnel between two pairs of sockets (TCP on the loopback: spliced; through
 * TLS: copied). The two ends are ours, and not blocking.
 */
#include "gate/tunnel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "check.h"
#include "gate/leaf.h"
#include "gate/scan.h"
#include "http/tls.h"

enum { PATIENCE_MS = 30000 };

static struct gate gate;
static struct project project = { .name = "p" };

/* --- budgets and scans of this test --- */

static uint64_t may_up = UINT64_MAX, may_down = UINT64_MAX;

static bool spend(uint64_t *left, uint64_t n)
{
	if (n > *left)
		return false;
	*left -= n;
	return true;
}

bool budget_up(struct budget_hold *h, uint64_t n)
{
	(void)h;
	return spend(&may_up, n);
}

bool budget_down(struct budget_hold *h, uint64_t n)
{
	(void)h;
	return spend(&may_down, n);
}

bool scan_look(struct scan *s, const void *p, size_t n)
{
	(void)s;
	return memmem(p, n, "canary", 6);
}

void scan_mask(struct scan *s, const void *p, size_t n, bool last,
	       struct buf *out)
{
	char *at;

	(void)s;
	buf_add(out, p, n);
	while ((at = memmem(buf_data(out), buf_len(out), "secret", 6)))
		memset(at, '*', 6);
	if (last)
		buf_puts(out, ".");
}

/* --- ends --- */

static void pair(int fd[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(l, (struct sockaddr *)&a, n) < 0 || listen(l, 1) < 0 ||
	    getsockname(l, (struct sockaddr *)&a, &n) < 0 ||
	    connect(fd[0], (struct sockaddr *)&a, n) < 0)
		abort();
	fd[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	close(l);
	if (fd_set_nonblock(fd[0], true) < 0 ||
	    fd_set_nonblock(fd[1], true) < 0)
		abort();
	setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static struct tunnel tunnel;
static int in_fd, out_fd; /* what the sandbox and the server have */
static unsigned ends;
static const char *end_why;

static void on_end(struct tunnel *t, const char *why)
{
	(void)t;
	ends++;
	end_why = why;
}

static void begin(const char *up, const char *down)
{
	struct http_stream inside, outside;
	struct buf u = { 0 }, d = { 0 };
	int a[2], b[2];

	pair(a);
	pair(b);
	in_fd = a[0];
	out_fd = b[0];
	http_stream_open(&inside, &gate.loop, a[1], NULL);
	http_stream_open(&outside, &gate.loop, b[1], NULL);
	tunnel.gate = &gate;
	tunnel.done = on_end;
	ends = 0;
	end_why = "not yet";
	buf_puts(&u, up);
	buf_puts(&d, down);
	tunnel_start(&tunnel, &inside, &outside, &u, &d);
	CHECK(!http_stream_is_open(&inside) && !http_stream_is_open(&outside));
	CHECK(buf_len(&u) == 0 && buf_len(&d) == 0 && ends == 0);
	buf_done(&u);
	buf_done(&d);
}

static void finish(void)
{
	tunnel_end(&tunnel);
	tunnel = (struct tunnel){ 0 };
	if (in_fd >= 0)
		close(in_fd);
	if (out_fd >= 0)
		close(out_fd);
	in_fd = out_fd = -1;
}

static void on_stop(struct timer *t)
{
	(void)t;
	gate.loop.stop = true;
}

static void run(uint64_t ms)
{
	struct timer stop = { 0 };

	timer_set(&gate.loop, &stop, ms, on_stop);
	gate.loop.stop = false;
	if (loop_run(&gate.loop) < 0)
		abort();
	timer_del(&gate.loop, &stop);
}

/* Turns the loop until `n` bytes or the end came. */
static const char *hear(int fd, size_t n)
{
	static char got[4096];
	uint64_t until = clock_boot_ms() + PATIENCE_MS;
	size_t have = 0;

	while (have < n && clock_boot_ms() < until) {
		ssize_t r = read(fd, got + have, sizeof(got) - 1 - have);

		if (r == 0 || (r < 0 && errno != EAGAIN))
			break;
		if (r < 0)
			run(1);
		else
			have += (size_t)r;
	}
	got[have] = '\0';
	return got;
}

static bool at_end(int fd)
{
	uint64_t until = clock_boot_ms() + PATIENCE_MS;
	char c;
	ssize_t r;

	while ((r = read(fd, &c, 1)) < 0 && errno == EAGAIN &&
	       clock_boot_ms() < until)
		run(1);
	return r == 0;
}

static void say(int fd, const char *s)
{
	if (write(fd, s, strlen(s)) != (ssize_t)strlen(s))
		abort();
}

static bool wait_end(void)
{
	uint64_t until = clock_boot_ms() + PATIENCE_MS;

	while (ends == 0 && clock_boot_ms() < until)
		run(1);
	return ends == 1;
}

/* --- tests --- */

static unsigned open_fds(void)
{
	unsigned n = 0;
	int fd;

	for (fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void test_both_ways(void)
{
	begin("first ", "hello ");
	CHECK_STR(hear(out_fd, 6), "first ");
	CHECK_STR(hear(in_fd, 6), "hello ");
	say(in_fd, "up");
	CHECK_STR(hear(out_fd, 2), "up");
	say(out_fd, "down");
	CHECK_STR(hear(in_fd, 4), "down");
	CHECK(tunnel.up_bytes == 8 && tunnel.down_bytes == 10);
	/* One side ends, the other goes on. */
	shutdown(in_fd, SHUT_WR);
	CHECK(at_end(out_fd));
	say(out_fd, "late");
	CHECK_STR(hear(in_fd, 4), "late");
	CHECK(ends == 0);
	shutdown(out_fd, SHUT_WR);
	CHECK(at_end(in_fd));
	CHECK(wait_end() && !end_why);
	finish();
}

/* A reader that takes nothing stops the writer, and nothing is lost. */
static void test_slow_reader(void)
{
	enum { ALL = 64 * 1024 * 1024 };
	static char piece[64 * 1024];
	size_t sent = 0, got = 0, bad = 0, i;
	uint64_t until = clock_boot_ms() + PATIENCE_MS;
	bool stalled = false;

	begin("", "");
	while (got < ALL && clock_boot_ms() < until) {
		size_t n =
			ALL - sent < sizeof(piece) ? ALL - sent : sizeof(piece);
		ssize_t r = 0;

		for (i = 0; i < n; i++)
			piece[i] = (char)((sent + i) * 31 >> 3);
		if (n > 0)
			r = write(in_fd, piece, n);
		if (r > 0) {
			sent += (size_t)r;
			continue;
		}
		if (!stalled) { /* until it is really full */
			size_t before = sent;

			run(50);
			stalled = write(in_fd, piece, 0) == 0 &&
				  (r = write(in_fd, piece, n)) < 0;
			if (r > 0)
				sent = before + (size_t)r;
			continue;
		}
		run(0);
		while ((r = read(out_fd, piece, sizeof(piece))) > 0) {
			for (i = 0; i < (size_t)r; i++)
				bad += piece[i] != (char)((got + i) * 31 >> 3);
			got += (size_t)r;
		}
	}
	CHECK(stalled);
	CHECK(sent == ALL && got == ALL && bad == 0);
	CHECK(tunnel.up_bytes == ALL);
	finish();
}

static void test_idle_holds_nothing(void)
{
	unsigned before, after;

	begin("", "");
	run(20);
	before = open_fds();
	say(in_fd, "x");
	CHECK_STR(hear(out_fd, 1), "x");
	run(5);
	after = open_fds();
	/* At most the one pipe that is kept for the next. */
	CHECK(after <= before + 2);
	finish();
}

static void test_reset(void)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	begin("", "");
	run(1);
	setsockopt(in_fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(in_fd);
	in_fd = -1;
	CHECK(wait_end() && end_why);
	CHECK(at_end(out_fd));
	finish();
	/* After one side ended. */
	begin("", "");
	shutdown(in_fd, SHUT_WR);
	CHECK(at_end(out_fd));
	setsockopt(in_fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(in_fd);
	in_fd = -1;
	CHECK(wait_end() && end_why);
	finish();
}

static void test_budget(void)
{
	struct budget_hold hold = { 0 };

	tunnel.hold = &hold;
	may_up = 4;
	begin("", "");
	say(in_fd, "1234");
	CHECK_STR(hear(out_fd, 4), "1234");
	say(in_fd, "5");
	CHECK(wait_end() && end_why && strstr(end_why, "budget"));
	CHECK(at_end(out_fd));
	finish();
	tunnel.hold = &hold;
	may_up = UINT64_MAX;
	may_down = 2;
	begin("", "");
	say(out_fd, "123");
	CHECK(wait_end());
	CHECK(at_end(in_fd));
	finish();
	tunnel.hold = &hold;
	begin("", "123"); /* what came first counts as well */
	CHECK(wait_end() && at_end(in_fd));
	may_down = UINT64_MAX;
	finish();
}

static void test_scans(void)
{
	struct scan up = { 0 }, down = { 0 };

	tunnel.up_scan = &up;
	tunnel.down_scan = &down;
	begin("a ", "b secret ");
	CHECK_STR(hear(out_fd, 2), "a ");
	CHECK_STR(hear(in_fd, 9), "b ****** ");
	say(out_fd, "one secret");
	CHECK_STR(hear(in_fd, 10), "one ******");
	shutdown(out_fd, SHUT_WR);
	CHECK_STR(hear(in_fd, 2), "."); /* what was held back */
	say(in_fd, "fine");
	CHECK_STR(hear(out_fd, 4), "fine");
	say(in_fd, "a canary");
	CHECK(wait_end() && end_why);
	CHECK(at_end(out_fd));
	finish();
	tunnel.up_scan = &up;
	begin("canary", "");
	CHECK(wait_end() && at_end(out_fd));
	finish();
}

/* What moved puts the end off; a machine that is slow only does so more. */
static void test_idle_end(void)
{
	enum { IDLE_MS = 200, TRIES = 20 };
	uint64_t said = 0;
	unsigned i;

	for (i = 0; i < TRIES && said == 0; i++) {
		tunnel.idle_ms = IDLE_MS;
		begin("", "");
		run(IDLE_MS / 2);
		if (ends > 0) { /* too slow for this */
			finish();
			continue;
		}
		said = clock_boot_ms();
		say(in_fd, "x");
		CHECK(wait_end() && end_why);
		CHECK(strstr(end_why, "nothing moved"));
		CHECK(clock_boot_ms() - said >= IDLE_MS);
		finish();
	}
	CHECK(said > 0);
}

static void test_silent_end(void)
{
	begin("x", "y");
	tunnel_end(&tunnel);
	tunnel_end(&tunnel);
	CHECK(at_end(in_fd) && at_end(out_fd) && ends == 0);
	finish();
}

/* --- TLS at one side: a WebSocket of an inspected host --- */

static struct tls_context *trusting(void)
{
	char path[] = "/tmp/tunnel_test.XXXXXX";
	struct buf cert = { 0 }, key = { 0 };
	struct tls_context *ctx = NULL;
	struct err e = { 0 };
	int fd = mkostemp(path, O_CLOEXEC);

	if (leaves_new(&gate.leaves, &e) < 0 ||
	    ca_make("p", &cert, &key, &e) < 0 ||
	    ca_load(&project.ca, buf_str(&cert), buf_str(&key), &e) < 0 ||
	    write(fd, buf_data(&cert), buf_len(&cert)) < 0 ||
	    tls_client_context_new(&ctx, path, &e) < 0)
		abort();
	close(fd);
	unlink(path);
	buf_done(&cert);
	buf_done(&key);
	return ctx;
}

static void test_tls(void)
{
	enum { ALL = 300000 };
	struct tls_context *ctx = trusting();
	struct http_stream inside, outside, client;
	static char text[ALL];
	struct err e = { 0 };
	size_t got = 0, sent = 0;
	uint64_t until = clock_boot_ms() + PATIENCE_MS;
	int a[2], b[2], i;

	pair(a);
	pair(b);
	http_stream_open_client(&client, &gate.loop, a[0], ctx, "a.test");
	http_stream_open(&inside, &gate.loop, a[1],
			 leaf_context(&gate, &project, "a.test", &e));
	http_stream_open(&outside, &gate.loop, b[1], NULL);
	for (i = 0; i < 1000 && (http_stream_handshake(&client) < 0 ||
				 http_stream_handshake(&inside) < 0);
	     i++)
		run(1);
	tunnel = (struct tunnel){ .gate = &gate, .done = on_end };
	ends = 0;
	tunnel_start(&tunnel, &inside, &outside, NULL, NULL);
	/* More than fits anywhere, both ways at once. */
	while ((got < ALL || sent < ALL) && clock_boot_ms() < until) {
		ssize_t n = sent < ALL ? http_stream_write(&client, text + sent,
							   ALL - sent)
				       : 0;

		sent += n > 0 ? (size_t)n : 0;
		run(0);
		n = read(b[0], text, sizeof(text));
		got += n > 0 ? (size_t)n : 0;
	}
	CHECK(sent == ALL && got == ALL);
	say(b[0], "back");
	for (i = 0; i < 1000 && http_stream_read(&client, text, 4) != 4; i++)
		run(1);
	CHECK(memcmp(text, "back", 4) == 0);
	close(b[0]);
	for (i = 0; i < 1000 && http_stream_read(&client, text, 4) != 0; i++)
		run(1);
	CHECK(i < 1000); /* an end that was said */
	http_stream_close(&client);
	CHECK(wait_end());
	tunnel_end(&tunnel);
	tunnel = (struct tunnel){ 0 };
	tls_context_free(ctx);
	leaves_free(gate.leaves);
	ca_free(project.ca);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	if (loop_init(&gate.loop) < 0)
		abort();
	test_both_ways();
	test_slow_reader();
	test_idle_holds_nothing();
	test_reset();
	test_budget();
	test_scans();
	test_idle_end();
	test_silent_end();
	test_tls();
	loop_done(&gate.loop);
	return CHECK_DONE();
}
