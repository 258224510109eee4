/*
 * resolve -> check -> connect -> (proxy) -> (TLS) -> done.
 *
 * Addresses are tried in turn, IPv4 and IPv6 by turns. Each has a head start
 * before the next is tried beside it; the first that answers is taken and the
 * others are dropped. A name that has one address that is refused is refused
 * as a whole: it is either a mistake or an attempt (DNS rebinding).
 */
#include "gate/dial.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/guards.h"
#include "gate/decide.h"
#include "gate/proxy.h"
#include "gate/refuse.h"
#include "gate/resolve.h"

enum {
	DIAL_MS = 10000, /* for all of it */
	START_MS = 2000, /* before the next address is tried, too */
};

struct attempt {
	struct dial_work *work;
	struct in6_addr to;
	struct io io;
};

struct dial_work {
	struct dial *dial;
	struct loop *loop;
	dial_fn *done;
	struct resolve resolve;
	struct attempt attempts[RESOLVE_FOUND];
	unsigned n_attempts, begun, failed;
	struct timer limit, start;
	struct deferred later;
	struct upstream_proxy proxy; /* host "": none */
	struct buf io;               /* to the proxy, and from it */
	struct http_scan scan;
	struct err err;
};

static void try_next(struct dial_work *w);

/* --- the end --- */

static void close_attempts(struct dial_work *w)
{
	unsigned i;

	for (i = 0; i < w->begun; i++)
		io_close(w->loop, &w->attempts[i].io);
}

static void work_free(struct dial_work *w)
{
	resolve_cancel(&w->resolve);
	timer_del(w->loop, &w->limit);
	timer_del(w->loop, &w->start);
	close_attempts(w);
	if (w->later.node.next)
		list_del(&w->later.node);
	explicit_bzero(&w->proxy, sizeof(w->proxy));
	if (w->io.p)
		explicit_bzero(w->io.p, w->io.cap);
	buf_done(&w->io);
	free(w);
}

static void finish(struct dial_work *w)
{
	struct dial *d = w->dial;
	dial_fn *done = w->done;
	struct err e = w->err;

	if (e.code)
		http_stream_close(&d->stream);
	else
		http_stream_unwatch(&d->stream);
	d->work = NULL;
	work_free(w);
	done(d, &e);
}

static void on_later(struct deferred *x)
{
	struct dial_work *w = container_of(x, struct dial_work, later);

	list_init(&x->node);
	finish(w);
}

static void on_limit(struct timer *t)
{
	struct dial_work *w = container_of(t, struct dial_work, limit);

	err_clear(&w->err);
	err_set(&w->err, ETIMEDOUT, "%s port %u did not answer in %d s",
		w->dial->host, w->dial->port, DIAL_MS / 1000);
	finish(w);
}

void dial_cancel(struct dial *d)
{
	if (d->work) {
		work_free(d->work);
		http_stream_close(&d->stream);
	}
	d->work = NULL;
}

/* --- TLS --- */

static void on_handshake(struct http_stream *s, uint32_t events)
{
	struct dial *d = container_of(s, struct dial, stream);
	struct dial_work *w = d->work;
	const char *why;
	int r = http_stream_handshake(s);

	(void)events;
	if (r == -EAGAIN)
		return;
	if (r < 0) {
		why = http_stream_failure(s);
		err_set(&w->err, EPROTO, "no TLS with %s port %u: %s%s",
			d->host, d->port, why ? why : strerror(-r),
			why && strstr(why, "no application protocol")
				? " (HTTP/2 alone?): " HTTP2_REMEDY
				: "");
	}
	finish(w);
}

static void connected(struct dial_work *w)
{
	struct dial *d = w->dial;
	int fd;

	if (!d->tls) {
		finish(w);
		return;
	}
	http_stream_unwatch(&d->stream);
	fd = d->stream.io.fd;
	http_stream_init(&d->stream);
	http_stream_open_client(&d->stream, w->loop, fd,
				d->box->gate->upstream_tls, d->host);
	if (http_stream_watch(&d->stream, EPOLLIN, on_handshake) < 0) {
		err_set(&w->err, ENOMEM, "watch the connection to %s", d->host);
		finish(w);
		return;
	}
	on_handshake(&d->stream, 0);
}

/* --- the proxy --- */

/*
 * Takes the proxy's answer and not a byte more: what follows is the server's.
 * 1 when it is whole, 0 when more must come, or -errno.
 */
static int read_head(struct dial_work *w)
{
	int fd = w->dial->stream.io.fd;
	size_t before = buf_len(&w->io), take;
	const char *why = "";
	ssize_t n;
	int r;

	n = recv(fd, buf_room(&w->io, HTTP_HEAD_MAX - before),
		 HTTP_HEAD_MAX - before, MSG_PEEK);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR
			       ? 0
			       : err_sys(&w->err, "the upstream proxy");
	if (n == 0)
		return err_set(&w->err, EPROTO, "the upstream proxy hung up");
	buf_fill(&w->io, (size_t)n);
	r = http_scan_head(&w->scan, buf_data(&w->io), buf_len(&w->io), &why);
	if (r < 0 || (r == 0 && buf_len(&w->io) >= HTTP_HEAD_MAX))
		return err_set(&w->err, EPROTO,
			       "the upstream proxy's answer is malformed: %s",
			       why);
	take = (r > 0 ? (size_t)r : buf_len(&w->io)) - before;
	if (recv(fd, buf_data(&w->io) + before, take, 0) != (ssize_t)take)
		return err_set(&w->err, EIO, "the upstream proxy");
	if (r == 0)
		return 0;
	return proxy_answer(buf_data(&w->io), (size_t)r, &w->err) < 0
		       ? -w->err.code
		       : 1;
}

static void on_proxy(struct http_stream *s, uint32_t events)
{
	struct dial_work *w = container_of(s, struct dial, stream)->work;
	int r = read_head(w);

	(void)events;
	if (r < 0)
		finish(w);
	else if (r > 0)
		connected(w);
}

/* The request is small, and the socket new: it goes in one piece. */
static void ask_proxy(struct dial_work *w)
{
	struct dial *d = w->dial;
	ssize_t n;

	proxy_ask(&w->proxy, d->host, d->port, &w->io);
	n = http_stream_write(&d->stream, buf_data(&w->io), buf_len(&w->io));
	if (n != (ssize_t)buf_len(&w->io))
		err_set(&w->err, EIO, "ask the upstream proxy");
	explicit_bzero(w->io.p, w->io.cap);
	buf_clear(&w->io);
	if (!w->err.code &&
	    http_stream_watch(&d->stream, EPOLLIN, on_proxy) < 0)
		err_set(&w->err, ENOMEM, "watch the upstream proxy");
	if (w->err.code)
		finish(w);
}

/* --- connecting --- */

static void set_options(int fd)
{
	int on = 1;

	/* Neither is needed for the connection to be right. */
	(void)!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)!setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static uint16_t port_of(const struct dial_work *w)
{
	return w->proxy.host[0] ? w->proxy.port : w->dial->port;
}

static void attempt_won(struct attempt *a)
{
	struct dial_work *w = a->work;
	struct dial *d = w->dial;
	int fd = a->io.fd;

	io_del(w->loop, &a->io);
	a->io.fd = -1;
	close_attempts(w);
	timer_del(w->loop, &w->start);
	address_text(&a->to, d->address);
	http_stream_open(&d->stream, w->loop, fd, NULL);
	if (w->proxy.host[0])
		ask_proxy(w);
	else
		connected(w);
}

/* The last failure is the one that is told. */
static void attempt_lost(struct attempt *a, int code)
{
	struct dial_work *w = a->work;
	char to[ADDRESS_CAP];

	io_close(w->loop, &a->io);
	address_text(&a->to, to);
	w->failed++;
	err_clear(&w->err);
	err_set(&w->err, code, "connect to %s%s (%s) port %u: %s",
		w->proxy.host[0] ? "the upstream proxy " : "",
		w->proxy.host[0] ? w->proxy.host : w->dial->host, to,
		port_of(w), strerror(code));
	if (w->failed == w->n_attempts)
		finish(w);
	else if (w->begun < w->n_attempts)
		try_next(w);
}

static void on_attempt(struct io *io, uint32_t events)
{
	struct attempt *a = container_of(io, struct attempt, io);
	socklen_t n = sizeof(int);
	int code = 0;

	(void)events;
	if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &code, &n) < 0)
		code = errno;
	if (code == 0) {
		err_clear(&a->work->err);
		attempt_won(a);
	} else {
		attempt_lost(a, code);
	}
}

static int begin(struct attempt *a)
{
	struct dial_work *w = a->work;
	struct sockaddr_storage to;
	socklen_t n = address_socket(&a->to, port_of(w), &to);
	AUTO_CLOSE int fd = -1;

	fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
		    0);
	if (fd < 0)
		return -errno;
	set_options(fd);
	if (connect(fd, (struct sockaddr *)&to, n) < 0 && errno != EINPROGRESS)
		return -errno;
	return io_add(w->loop, &a->io, take_fd(&fd), EPOLLOUT, on_attempt);
}

static void on_start(struct timer *t)
{
	try_next(container_of(t, struct dial_work, start));
}

static void try_next(struct dial_work *w)
{
	struct attempt *a = &w->attempts[w->begun++];
	int r;

	if (w->begun < w->n_attempts)
		timer_set(w->loop, &w->start, START_MS, on_start);
	else
		timer_del(w->loop, &w->start);
	r = begin(a);
	if (r < 0)
		attempt_lost(a, -r);
}

/* --- addresses --- */

static int refuse_denied(struct dial_work *w, const struct in6_addr *a,
			 struct buf *rule)
{
	char text[ADDRESS_CAP];

	address_text(a, text);
	return err_set(&w->err, EACCES, "%s is %s, which is denied: %.120s",
		       w->dial->host, text, buf_str(rule));
}

static int check(struct dial_work *w, const struct in6_addr *a)
{
	struct dial *d = w->dial;
	const char *why = address_forbidden(a);
	AUTO(buf_done) struct buf rule = { 0 };
	char text[ADDRESS_CAP];

	if (box_denies_address(d->box, d->request, a, &rule))
		return refuse_denied(w, a, &rule);
	d->named |= why != NULL;
	if (!why || box_names_address(d->box, d->request, d->asked, d->host, a,
				      d->port))
		return 0;
	address_text(a, text);
	if (strcmp(text, d->host) == 0)
		return err_set(&w->err, EACCES,
			       "%s is %s: the policy has to say \"private %s\"",
			       d->host, why, text);
	return err_set(&w->err, EACCES,
		       "%s is %s, %s: the policy has to say \"private %s\"",
		       d->host, text, why, text);
}

bool dial_stays(const struct dial *d)
{
	struct in6_addr a;

	/* Where a proxy leads to is its own affair. */
	if (d->box->gate->conf->upstream_proxy[0])
		return true;
	if (address_read(&a, d->address) < 0 ||
	    box_denies_address(d->box, d->request, &a, NULL))
		return false;
	return !d->named || box_names_address(d->box, d->request, d->asked,
					      d->host, &a, d->port);
}

/* In turns, so that a family that does not work costs one head start. */
static void arrange(struct dial_work *w, const struct in6_addr *found,
		    unsigned n)
{
	bool used[RESOLVE_FOUND] = { 0 }, v4 = true;
	unsigned i, pass;

	while (w->n_attempts < n) {
		for (pass = 0; pass < 2; pass++, v4 = !v4) {
			for (i = 0; i < n; i++)
				if (!used[i] &&
				    IN6_IS_ADDR_V4MAPPED(&found[i]) == v4)
					break;
			if (i == n)
				continue;
			used[i] = true;
			w->attempts[w->n_attempts++] = (struct attempt){
				.work = w, .to = found[i], .io.fd = -1
			};
		}
	}
}

/* -errno with w->err, or attempts begin. */
static int take_addresses(struct dial_work *w, const struct in6_addr *found,
			  unsigned n)
{
	unsigned i;

	/* The proxy is the operator's own, wherever it is. */
	for (i = 0; i < n && !w->proxy.host[0]; i++)
		if ((GUARD(EACHADDRESS) || i == 0) && check(w, &found[i]) < 0)
			return -w->err.code;
	arrange(w, found, n);
	return 0;
}

static void on_resolved(struct resolve *q, const struct err *e)
{
	struct dial_work *w = container_of(q, struct dial_work, resolve);

	w->err = *e;
	if (e->code || take_addresses(w, q->found, q->n_found) < 0)
		finish(w);
	else
		try_next(w);
}

/* 1: addresses are there; 0: they are looked up; or -errno. */
static int find(struct dial_work *w)
{
	const char *host = w->proxy.host[0] ? w->proxy.host : w->dial->host;
	struct gate *g = w->dial->box->gate;
	struct in6_addr a;
	int r;

	/* An address is checked here even when the proxy connects to it. */
	if (address_read(&a, w->dial->host) == 0 && check(w, &a) < 0)
		return -w->err.code;
	if (address_read(&a, host) == 0)
		return take_addresses(w, &a, 1) < 0 ? -w->err.code : 1;
	r = resolve_start(&w->resolve, g->resolver, w->dial->box->id, host,
			  on_resolved, &w->err);
	if (r <= 0)
		return r;
	return take_addresses(w, w->resolve.found, w->resolve.n_found) < 0
		       ? -w->err.code
		       : 1;
}

/* The first attempt, from the loop: it may fail at once. */
static void on_first(struct deferred *x)
{
	struct dial_work *w = container_of(x, struct dial_work, later);

	list_init(&x->node);
	try_next(w);
}

void dial_start(struct dial *d, dial_fn *done)
{
	struct gate *g = d->box->gate;
	struct dial_work *w = xcalloc(1, sizeof(*w));
	int r = 0;

	*w = (struct dial_work){ .dial = d, .loop = &g->loop, .done = done };
	d->work = w;
	d->address[0] = '\0';
	http_stream_init(&d->stream);
	timer_set(w->loop, &w->limit, DIAL_MS, on_limit);
	if (d->tls && !g->upstream_tls)
		r = err_set(&w->err, EPROTO, "the door has no authorities");
	if (r == 0 && g->conf->upstream_proxy[0])
		r = proxy_read(&w->proxy, g->conf->upstream_proxy, &w->err);
	if (r == 0)
		r = find(w);
	if (r < 0)
		loop_defer(w->loop, &w->later, on_later);
	else if (r > 0)
		loop_defer(w->loop, &w->later, on_first);
}

int dial_check(const struct conf *c, struct err *e)
{
	struct upstream_proxy proxy;
	struct resolve_conf resolver;

	if (resolve_conf_read(&resolver, c->resolver, NULL, NULL, e) < 0)
		return -e->code;
	resolve_conf_done(&resolver);
	if (!c->upstream_proxy[0])
		return 0;
	if (proxy_read(&proxy, c->upstream_proxy, e) < 0)
		return -e->code;
	explicit_bzero(&proxy, sizeof(proxy));
	return 0;
}
