/* The server as clients see it, good ones and others. */
#include "http/server.h"

#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "check.h"
#include "http/chunked.h"
#include "http_rig.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define POST(path, fields) "POST " path " HTTP/1.1\r\nHost: h\r\n" fields "\r\n"

enum { PATIENCE_MS = 30000 };

static int dial(int server)
{
	int fd = unix_connect(rig.sock[server], SOCK_STREAM);

	if (fd < 0)
		abort();
	return fd;
}

static void put(int fd, const char *s)
{
	if (send(fd, s, strlen(s), MSG_NOSIGNAL) != (ssize_t)strlen(s))
		printf("# short write\n");
}

/* Reads until `end` is the end of what came, or EOF, or patience ends. */
static const char *get_until(int fd, const char *end)
{
	static char got[64 * 1024];
	size_t n = 0, len = end ? strlen(end) : 0;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t r;

		got[n] = '\0';
		if (len > 0 && n >= len && strcmp(got + n - len, end) == 0)
			return got;
		if (poll(&p, 1, PATIENCE_MS) != 1)
			return strcat(got, "(patience)");
		r = read(fd, got + n, sizeof(got) - 32 - n);
		if (r <= 0)
			return got;
		n += (size_t)r;
	}
}

/* Everything until the server closes. */
static const char *talk(int server, const char *s)
{
	AUTO_CLOSE int fd = dial(server);

	put(fd, s);
	return get_until(fd, NULL);
}

static bool has(const char *s, const char *part)
{
	if (strstr(s, part))
		return true;
	printf("# no \"%s\" in: %s\n", part, s);
	return false;
}

static int count(const char *s, const char *part)
{
	int n = 0;

	for (; (s = strstr(s, part)); s += strlen(part))
		n++;
	return n;
}

/* Requests that had an owner, and owners that heard on_gone(). */
static void stats(unsigned *gone, unsigned *jobs)
{
	AUTO_CLOSE int fd = dial(0);
	const char *s;

	*gone = *jobs = 0;
	put(fd, GET("/stats"));
	shutdown(fd, SHUT_WR);
	s = strstr(get_until(fd, NULL), "\r\n\r\n");
	if (!s || sscanf(s, "%u %u", gone, jobs) != 2)
		printf("# no statistics\n");
}

static unsigned gone_count(void)
{
	unsigned gone, jobs;

	stats(&gone, &jobs);
	return gone;
}

static bool wait_gone(unsigned want)
{
	int i;

	for (i = 0; i < 200 && gone_count() < want; i++)
		usleep(10000);
	return gone_count() == want;
}

/* A client that sends this and leaves when its request has an owner. */
static void send_and_leave(const char *s)
{
	AUTO_CLOSE int fd = dial(0);
	unsigned gone, before, jobs, i = 0;

	stats(&gone, &before);
	put(fd, s);
	do {
		usleep(1000);
		stats(&gone, &jobs);
	} while (jobs == before && i++ < 1000);
}

/* Seconds since the Date of an answer. */
static long date_age(const char *s)
{
	struct tm tm = { 0 };

	s = strstr(s, "\r\nDate: ");
	if (!s || !strptime(s + 8, "%a, %d %b %Y %H:%M:%S GMT\r\n", &tm))
		return -1;
	return time(NULL) - timegm(&tm);
}

static void test_keep_alive(void)
{
	AUTO_CLOSE int fd = dial(0);
	const char *s;
	char id[17];

	put(fd, GET("/hello"));
	s = get_until(fd, "hi");
	CHECK(has(s, "HTTP/1.1 200 OK\r\n"));
	CHECK(has(s, "\r\nContent-Length: 2\r\n\r\nhi"));
	CHECK(date_age(s) >= -1 && date_age(s) <= 5);
	CHECK(!strstr(s, "Connection: close"));
	CHECK(has(s, "Request-Id: "));
	memcpy(id, strstr(s, "Request-Id: ") + 12, 16);
	id[16] = '\0';
	CHECK(strspn(id, "0123456789abcdef") == 16);

	put(fd, "HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\n");
	s = get_until(fd, "\r\n\r\n");
	CHECK(has(s, "Content-Length: 2\r\n"));
	CHECK(!strstr(s, id));
	put(fd, GET("/empty"));
	s = get_until(fd, "\r\n\r\n");
	CHECK(has(s, "204 No Content") && !strstr(s, "Content-Length"));
	put(fd, POST("/echo", "Content-Length: 3\r\n") "abc");
	CHECK(has(get_until(fd, "abc"), "200 OK"));
	put(fd,
	    POST("/echo", "Transfer-Encoding: chunked\r\n") "2\r\nxy\r\n1\r\nz"
							    "\r\n0\r\n\r\n");
	CHECK(has(get_until(fd, "xyz"), "200 OK"));
	put(fd, POST("/echo", ""));
	CHECK(has(get_until(fd, "\r\n\r\n"), "Content-Length: 0"));
	/* A body nobody asked for is dropped when it is here already. */
	put(fd, POST("/hello", "Content-Length: 3\r\n") "abc" GET("/later"));
	CHECK(has(get_until(fd, "later"), "hi"));
	put(fd, "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	CHECK(has(get_until(fd, NULL), "Connection: close\r\n"));
	CHECK(has(talk(0, "GET /hello HTTP/1.0\r\n\r\n"), "close\r\n\r\nhi"));
}

static void test_bytewise(void)
{
	static const char s[] = POST(
		"/echo",
		"Transfer-Encoding: chunked\r\n") "5\r\nhello\r\n0\r\n\r\n";
	AUTO_CLOSE int fd = dial(0);
	size_t i;

	for (i = 0; i < sizeof(s) - 1; i++) {
		if (send(fd, s + i, 1, MSG_NOSIGNAL) != 1)
			break;
		usleep(200);
	}
	CHECK(has(get_until(fd, "hello"), "Content-Length: 5"));
}

static void test_pipelining(void)
{
	AUTO_CLOSE int fd = dial(0);
	const char *s, *first, *second;
	int i;

	put(fd, GET("/later") GET("/hello")
			POST("/echo", "Content-Length: 4\r\n") "last");
	s = get_until(fd, "last");
	first = strstr(s, "later");
	second = first ? strstr(first, "hi") : NULL;
	CHECK(first && second && count(s, "200 OK") == 3);
	for (i = 0; i < 300; i++)
		put(fd, GET("/hello"));
	put(fd,
	    "GET /empty HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" GET(
		    "/hello"));
	s = get_until(fd, NULL);
	CHECK(count(s, "\r\n\r\nhi") == 300);
	CHECK(count(s, "204 No") == 1);
}

static void test_errors(void)
{
	const char *s = talk(0, "GET / HTTP/1.1\r\n\r\n" GET("/hello"));

	CHECK(has(s, "HTTP/1.1 400 Bad Request\r\n"));
	CHECK(has(s, "{\"code\": 400, \"error\": \"bad_request\", "
		     "\"message\": \"no Host field\", \"request_id\": \""));
	CHECK(has(s, "Content-Type: application/json\r\n"));
	CHECK(has(s, "Connection: close\r\n"));
	CHECK(count(s, "HTTP/1.1") == 1);
	CHECK(has(talk(0, "GET / HTTP/3.0\r\nHost: h\r\n\r\n"), " 505 "));
	CHECK(has(talk(0, POST("/echo", "Content-Length: 1\r\n"
					"Transfer-Encoding: chunked\r\n")),
		  " 400 "));
	CHECK(has(talk(0, POST("/echo", "Content-Length: 1001\r\n")), " 413 "));
	CHECK(has(talk(0, POST("/echo",
			       "Transfer-Encoding: chunked\r\n") "5;x\r\n"),
		  "malformed chunked body"));
	s = talk(0,
		 "GET /fail HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	CHECK(has(s, "\"message\": \"a\\\"b\\\\c\\u000a\\u0001\303\244\?\?\""));
}

static void test_body_limit(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO_CLOSE int fd = dial(0);
	char body[RIG_BODY_MAX + 1];

	memset(body, 'x', sizeof(body));
	buf_puts(&b, POST("/echo", "Transfer-Encoding: chunked\r\n"));
	http_chunk_add(&b, body, RIG_BODY_MAX);
	buf_puts(&b, HTTP_LAST_CHUNK);
	put(fd, buf_str(&b));
	CHECK(has(get_until(fd, "xxx"), "Content-Length: 1000\r\n"));
	buf_clear(&b);
	buf_puts(&b, POST("/echo", "Transfer-Encoding: chunked\r\n"));
	http_chunk_add(&b, body, RIG_BODY_MAX + 1);
	CHECK(has(talk(0, buf_str(&b)), " 413 "));
}

static void test_continue(void)
{
	static const char ask[] =
		POST("/echo", "Expect: 100-continue\r\nContent-Length: 3\r\n");
	AUTO_CLOSE int fd = dial(0);
	const char *s;

	put(fd, ask);
	CHECK_STR(get_until(fd, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
	put(fd, "abc");
	CHECK(has(get_until(fd, "abc"), "HTTP/1.1 200"));
	/* Refused: no interim answer, and no guessing what comes next. */
	s = talk(0, POST("/echo", "Expect: 100-continue\r\n"
				  "Content-Length: 2000\r\n"));
	CHECK(has(s, "HTTP/1.1 413") && !strstr(s, "100 Continue"));
}

static void test_streamed_body(const char *path, size_t total)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO_CLOSE int fd = dial(0);
	uint64_t sum = 0;
	char want[64], piece[7001];
	size_t left = total, i;

	buf_printf(&b,
		   "POST %s HTTP/1.1\r\nHost: h\r\n"
		   "Transfer-Encoding: chunked\r\n\r\n",
		   path);
	while (left > 0) {
		size_t n = left < sizeof(piece) ? left : sizeof(piece);

		for (i = 0; i < n; i++) {
			piece[i] = (char)(left + i * i);
			sum = sum * 31 + (unsigned char)piece[i];
		}
		http_chunk_add(&b, piece, n);
		left -= n;
	}
	buf_puts(&b, HTTP_LAST_CHUNK GET("/hello"));
	CHECK(write_full(fd, buf_data(&b), buf_len(&b)) == 0);
	snprintf(want, sizeof(want), "\r\n\r\n%zu %llu", total,
		 (unsigned long long)sum);
	CHECK(has(get_until(fd, "hi"), want));
}

/* A consumer that pauses stops the client: the kernel's buffers fill up. */
static void test_backpressure(void)
{
	AUTO_CLOSE int fd = dial(0);
	static char block[100000];
	uint64_t start = clock_boot_ms();
	size_t sent = 0;

	put(fd, POST("/slow-sum", "Content-Length: 100000000\r\n"));
	fd_set_nonblock(fd, true);
	while (clock_boot_ms() - start < 200) {
		ssize_t n = send(fd, block, sizeof(block), MSG_NOSIGNAL);

		if (n > 0)
			sent += (size_t)n;
	}
	/* 5000 bytes per ms and what the kernel holds. */
	CHECK(sent > 0 && sent < 3000000);
}

static void test_early_answer(void)
{
	AUTO_CLOSE int fd = dial(0);
	const char *s;

	put(fd, POST("/early", "Content-Length: 100000\r\n") "some");
	s = get_until(fd, NULL);
	CHECK(has(s, "409 Conflict") && has(s, "Connection: close"));
	/* It still takes bytes for a while: nothing resets the answer. */
	CHECK(send(fd, "more", 4, MSG_NOSIGNAL) == 4);
}

static void test_gone(void)
{
	unsigned before = gone_count();
	int fd;

	send_and_leave(GET("/never"));
	CHECK(wait_gone(before + 1));
	send_and_leave(GET("/never") GET("/hello")); /* bytes wait */
	CHECK(wait_gone(before + 2));
	send_and_leave(POST("/sum", "Content-Length: 10\r\n") "abc");
	CHECK(wait_gone(before + 3));
	fd = dial(0); /* half a close is not gone */
	put(fd, GET("/later"));
	shutdown(fd, SHUT_WR);
	CHECK(has(get_until(fd, NULL), "later"));
	close(fd);
	fd = dial(0);
	put(fd, POST("/sum", "Content-Length: 10\r\n") "abc");
	shutdown(fd, SHUT_WR);
	CHECK(has(get_until(fd, NULL), "the body ended too early"));
	close(fd);
	CHECK(wait_gone(before + 4));
	fd = dial(0); /* while an answer is streaming */
	put(fd, GET("/stream?n=100000000"));
	get_until(fd, "\r\n\r\n");
	close(fd);
	CHECK(wait_gone(before + 5));
}

static void test_streamed_answer(void)
{
	AUTO_CLOSE int fd = dial(0);
	const char *s;

	put(fd, GET("/stream?n=5") GET("/stream?n=0") GET("/hello"));
	s = get_until(fd, "hi");
	CHECK(count(s, "Transfer-Encoding: chunked\r\n") == 2);
	put(fd, "HEAD /stream?n=5 HTTP/1.1\r\nHost: h\r\n\r\n" GET("/hello"));
	s = get_until(fd, "hi");
	CHECK(count(s, "Transfer-Encoding: chunked\r\n") == 1);
	CHECK(!strstr(s, "\r\n0\r\n"));
	s = talk(0, "GET /stream?n=0 HTTP/1.0\r\n\r\n");
	CHECK(!strstr(s, "chunked") && has(s, "Connection: close\r\n\r\n"));
}

/* An answer of a known length; one that ends too early ends the connection. */
static void test_sized_answer(void)
{
	AUTO_CLOSE int fd = dial(0);
	const char *s;

	put(fd,
	    GET("/sized?n=5&size=5") GET("/sized?n=0&size=0") GET("/hello"));
	s = get_until(fd, "hi");
	CHECK(has(s, "Content-Length: 5\r\n\r\nzzzzzHTTP/1.1"));
	CHECK(has(s, "Content-Length: 0\r\n\r\nHTTP/1.1"));
	CHECK(!strstr(s, "chunked"));
	put(fd,
	    "HEAD /sized?n=5&size=5 HTTP/1.1\r\nHost: h\r\n\r\n" GET("/hello"));
	s = get_until(fd, "hi");
	CHECK(has(s, "Content-Length: 5\r\n\r\nHTTP/1.1"));
	s = talk(0, "GET /sized?n=5&size=5 HTTP/1.0\r\n\r\n");
	CHECK(has(s, "Content-Length: 5\r\nConnection: close\r\n\r\nzzzzz"));
	s = talk(0, GET("/sized?n=5&size=7") GET("/hello"));
	CHECK(!strstr(s, "zz\r") && !strstr(s, "hi"));
}

#define UP "Connection: Upgrade\r\nUpgrade: test/1\r\n"

static void test_upgrade(void)
{
	const char *s = talk(0, POST("/up", UP) "frames");
	AUTO_CLOSE int fd = dial(0);

	CHECK(has(s, "HTTP/1.1 101 Switching Protocols\r\n"));
	CHECK(has(s, "\r\nConnection: Upgrade\r\nUpgrade: test/1\r\n"));
	CHECK(has(s, "\r\nSandbox-Id: i?\?x\r\n"));
	CHECK(has(s, "\r\n\r\n[frames]"));
	s = talk(0, POST("/up-body", UP "Content-Length: 4\r\n") "specmore");
	CHECK(has(s, "101 Switching") && has(s, "\r\n\r\n[more]"));
	put(fd, POST("/up", UP "Content-Length: 4\r\n") "spec");
	CHECK(has(get_until(fd, "}\n"), "400 Bad Request"));
	CHECK(has(talk(0, POST("/up", "Connection: close\r\n")), " 426 "));
}

static uint64_t closed_after(const char *s, const char *want)
{
	uint64_t start = clock_boot_ms();

	CHECK(has(talk(1, s), want));
	return clock_boot_ms() - start;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void test_timeouts(void)
{
	AUTO_CLOSE int fd = -1;
	unsigned before = gone_count();
	uint64_t ms, start;
	int small = 4096, i;

	ms = closed_after("", "");
	CHECK(ms >= 90 && ms < PATIENCE_MS);
	ms = closed_after("GET / HT", "408 Request Timeout");
	CHECK(ms >= 90 && ms < PATIENCE_MS);
	ms = closed_after(GET("/hello"), "hi");
	CHECK(ms >= 190 && ms < PATIENCE_MS);
	ms = closed_after(GET("/hello") "GET", "408");
	CHECK(ms >= 90 && ms < PATIENCE_MS);
	ms = closed_after(POST("/sum", "Content-Length: 9\r\n") "abc", "408");
	CHECK(ms >= 90 && ms < PATIENCE_MS);
	CHECK(wait_gone(before + 1));
	/* A head in drops: the deadline is for the whole. */
	start = clock_boot_ms();
	fd = dial(1);
	for (i = 0; i < 20; i++) {
		put(fd, "G");
		usleep(20000);
	}
	CHECK(has(get_until(fd, NULL), "408"));
	CHECK(clock_boot_ms() - start < PATIENCE_MS);
	/* A body in drops, without a long pause. */
	close(fd);
	start = clock_boot_ms();
	fd = dial(1);
	put(fd, POST("/sum", "Content-Length: 100000\r\n"));
	while (clock_boot_ms() - start < PATIENCE_MS && !readable(fd)) {
		put(fd, "x");
		usleep(20000);
	}
	CHECK(has(get_until(fd, NULL), "408"));
	/* A slow consumer is not the client's fault. */
	test_streamed_body("/slow-sum", 1500000);
	/* A client that does not read. */
	close(fd);
	fd = dial(1);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	put(fd, GET("/stream?n=100000000"));
	CHECK(wait_gone(before + 3));
}

#define EXPECT "Expect: 100-continue\r\n"

static void test_max_conns(void)
{
	int a = dial(2), b = dial(2), c;
	struct pollfd p = { .events = POLLIN };

	/* Requests under way keep their places. */
	put(a, POST("/sum", "Content-Length: 3\r\n" EXPECT));
	put(b, POST("/sum", "Content-Length: 3\r\n" EXPECT));
	CHECK(has(get_until(a, "\r\n\r\n"), "100 Continue"));
	CHECK(has(get_until(b, "\r\n\r\n"), "100 Continue"));
	p.fd = c = dial(2);
	put(c, GET("/hello"));
	CHECK(poll(&p, 1, 100) == 0);
	put(a, "abc");
	CHECK(has(get_until(a, "3"), "200"));
	CHECK(has(get_until(c, "hi"), "200"));
	put(b, "abc");
	CHECK(has(get_until(b, "3"), "200"));
	close(a);
	close(b);
	close(c);
}

static bool is_closed(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&p, 1, PATIENCE_MS) == 1 && read(fd, &byte, 1) == 0;
}

static void test_oldest_idle_stranger_gives_way(void)
{
	int a = dial(2), b = dial(2), c, d;

	/* The first has shown who it is, the second has said nothing yet. */
	put(a, GET("/known"));
	CHECK(has(get_until(a, "hi"), "200"));
	c = dial(2);
	put(c, GET("/hello"));
	CHECK(has(get_until(c, "hi"), "200"));
	CHECK(is_closed(b));
	/* Without strangers, the oldest that waits goes. */
	put(c, GET("/known"));
	CHECK(has(get_until(c, "hi"), "200"));
	d = dial(2);
	put(d, GET("/hello"));
	CHECK(has(get_until(d, "hi"), "200"));
	CHECK(is_closed(a));
	put(c, GET("/hello"));
	CHECK(has(get_until(c, "hi"), "200"));
	close(a);
	close(b);
	close(c);
	close(d);
}

static void test_peer(void)
{
	AUTO_CLOSE int fd = dial(0);
	char want[32];

	snprintf(want, sizeof(want), "\r\n\r\n%d %u", getpid(), getuid());
	put(fd, "GET /peer HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	CHECK(has(get_until(fd, NULL), want));
}

int main(void)
{
	alarm(120);
	rig_start();
	test_keep_alive();
	test_bytewise();
	test_pipelining();
	test_errors();
	test_body_limit();
	test_continue();
	test_streamed_body("/sum", 3000000);
	test_streamed_body("/slow-sum", 300000);
	test_backpressure();
	test_early_answer();
	test_gone();
	test_streamed_answer();
	test_sized_answer();
	test_upgrade();
	test_timeouts();
	test_max_conns();
	test_oldest_idle_stranger_gives_way();
	test_peer();
	CHECK(rig_stop() == 0);
	return CHECK_DONE();
}
