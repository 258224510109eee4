/*
 * The life of a connection, and its first bytes. They are looked at without
 * being taken (MSG_PEEK): a tunnel, or TLS, finds all of them in the socket.
 * Who sends them one by one wakes us for each, but is only read again from
 * where it was left off, because the kernel waits for more (SO_RCVLOWAT).
 */
#include "gate/flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/guards.h"
#include "gate/hello.h"
#include "gate/names.h"

enum {
	ACCEPT_BATCH = 32,
	OBSERVED_RAW_MS = 1500, /* nobody speaks: the server goes first */
};

static const char connect_word[] = "CONNECT ";

/* --- life --- */

static void free_flow(struct deferred *d)
{
	struct flow *f = container_of(d, struct flow, gone);

	exchange_free(f->x);
	exchange_free(f->old);
	scan_done(&f->look);
	scan_done(&f->frame_look);
	free(f->refusal);
	free(f);
}

static void listen_again(struct box *b)
{
	struct gate *g = b->gate;

	b->full = false;
	io_set(&g->loop, &b->proxy, EPOLLIN);
	io_set(&g->loop, &b->tcp, EPOLLIN);
	io_set(&g->loop, &b->self, EPOLLIN);
}

/* There is room for one more: who waits is heard again. */
static void made_room(struct box *b)
{
	struct gate *g = b->gate;
	struct list *pos, *tmp;
	unsigned i;

	if (b->full)
		listen_again(b);
	if (!g->full)
		return;
	g->full = false;
	for (i = 0; i < GATE_BUCKETS; i++)
		list_each (pos, tmp, &g->boxes[i]) {
			struct box *other = container_of(pos, struct box, node);

			if (other->full)
				listen_again(other);
		}
}

void flow_end(struct flow *f)
{
	struct loop *l = &f->box->gate->loop;

	if (f->ended)
		return;
	f->ended = true;
	if (f->tunnelled)
		connect_count(f);
	pass_end(f, 0, "the connection ended");
	if (f->x)
		exchange_release(f);
	if (f->tunnelled)
		tunnel_end(&f->tunnel);
	http_stream_close(&f->inside);
	http_stream_close(&f->outside);
	timer_del(l, &f->timer);
	list_del(&f->node);
	f->box->n_flows--;
	f->box->gate->n_flows--;
	made_room(f->box);
	loop_defer(l, &f->gone, free_flow);
}

static void on_time(struct timer *t)
{
	struct flow *f = container_of(t, struct flow, timer);
	uint64_t now = clock_boot_ms();

	if (f->deadline_ms == 0)
		return;
	if (now < f->deadline_ms)
		timer_set(&f->box->gate->loop, t, f->deadline_ms - now,
			  on_time);
	else if (f->x)
		exchange_late(f);
	else if (f->peeked == 0 && (!f->proxy || f->promised))
		connect_raw(f); /* the server speaks first; if it may */
	else
		flow_end(f);
}

/* Set for each message, so the timer itself is only moved when it must. */
void flow_deadline(struct flow *f, uint64_t ms)
{
	uint64_t at = ms && GUARD(DEADLINES) ? clock_boot_ms() + ms : 0;

	f->deadline_ms = at;
	if (at && (!f->timer.slot || f->timer.at_ms > at))
		timer_set(&f->box->gate->loop, &f->timer, ms, on_time);
}

static void review(struct flow *f)
{
	struct refusal r;

	/* Where the next request would go is looked up and checked again. */
	if (f->pass.state < PASS_OPEN)
		http_stream_close(&f->outside);
	if (pass_review(f, &r))
		return;
	if (f->x)
		exchange_revoked(f, &r);
	else if (f->pass.state == PASS_OPEN || f->promised)
		flow_end(f);
	else {
		pass_denied(f, f->pass.kind, &f->pass.request, &f->pass.ruling,
			    &r);
		pass_end(f, 0, r.text);
		f->pass.no(f, &r);
	}
}

void flows_review(struct box *b)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &b->flows)
		review(container_of(pos, struct flow, node));
}

void flows_end(struct box *b)
{
	while (!list_empty(&b->flows))
		flow_end(container_of(b->flows.next, struct flow, node));
}

/* --- first bytes --- */

static void on_first(struct http_stream *s, uint32_t events);

static void wait_first(struct flow *f, size_t have)
{
	int more = (int)have + 1;

	if (f->peeked == 0)
		flow_deadline(f, FLOW_HEAD_MS);
	f->peeked = have;
	if (setsockopt(f->inside.io.fd, SOL_SOCKET, SO_RCVLOWAT, &more,
		       sizeof(more)) < 0 ||
	    http_stream_watch(&f->inside, EPOLLIN, on_first) < 0)
		flow_end(f);
}

int flow_looked(struct flow *f)
{
	int one = 1;

	f->peeked = 0;
	return setsockopt(f->inside.io.fd, SOL_SOCKET, SO_RCVLOWAT, &one,
			  sizeof(one));
}

int flow_take(struct flow *f, void *p, size_t n)
{
	if (recv(f->inside.io.fd, p, n, 0) != (ssize_t)n)
		return -EIO;
	return flow_looked(f);
}

/* The head of a CONNECT, and not a byte behind it. */
static void first_connect(struct flow *f, const char *p, size_t n)
{
	struct http_scan scan = { 0 };
	struct http_head h = { 0 };
	struct refusal r;
	const char *why;
	static char head[HTTP_HEAD_MAX];
	int len = http_scan_head(&scan, p, n, &why);

	if (len == 0) {
		wait_first(f, n);
		return;
	}
	if (len > 0 && flow_take(f, head, (size_t)len) < 0) {
		flow_end(f);
		return;
	}
	if (len > 0)
		len = http_parse_proxy_request(&h, head, (size_t)len, &why);
	if (len < 0) {
		refusal_parse(&r, len, why);
		connect_refuse(f, &r);
		return;
	}
	connect_start(f, &h);
	http_head_done(&h);
}

/* A method, or the beginning of one. */
static bool may_be_http(const char *p, size_t n, bool *whole)
{
	size_t i;

	*whole = false;
	for (i = 0; i < n && i <= HTTP_METHOD_MAX; i++) {
		if (p[i] == ' ') {
			*whole = true;
			return i > 0;
		}
		if ((p[i] < 'A' || p[i] > 'Z') && p[i] != '-' && p[i] != '_')
			return false;
	}
	return i <= HTTP_METHOD_MAX;
}

static void first_any(struct flow *f, const char *p, size_t n)
{
	struct hello hello;
	bool whole = false;
	int r = hello_read(&hello, p, n);

	if (r == 1)
		connect_hello(f, &hello);
	else if (r == -EBADMSG)
		connect_bad_hello(f);
	else if (r < 0 && !may_be_http(p, n, &whole))
		connect_raw(f);
	else if (whole)
		exchange_start(f);
	else
		wait_first(f, n);
}

static void first_proxy(struct flow *f, const char *p, size_t n)
{
	size_t len = strlen(connect_word);

	if (memcmp(p, connect_word, n < len ? n : len) != 0)
		exchange_start(f);
	else if (n < len)
		wait_first(f, n);
	else
		first_connect(f, p, n);
}

static void on_first(struct http_stream *s, uint32_t events)
{
	struct flow *f = container_of(s, struct flow, inside);
	static char bytes[HTTP_HEAD_MAX + 1];
	ssize_t n = recv(s->io.fd, bytes, sizeof(bytes), MSG_PEEK);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* No more came: it has ended. */
	if (n <= 0 || (size_t)n <= f->peeked) {
		flow_end(f);
		return;
	}
	if (f->proxy && !f->promised)
		first_proxy(f, bytes, (size_t)n);
	else
		first_any(f, bytes, (size_t)n);
}

void flow_look(struct flow *f)
{
	bool raw = (f->box->flags & GATE_OBSERVE) && (!f->proxy || f->promised);

	f->peeked = 0;
	flow_deadline(f, raw ? OBSERVED_RAW_MS : FLOW_HEAD_MS);
	if (http_stream_watch(&f->inside, EPOLLIN, on_first) < 0)
		flow_end(f);
}

/* --- accept --- */

/* Where a connection wanted to go that did not ask the proxy. */
static int original_place(struct flow *f)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at = { .v6 = { 0 } };
	socklen_t n = sizeof(at);
	struct in6_addr a;
	const char *host;

	if (getsockname(f->inside.io.fd, &at.any, &n) < 0)
		return -errno;
	if (at.any.sa_family == AF_INET) {
		address_map(&a, &at.v4.sin_addr);
		f->place.port = ntohs(at.v4.sin_port);
	} else {
		a = at.v6.sin6_addr;
		f->place.port = ntohs(at.v6.sin6_port);
	}
	host = names_host(f->box, &a);
	if (host)
		return str_copy(f->place.host, sizeof(f->place.host), host);
	/* A name that nobody remembers: SNI or Host will say it. */
	if (!names_is_synthetic(&a))
		address_text(&a, f->place.host);
	return 0;
}

static void start(struct flow *f)
{
	int r;

	if (f->self) {
		exchange_start(f);
		return;
	}
	if (f->proxy) {
		flow_look(f);
		return;
	}
	r = original_place(f);
	if (r < 0)
		flow_end(f);
	else if (connect_is_raw(f))
		connect_raw(f);
	else
		flow_look(f);
}

static void flow_new(struct box *b, int fd, const struct io *by)
{
	struct flow *f = xcalloc(1, sizeof(*f));
	int one = 1;

	/* Only costs time when it fails. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	f->box = b;
	f->proxy = by == &b->proxy;
	f->self = by == &b->self;
	f->scheme = SCHEME_HTTP;
	http_stream_open(&f->inside, &b->gate->loop, fd, NULL);
	http_stream_init(&f->outside);
	list_add(&b->flows, &f->node);
	b->n_flows++;
	b->gate->n_flows++;
	start(f);
}

/* The rest waits in the socket's backlog. */
static void wait_for_room(struct box *b)
{
	struct gate *g = b->gate;

	b->full = true;
	if (b->n_flows < BOX_FLOWS_MAX)
		g->full = true;
	io_set(&g->loop, &b->proxy, 0);
	io_set(&g->loop, &b->tcp, 0);
	io_set(&g->loop, &b->self, 0);
}

void flows_accept(struct box *b, struct io *io)
{
	int i, fd;

	for (i = 0; i < ACCEPT_BATCH; i++) {
		if ((GUARD(FLOWS) && b->n_flows >= BOX_FLOWS_MAX) ||
		    b->gate->n_flows >= FLOWS_MAX) {
			wait_for_room(b);
			return;
		}
		fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			/* No descriptors: the end of any flow gives some. */
			if ((errno == EMFILE || errno == ENFILE ||
			     errno == ENOMEM || errno == ENOBUFS) &&
			    b->gate->n_flows > 0)
				wait_for_room(b);
			return;
		}
		flow_new(b, fd, io);
	}
}
