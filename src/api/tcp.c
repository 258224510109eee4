#include "api/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "api/api.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/guards.h"
#include "http/tls.h"

enum {
	BACKLOG = 1024,
	HEAD_MAX_MS = 10 * 1000,
	TIMEOUT_MAX_MS = 3600 * 1000,
	CONNS_MAX = 16384,      /* over TCP */
	LOCAL_CONNS_MAX = 4096, /* over the unix socket */
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* "127.0.0.1:7070", "[::1]:7070". Numbers only: no resolver at the start. */
static int parse_address(const char *text, union address *a, socklen_t *len)
{
	char host[INET6_ADDRSTRLEN + 2];
	const char *colon = strrchr(text, ':');
	uint64_t port = 0;
	size_t n = colon ? (size_t)(colon - text) : 0;

	if (!colon || n >= sizeof(host) ||
	    parse_u64(colon + 1, 65535, &port) < 0 || port == 0)
		return -EINVAL;
	memcpy(host, text, n);
	host[n] = '\0';
	*a = (union address){ 0 };
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		a->v6.sin6_family = AF_INET6;
		a->v6.sin6_port = htons((uint16_t)port);
		*len = sizeof(a->v6);
		return inet_pton(AF_INET6, host + 1, &a->v6.sin6_addr) == 1
			       ? 0
			       : -EINVAL;
	}
	a->v4.sin_family = AF_INET;
	a->v4.sin_port = htons((uint16_t)port);
	*len = sizeof(a->v4);
	return inet_pton(AF_INET, host, &a->v4.sin_addr) == 1 ? 0 : -EINVAL;
}

static bool is_loopback(const union address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

/* Connections take these over from the socket that accepts them. */
static const struct {
	int level, name, value;
} options[] = {
	{ SOL_SOCKET, SO_REUSEADDR, 1 },
	{ IPPROTO_TCP, TCP_NODELAY, 1 },
	/* A client that vanished without a word is noticed in two minutes. */
	{ SOL_SOCKET, SO_KEEPALIVE, 1 },
	{ IPPROTO_TCP, TCP_KEEPIDLE, 60 },
	{ IPPROTO_TCP, TCP_KEEPINTVL, 15 },
	{ IPPROTO_TCP, TCP_KEEPCNT, 4 },
};

static int listen_on(const union address *addr, socklen_t len, const char *text,
		     struct err *e)
{
	AUTO_CLOSE int fd = -1;
	size_t i;

	fd = socket(addr->any.sa_family,
		    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, "make a socket for %s", text);
	for (i = 0; i < ARRAY_LEN(options); i++)
		if (setsockopt(fd, options[i].level, options[i].name,
			       &options[i].value, sizeof(int)) < 0)
			return err_sys(e, "set up the socket of %s", text);
	if (bind(fd, &addr->any, len) < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(e, "listen on %s", text);
	return take_fd(&fd);
}

/* As a browser writes it behind a dot: labels, no dot at either end. */
static bool domain_ok(const char *s)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
	size_t n = strlen(s);

	return strspn(s, chars) == n && s[0] != '.' && s[n - 1] != '.' &&
	       !strstr(s, "..");
}

static int check_conf(const struct conf *c, const union address *addr,
		      struct err *e)
{
	if (!*c->tls_cert != !*c->tls_key)
		return err_set(e, EINVAL, "tls_cert and tls_key come together");
	if (*c->domain && !domain_ok(c->domain))
		return err_set(e, EINVAL, "domain = %s is not a host name",
			       c->domain);
	if (GUARD(PLAIN) && !is_loopback(addr) && !*c->tls_cert &&
	    !c->listen_insecure)
		return err_set(e, EINVAL,
			       "listen = %s is open to other hosts without "
			       "TLS: set tls_cert and tls_key, or, behind a "
			       "proxy that has them, listen_insecure = yes",
			       c->listen);
	return 0;
}

int tcp_set_up(struct api *a, struct err *e)
{
	const struct conf *c = &a->conf;
	union address addr;
	socklen_t len;

	if (!*c->listen)
		return 0;
	if (parse_address(c->listen, &addr, &len) < 0)
		return err_set(e, EINVAL,
			       "listen = %s is not an address and a port, as "
			       "127.0.0.1:7070 or [::1]:7070",
			       c->listen);
	if (check_conf(c, &addr, e) < 0)
		return -e->code;
	if (*c->tls_cert &&
	    tls_context_new(&a->tcp.tls, c->tls_cert, c->tls_key, e) < 0)
		return -e->code;
	a->tcp.listen_fd = listen_on(&addr, len, c->listen, e);
	return a->tcp.listen_fd < 0 ? -e->code : 0;
}

/*
 * Descriptors are shared: 5/8 for TCP, 1/8 for the unix socket, and the rest
 * for links to sandboxes and for what clients have under way.
 */
static unsigned part_of_files(unsigned eighths, unsigned max)
{
	struct rlimit files;
	uint64_t n;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return 0; /* the default of the HTTP server */
	n = files.rlim_cur / 8 * eighths;
	return n < max ? (unsigned)n : max;
}

unsigned local_conns_max(void)
{
	return part_of_files(1, LOCAL_CONNS_MAX);
}

void tcp_serve(struct api *a)
{
	struct http_server *s = &a->tcp.http;
	uint64_t wait = a->conf.client_timeout_ms;
	unsigned ms = wait < TIMEOUT_MAX_MS ? (unsigned)wait : TIMEOUT_MAX_MS;
	struct err e = { 0 };

	if (a->tcp.listen_fd < 0)
		return;
	s->on_request = route;
	s->on_answer = audit_answer;
	s->ctx = a;
	s->tls = a->tcp.tls;
	s->max_conns = part_of_files(5, CONNS_MAX);
	s->max_per_peer = (unsigned)a->conf.max_peer_connections;
	s->head_ms = ms < HEAD_MAX_MS ? ms : HEAD_MAX_MS;
	s->body_ms = s->rate_ms = s->write_ms = ms;
	if (http_server_start(s, &a->loop, take_fd(&a->tcp.listen_fd), &e) < 0)
		die("serve: %s", e.msg);
	log_info("listening on %s%s", a->conf.listen, s->tls ? " (TLS)" : "");
}
