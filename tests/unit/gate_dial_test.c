/*
 * The way to a server outside, on this host's loopback: a DNS server, a proxy
 * and servers are on the same loop as who dials.
 */
#include "gate/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "gate/decide.h"
#include "gate/leaf.h"
#include "gate/proxy.h"
#include "gate/resolve.h"
#include "http/tls.h"

static struct conf conf;
static struct gate gate = { .conf = &conf };
static struct box box = { .gate = &gate, .id = "ibox" };
static struct box other = { .gate = &gate, .id = "iother" };
static struct project project = { .name = "p" };

/*
 * The policies: all of 127.0.0.0/24 is named, but only for this request and
 * without an approval. dial.c has to ask about the sandbox, request, host and
 * port that it was given.
 */
static const struct request wanted = { .scheme = SCHEME_TCP };
static struct dial dial;

static bool was_asked;       /* the next dial had an approval */
static unsigned char denied; /* 127.0.0.N is denied; 0: none */

static bool is_dialled(const struct box *b, const struct request *q)
{
	return b == dial.box && q == dial.request;
}

bool box_names_address(const struct box *b, const struct request *q, bool asked,
		       const char *host, const struct in6_addr *a,
		       uint16_t port)
{
	CHECK(is_dialled(b, q) && port == dial.port && asked == dial.asked);
	CHECK_STR(host, dial.host);
	return q == &wanted && !asked && IN6_IS_ADDR_V4MAPPED(a) &&
	       a->s6_addr[12] == 127 && a->s6_addr[14] == 0;
}

bool box_denies_address(const struct box *b, const struct request *q,
			const struct in6_addr *a, struct buf *why)
{
	CHECK(is_dialled(b, q));
	if (!denied || a->s6_addr[12] != 127 || a->s6_addr[15] != denied)
		return false;
	if (why)
		buf_printf(why, "deny 127.0.0.%u", denied);
	return true;
}

/* --- sockets --- */

static int bound(int kind, uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(*port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, kind | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) < 0 ||
	    (kind == SOCK_STREAM && listen(fd, 16) < 0) ||
	    getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		abort();
	*port = ntohs(a.sin_port);
	return fd;
}

/* --- a DNS server --- */

static struct io dns_udp, dns_tcp;
static unsigned asked, asked_tcp;

static const struct {
	const char *name, *answers; /* "": none; NULL: no such name */
	unsigned ttl;
} zone[] = {
	{ "one.test", "127.0.0.1", 60 },
	{ "short.test", "127.0.0.1", 0 },
	{ "both.test", "127.0.0.1 ::1", 60 },
	{ "rebind.test", "127.0.0.1 127.1.1.1", 60 },
	{ "private.test", "10.1.2.3", 60 },
	{ "big.test", "127.0.0.1", 60 }, /* truncated over UDP */
	{ "forged.test", "127.0.0.1", 60 },
	{ "empty.test", "", 60 },
	{ "busy.test", NULL, 0 }, /* SERVFAIL */
};

static void name_of(const unsigned char *p, char out[256])
{
	size_t n = 0;

	for (p += 12; *p; p += *p + 1) {
		memcpy(out + n, p + 1, *p);
		n += *p;
		out[n++] = '.';
	}
	out[n ? n - 1 : 0] = '\0';
}

static void add_record(struct buf *out, int type, unsigned ttl,
		       const struct in6_addr *a)
{
	unsigned n = type == 1 ? 4 : 16;
	unsigned char head[] = { 0xc0,
				 12,
				 0,
				 (unsigned char)type,
				 0,
				 1,
				 0,
				 0,
				 (unsigned char)(ttl >> 8),
				 (unsigned char)ttl,
				 0,
				 (unsigned char)n };

	buf_add(out, head, sizeof(head));
	buf_add(out, a->s6_addr + 16 - n, n);
}

static void answer(const unsigned char *q, size_t n, bool tcp, struct buf *out)
{
	char name[256], all[64] = "", *at = all, *word;
	size_t i, question;
	struct in6_addr a;
	int type, count = 0, rcode = 3;
	unsigned ttl = 0;

	(void)n;
	name_of(q, name);
	question = strlen((const char *)q + 12) + 1 + 4;
	type = q[12 + question - 3];
	buf_add(out, q, 12 + question);
	for (i = 0; i < ARRAY_LEN(zone); i++)
		if (strcmp(zone[i].name, name) == 0) {
			rcode = zone[i].answers ? 0 : 2;
			ttl = zone[i].ttl;
			if (zone[i].answers)
				snprintf(all, sizeof(all), "%s",
					 zone[i].answers);
		}
	while ((word = strsep(&at, " ")))
		if (address_read(&a, word) == 0 &&
		    (type == 1) == IN6_IS_ADDR_V4MAPPED(&a)) {
			add_record(out, type, ttl, &a);
			count++;
		}
	out->p[2] = (char)0x81;
	out->p[3] = (char)(0x80 | rcode);
	memset(out->p + 6, 0, 6);
	out->p[7] = (char)count;
	if (strcmp(name, "big.test") == 0 && !tcp)
		out->p[2] |= 2;
}

static void on_dns(struct io *io, uint32_t events)
{
	unsigned char q[512];
	struct sockaddr_in from;
	socklen_t n = sizeof(from);
	struct buf out = { 0 };
	ssize_t r =
		recvfrom(io->fd, q, sizeof(q), 0, (struct sockaddr *)&from, &n);

	(void)events;
	if (r < 12)
		return;
	asked++;
	if (strstr((char *)q + 12, "silent"))
		return;
	answer(q, (size_t)r, false, &out);
	if (strstr((char *)q + 12, "forged")) {
		/* First one with another number, one about another name. */
		out.p[0]++;
		sendto(io->fd, out.p, buf_len(&out), 0,
		       (struct sockaddr *)&from, n);
		out.p[0]--;
		out.p[14]++;
		sendto(io->fd, out.p, buf_len(&out), 0,
		       (struct sockaddr *)&from, n);
		out.p[14]--;
	}
	sendto(io->fd, out.p, buf_len(&out), 0, (struct sockaddr *)&from, n);
	buf_done(&out);
}

static struct io dns_conn[4];

static void on_dns_conn(struct io *io, uint32_t events)
{
	unsigned char q[512], length[2];
	ssize_t n = read(io->fd, q, sizeof(q));
	struct buf out = { 0 };

	(void)events;
	asked_tcp++;
	if (n > 14)
		answer(q + 2, (size_t)n - 2, true, &out);
	length[0] = (unsigned char)(buf_len(&out) >> 8);
	length[1] = (unsigned char)buf_len(&out);
	if (write(io->fd, length, 2) < 0 ||
	    write(io->fd, buf_data(&out), buf_len(&out)) < 0)
		abort();
	buf_done(&out);
	io_close(&gate.loop, io);
}

static void on_dns_tcp(struct io *io, uint32_t events)
{
	static unsigned next;

	(void)events;
	if (next == ARRAY_LEN(dns_conn) ||
	    io_add(&gate.loop, &dns_conn[next++],
		   accept4(io->fd, NULL, NULL, SOCK_CLOEXEC), EPOLLIN,
		   on_dns_conn) < 0)
		abort();
}

/* --- who dials --- */

static struct err ended;
static unsigned calls;

static struct timer stopper;

static void on_stop(struct timer *t)
{
	(void)t;
	gate.loop.stop = true;
}

/* With a timer: a deferred call comes before the loop waits. */
static void on_done(struct dial *d, const struct err *e)
{
	calls++;
	ended = *e;
	timer_set(&gate.loop, &stopper, 0, on_stop);
	if (!e->code && !http_stream_is_open(&d->stream))
		abort();
}

static void on_watchdog(struct timer *t)
{
	(void)t;
	gate.loop.stop = true;
}

static void run(uint64_t ms)
{
	struct timer watchdog = { 0 };

	timer_set(&gate.loop, &watchdog, ms, on_watchdog);
	gate.loop.stop = false;
	if (loop_run(&gate.loop) < 0)
		abort();
	timer_del(&gate.loop, &watchdog);
}

static int dialled(struct box *b, const char *host, uint16_t port, bool tls)
{
	dial = (struct dial){ .box = b,
			      .port = port,
			      .tls = tls,
			      .request = &wanted,
			      .asked = was_asked };
	snprintf(dial.host, sizeof(dial.host), "%s", host);
	ended.code = -1;
	calls = 0;
	dial_start(&dial, on_done);
	CHECK(calls == 0);
	run(15000);
	CHECK(calls == 1 && !dial.work);
	if (ended.code)
		printf("# %s: %s\n", host, ended.msg);
	return ended.code;
}

static bool arrived(void)
{
	bool open = http_stream_is_open(&dial.stream);

	http_stream_close(&dial.stream);
	return open;
}

/* --- tests --- */

static uint16_t port; /* somebody listens */

static void test_addresses(void)
{
	uint16_t nobody = 0;

	close(bound(SOCK_STREAM, &nobody));
	CHECK(dialled(&box, "127.0.0.1", port, false) == 0);
	CHECK_STR(dial.address, "127.0.0.1");
	CHECK(arrived());
	CHECK(dialled(&box, "127.0.0.1", nobody, false) == ECONNREFUSED);
	CHECK(!arrived());
	CHECK(dialled(&box, "127.1.1.1", port, false) == EACCES);
	CHECK(strstr(ended.msg, "private 127.1.1.1"));
	CHECK(dialled(&box, "::1", port, false) == EACCES);
	CHECK(dialled(&box, "10.0.0.1", port, false) == EACCES);
	CHECK(dialled(&box, "169.254.169.254", 80, false) == EACCES);
}

/* The policies are asked about each address, also when it is connected to. */
static void test_policies(void)
{
	CHECK(dialled(&box, "127.0.0.1", port, false) == 0);
	CHECK(dial.named && dial_stays(&dial));
	denied = 1;
	CHECK(!dial_stays(&dial));
	denied = 0;
	dial.asked = true; /* policies do not name it then */
	CHECK(!dial_stays(&dial));
	dial.asked = false;
	dial.request = NULL;
	CHECK(!dial_stays(&dial) && arrived());
	was_asked = true;
	CHECK(dialled(&box, "127.0.0.1", port, false) == EACCES);
	was_asked = false;
	denied = 1;
	CHECK(dialled(&box, "127.0.0.1", port, false) == EACCES);
	CHECK(strstr(ended.msg, "deny 127.0.0.1"));
	CHECK(dialled(&box, "one.test", port, false) == EACCES);
	CHECK(strstr(ended.msg, "deny 127.0.0.1") && !arrived());
	denied = 0;
}

static void test_names(void)
{
	unsigned before;

	CHECK(dialled(&box, "one.test", port, false) == 0 && arrived());
	before = asked;
	CHECK(dialled(&box, "one.test", port, false) == 0 && arrived());
	CHECK(asked == before); /* known */
	CHECK(dialled(&other, "one.test", port, false) == 0 && arrived());
	CHECK(asked == before + 2); /* to this one it is not */
	CHECK(dialled(&box, "short.test", port, false) == 0 && arrived());
	before = asked;
	CHECK(dialled(&box, "short.test", port, false) == 0 && arrived());
	CHECK(asked == before + 2);

	CHECK(dialled(&box, "none.test", port, false) == ENOENT);
	CHECK(dialled(&box, "empty.test", port, false) == ENOENT);
	CHECK(dialled(&box, "busy.test", port, false) == ETIMEDOUT);
	CHECK(dialled(&box, "big.test", port, false) == 0 && arrived());
	CHECK(asked_tcp == 2);
	CHECK(dialled(&box, "forged.test", port, false) == 0 && arrived());
	CHECK(dialled(&box, "known.test", port, false) == 0 && arrived());
}

static void test_rebinding(void)
{
	CHECK(dialled(&box, "private.test", port, false) == EACCES);
	CHECK(strstr(ended.msg, "10.1.2.3"));
	CHECK(dialled(&box, "rebind.test", port, false) == EACCES);
	CHECK(strstr(ended.msg, "127.1.1.1"));
	CHECK(dialled(&box, "both.test", port, false) == EACCES); /* ::1 */
}

static void test_cancel(void)
{
	static const char *const host[] = { "short.test", "127.0.0.1",
					    "10.0.0.1" };
	unsigned i, n_before = asked;

	calls = 0;
	for (i = 0; i < ARRAY_LEN(host); i++) {
		dial = (struct dial){ .box = &box, .port = port };
		snprintf(dial.host, sizeof(dial.host), "%s", host[i]);
		dial_start(&dial, on_done);
		dial_cancel(&dial);
		dial_cancel(&dial);
	}
	/* In the middle of the question. */
	dial = (struct dial){ .box = &box, .port = port };
	snprintf(dial.host, sizeof(dial.host), "%s", "silent.test");
	dial_start(&dial, on_done);
	for (i = 0; i < 1000 && asked < n_before + 2; i++)
		run(5);
	dial_cancel(&dial);
	run(20);
	CHECK(calls == 0 && asked == n_before + 2);
}

/* --- TLS --- */

static struct io tls_listener;
static struct http_stream tls_stream;
static const char *tls_name;

static void on_tls_stream(struct http_stream *s, uint32_t events)
{
	int r = http_stream_handshake(s);

	(void)events;
	if (r != -EAGAIN)
		http_stream_unwatch(s);
}

static void on_tls(struct io *io, uint32_t events)
{
	struct err e = { 0 };
	int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)events;
	http_stream_close(&tls_stream);
	if (!tls_name) { /* it is no TLS */
		if (write(fd, "SSH-2.0-x\r\n", 11) < 0)
			abort();
		http_stream_open(&tls_stream, &gate.loop, fd, NULL);
		return;
	}
	http_stream_open(&tls_stream, &gate.loop, fd,
			 leaf_context(&gate, &project, tls_name, &e));
	if (http_stream_watch(&tls_stream, EPOLLIN, on_tls_stream) < 0)
		abort();
}

static void trust(void)
{
	char path[] = "/tmp/dial_test.XXXXXX";
	struct buf cert = { 0 }, key = { 0 };
	struct err e = { 0 };
	int fd = mkostemp(path, O_CLOEXEC);

	if (leaves_new(&gate.leaves, &e) < 0 ||
	    ca_make("p", &cert, &key, &e) < 0 ||
	    ca_load(&project.ca, buf_str(&cert), buf_str(&key), &e) < 0 ||
	    write(fd, buf_data(&cert), buf_len(&cert)) < 0 ||
	    tls_client_context_new(&gate.upstream_tls, path, &e) < 0)
		abort();
	close(fd);
	unlink(path);
	buf_done(&cert);
	buf_done(&key);
}

static void test_tls(void)
{
	uint16_t tls_port = 0;
	int fd = bound(SOCK_STREAM, &tls_port);

	CHECK(dialled(&box, "one.test", tls_port, true) == EPROTO);
	trust();
	http_stream_init(&tls_stream);
	if (io_add(&gate.loop, &tls_listener, fd, EPOLLIN, on_tls) < 0)
		abort();
	tls_name = "one.test";
	CHECK(dialled(&box, "one.test", tls_port, true) == 0);
	CHECK(http_stream_is_tls(&dial.stream) && arrived());
	tls_name = "else.test";
	CHECK(dialled(&box, "one.test", tls_port, true) == EPROTO);
	CHECK(strstr(ended.msg, "another name"));
	tls_name = "127.0.0.1";
	CHECK(dialled(&box, "127.0.0.1", tls_port, true) == 0 && arrived());
	tls_name = NULL;
	CHECK(dialled(&box, "one.test", tls_port, true) == EPROTO);
	http_stream_close(&tls_stream);
	io_close(&gate.loop, &tls_listener);
}

/* --- the proxy --- */

static struct io proxy_listener;
static const char *proxy_says;
static char proxy_heard[1024];
static struct io proxy_conn = { .fd = -1 };

static void on_proxy_conn(struct io *io, uint32_t events)
{
	ssize_t n = read(io->fd, proxy_heard, sizeof(proxy_heard) - 1);

	(void)events;
	proxy_heard[n > 0 ? n : 0] = '\0';
	if (write(io->fd, proxy_says, strlen(proxy_says)) < 0)
		abort();
	io_del(&gate.loop, io);
}

static void on_proxy(struct io *io, uint32_t events)
{
	(void)events;
	io_close(&gate.loop, &proxy_conn);
	if (io_add(&gate.loop, &proxy_conn,
		   accept4(io->fd, NULL, NULL, SOCK_CLOEXEC), EPOLLIN,
		   on_proxy_conn) < 0)
		abort();
}

static void test_proxy(void)
{
	uint16_t proxy_port = 0;
	int fd = bound(SOCK_STREAM, &proxy_port);
	char got[16] = "";
	unsigned before = asked;

	if (io_add(&gate.loop, &proxy_listener, fd, EPOLLIN, on_proxy) < 0)
		abort();
	snprintf(conf.upstream_proxy, sizeof(conf.upstream_proxy),
		 "http://me:pass@127.0.0.1:%u", proxy_port);
	proxy_says = "HTTP/1.1 200 OK\r\nVia: x\r\n\r\nSSH-2.0";
	CHECK(dialled(&box, "far.test", 22, false) == 0);
	CHECK_STR(proxy_heard, "CONNECT far.test:22 HTTP/1.1\r\n"
			       "Host: far.test:22\r\n"
			       "Proxy-Authorization: Basic bWU6cGFzcw==\r\n"
			       "\r\n");
	/* What came with the answer is the server's. */
	CHECK(http_stream_read(&dial.stream, got, sizeof(got)) == 7);
	CHECK_STR(got, "SSH-2.0");
	CHECK(arrived());
	CHECK(asked == before); /* the proxy knows names */
	proxy_says = "HTTP/1.1 407 Who are you\r\n\r\n";
	CHECK(dialled(&box, "far.test", 22, false) == EPROTO);
	CHECK(strstr(ended.msg, "407") && !strstr(ended.msg, "pass"));
	proxy_says = "nonsense\r\n\r\n";
	CHECK(dialled(&box, "far.test", 22, false) == EPROTO);
	/* Addresses are still checked here. */
	CHECK(dialled(&box, "169.254.169.254", 80, false) == EACCES);
	conf.upstream_proxy[0] = '\0';
	io_close(&gate.loop, &proxy_conn);
	io_close(&gate.loop, &proxy_listener);
}

static void test_proxy_setting(void)
{
	static const struct {
		const char *url, *host, *user;
		int port;
	} row[] = {
		{ "http://proxy.test:8080", "proxy.test", "", 8080 },
		{ "http://proxy.test", "proxy.test", "", 3128 },
		{ "http://proxy.test:8080/", "proxy.test", "", 8080 },
		{ "http://[2001:db8::1]:81", "2001:db8::1", "", 81 },
		{ "http://[2001:db8::1]", "2001:db8::1", "", 3128 },
		{ "http://u:p@x@h.test:1", "h.test", "u:p@x", 1 },
		{ "https://proxy.test:8080", NULL, "", 0 },
		{ "proxy.test:8080", NULL, "", 0 },
		{ "http://user@proxy.test", NULL, "", 0 },
		{ "http://proxy.test:0", NULL, "", 0 },
		{ "http://proxy.test:x", NULL, "", 0 },
		{ "http://", NULL, "", 0 },
		{ "http://a b", NULL, "", 0 },
	};
	struct upstream_proxy p;
	size_t i;

	for (i = 0; i < ARRAY_LEN(row); i++) {
		struct err e = { 0 };
		int r = proxy_read(&p, row[i].url, &e);

		CHECK((r == 0) == !!row[i].host);
		if (!row[i].host || r < 0)
			continue;
		CHECK_STR(p.host, row[i].host);
		CHECK_STR(p.user, row[i].user);
		CHECK(p.port == row[i].port);
	}
}

static void test_resolver_setting(void)
{
	struct resolve_conf c;
	struct err e = { 0 };
	char text[ADDRESS_CAP];

	CHECK(resolve_conf_read(&c, "192.0.2.1, [2001:db8::1]:54,192.0.2.2:55",
				"nameserver 192.0.2.9\n", NULL, &e) == 0);
	CHECK(c.n_servers == 3 && c.servers[0].port == 53 &&
	      c.servers[1].port == 54 && c.servers[2].port == 55);
	resolve_conf_done(&c);
	CHECK(resolve_conf_read(
		      &c, "",
		      "# x\nsearch a.b\nnameserver 192.0.2.9 # y\n"
		      "nameserver nonsense\nnameserver\tfe80::1%eth0\n"
		      "nameserver 2001:db8::9",
		      "192.0.2.5 A.Test b.test # c.test\nx y\n"
		      "::1 six.test\n",
		      &e) == 0);
	CHECK(c.n_servers == 2 && c.n_hosts == 3);
	address_text(&c.servers[0].address, text);
	CHECK_STR(text, "192.0.2.9");
	CHECK_STR(c.hosts[0].host, "a.test");
	CHECK_STR(c.hosts[2].host, "six.test");
	resolve_conf_done(&c);
	CHECK(resolve_conf_read(&c, "", NULL, NULL, &e) == 0);
	CHECK(c.n_servers == 1 && c.servers[0].port == 53);
	resolve_conf_done(&c);
	CHECK(resolve_conf_read(&c, "dns.test", NULL, NULL, &e) == -EINVAL);
	printf("# %s\n", e.msg);
	err_clear(&e);
	CHECK(dial_check(&conf, &e) == 0);
	snprintf(conf.upstream_proxy, sizeof(conf.upstream_proxy), "ftp://x");
	CHECK(dial_check(&conf, &e) == -EINVAL);
	conf.upstream_proxy[0] = '\0';
}

int main(void)
{
	uint16_t dns_port = 0;
	struct err e = { 0 };
	int fd, listener;

	signal(SIGPIPE, SIG_IGN);
	if (loop_init(&gate.loop) < 0)
		abort();
	fd = bound(SOCK_DGRAM, &dns_port);
	if (io_add(&gate.loop, &dns_udp, fd, EPOLLIN, on_dns) < 0 ||
	    io_add(&gate.loop, &dns_tcp, bound(SOCK_STREAM, &dns_port), EPOLLIN,
		   on_dns_tcp) < 0)
		abort();
	listener = bound(SOCK_STREAM, &port);
	CHECK(dialled(&box, "one.test", port, false) == EIO);
	snprintf(conf.resolver, sizeof(conf.resolver), "127.0.0.1:%u",
		 dns_port);
	CHECK(resolver_set(&gate, NULL, "127.0.0.1 known.test\n", &e) == 0);
	test_proxy_setting();
	test_resolver_setting();
	test_addresses();
	test_policies();
	test_names();
	test_rebinding();
	test_cancel();
	test_tls();
	test_proxy();
	resolver_free(gate.resolver);
	leaves_free(gate.leaves);
	ca_free(project.ca);
	tls_context_free(gate.upstream_tls);
	close(listener);
	io_close(&gate.loop, &dns_udp);
	io_close(&gate.loop, &dns_tcp);
	loop_done(&gate.loop);
	return CHECK_DONE();
}
