/*
 * Requests through a proxy, as many as it takes.
 *
 *	load MODE PROXY_PORT HOST PORT COUNT TIME
 *
 * MODE:  http	  GET http://HOST:PORT/ in absolute form, on COUNT connections,
 *		  for TIME ms
 *	  https	  the same behind CONNECT and TLS, all with handshakes before
 *		  the clock starts
 *	  direct  without a proxy: PROXY_PORT is not used, HOST is an address
 *	  tunnel  one CONNECT; reads TIME MB that the server sends by itself
 *	  stream  the same without a proxy
 *	  idle	  COUNT times CONNECT; then "ready", until the input ends
 *	  idles	  the same with TLS and one request each
 *
 * The proxy is at 127.0.0.1. Certificates are not looked at: who does so
 * is the proxy. Prints "requests seconds p50_us"; for tunnel "bytes seconds".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"

enum { CONNS_MAX = 4096, IN_MAX = 64 * 1024, SAMPLES = 1 << 20 };

struct link {
	int fd;
	SSL *tls;
	char in[IN_MAX];
	size_t n;
	double began_us;
};

static const char *host;
static int proxy_port, port, count;
static char request[1024];
static size_t request_n;
static float took_us[SAMPLES];
static size_t n_took;
static SSL_CTX *ctx;

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void dial(struct link *l, const char *address, int to)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)to) };
	const int on = 1;

	inet_pton(AF_INET, address, &a.sin_addr);
	l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l->fd < 0 || connect(l->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("connect %s:%d: %m", address, to);
	setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void put(struct link *l, const char *p, size_t n)
{
	ssize_t w = l->tls ? SSL_write(l->tls, p, (int)n) : write(l->fd, p, n);

	if (w != (ssize_t)n)
		die("a request was not taken");
}

static void get(struct link *l)
{
	ssize_t r = l->tls ? SSL_read(l->tls, l->in + l->n,
				      (int)(IN_MAX - l->n - 1))
			   : read(l->fd, l->in + l->n, IN_MAX - l->n - 1);

	if (r <= 0)
		die("the connection ended after %zu requests: %.*s", n_took,
		    (int)l->n, l->in);
	l->n += (size_t)r;
	l->in[l->n] = '\0';
}

/* A whole answer; it is dropped then. */
static bool answered(struct link *l)
{
	char *end = strstr(l->in, "\r\n\r\n"), *at;
	size_t body = 0;

	if (!end)
		return false;
	at = strcasestr(l->in, "\r\ncontent-length:");
	if (at && at < end)
		body = strtoul(at + 17, NULL, 10);
	if (l->n < (size_t)(end + 4 - l->in) + body)
		return false;
	if (strncmp(l->in, "HTTP/1.1 200", 12) != 0 &&
	    strncmp(l->in, "HTTP/1.0 200", 12) != 0)
		die("the answer is %.*s", (int)l->n, l->in);
	l->n = 0;
	return true;
}

static void connect_through(struct link *l)
{
	char head[512];
	int n = snprintf(head, sizeof(head),
			 "CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n", host,
			 port, host, port);

	dial(l, "127.0.0.1", proxy_port);
	put(l, head, (size_t)n);
	/* Nothing behind the head is the proxy's. */
	while (!strstr(l->in, "\r\n\r\n")) {
		if (l->n > 4096 || read(l->fd, l->in + l->n, 1) != 1)
			die("no answer to CONNECT: %s", l->in);
		l->in[++l->n] = '\0';
	}
	if (strncmp(l->in + 8, " 200", 4) != 0)
		die("CONNECT: %s", l->in);
	l->n = 0;
}

static void shake_hands(struct link *l)
{
	l->tls = SSL_new(ctx);
	SSL_set_fd(l->tls, l->fd);
	SSL_set_tlsext_host_name(l->tls, host);
	if (SSL_connect(l->tls) != 1)
		die("TLS with %s failed", host);
}

static void ask(struct link *l)
{
	l->began_us = now_us();
	put(l, request, request_n);
}

/* `whole`: as a proxy is asked. */
static void compose(bool whole, bool tls)
{
	char name[300];

	snprintf(name, sizeof(name), port == (tls ? 443 : 80) ? "%s" : "%s:%d",
		 host, port);
	request_n = (size_t)snprintf(request, sizeof(request),
				     "GET %s%s/ HTTP/1.1\r\nHost: %s\r\n"
				     "User-Agent: load\r\nAccept: */*\r\n\r\n",
				     whole ? "http://" : "", whole ? name : "",
				     name);
}

static int by_size(const void *a, const void *b)
{
	const float *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* All connections ask, and ask again. */
static void requests(struct link *links, double ms)
{
	struct epoll_event ev[256];
	int ep = epoll_create1(EPOLL_CLOEXEC), i, n;
	double began = now_us(), until = began + ms * 1e3, now = began;
	struct link *l;

	for (i = 0; i < count; i++) {
		ev[0] = (struct epoll_event){ .events = EPOLLIN,
					      .data.ptr = &links[i] };
		epoll_ctl(ep, EPOLL_CTL_ADD, links[i].fd, &ev[0]);
		ask(&links[i]);
	}
	while (now < until) {
		n = epoll_wait(ep, ev, (int)ARRAY_LEN(ev), 1000);
		now = now_us();
		for (i = 0; i < n; i++) {
			l = ev[i].data.ptr;
			get(l);
			if (!answered(l))
				continue;
			if (n_took < SAMPLES)
				took_us[n_took++] = (float)(now - l->began_us);
			ask(l);
		}
	}
	qsort(took_us, n_took, sizeof(*took_us), by_size);
	printf("%zu %.6f %.1f\n", n_took, (now - began) / 1e6,
	       n_took ? (double)took_us[n_took / 2] : 0);
	close(ep);
}

static void drain(struct link *l, double mb)
{
	static char big[1 << 20];
	double began = now_us(), got = 0;
	ssize_t r;

	while (got < mb * 1e6 && (r = read(l->fd, big, sizeof(big))) > 0)
		got += (double)r;
	printf("%.0f %.6f\n", got, (now_us() - began) / 1e6);
}

int main(int argc, char **argv)
{
	static struct link links[CONNS_MAX];
	const char *mode = argc == 7 ? argv[1] : "";
	bool tls = strcmp(mode, "https") == 0 || strcmp(mode, "idles") == 0;
	bool idle = str_starts(mode, "idle"), plain = strcmp(mode, "http") == 0;
	bool direct = strcmp(mode, "direct") == 0;
	bool bytes = strcmp(mode, "tunnel") == 0;
	bool stream = strcmp(mode, "stream") == 0;
	char c;
	int i;

	if (!tls && !idle && !plain && !direct && !bytes && !stream)
		die("usage: load MODE PROXY_PORT HOST PORT COUNT TIME");
	signal(SIGPIPE, SIG_IGN);
	proxy_port = atoi(argv[2]);
	host = argv[3];
	port = atoi(argv[4]);
	count = atoi(argv[5]);
	if (count < 1 || count > CONNS_MAX)
		die("1 to %d connections", CONNS_MAX);
	ctx = SSL_CTX_new(TLS_client_method());
	compose(plain, tls);
	for (i = 0; i < count; i++) {
		if (direct || stream)
			dial(&links[i], host, port);
		else if (plain)
			dial(&links[i], "127.0.0.1", proxy_port);
		else
			connect_through(&links[i]);
		if (tls)
			shake_hands(&links[i]);
		if (strcmp(mode, "idles") == 0) {
			ask(&links[i]);
			do
				get(&links[i]);
			while (!answered(&links[i]));
		}
	}
	if (idle) {
		printf("ready\n");
		fflush(stdout);
		return read(STDIN_FILENO, &c, 1) < 0;
	}
	if (bytes || stream)
		drain(&links[0], atof(argv[6]));
	else
		requests(links, atof(argv[6]));
	return 0;
}
