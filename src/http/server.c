/*
 * Listening, the life of a connection, and its timers.
 *
 * epoll_ctl() is kept off the fast path: a connection is registered once for
 * input. Input that nobody wants now (a pipelined request, a paused body) is
 * switched off only when it shows up, output is watched only after a send
 * that did not fit.
 */
#include "http/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/conn.h"

enum {
	MAX_CONNS = 1024,
	HEAD_MS = 10 * 1000,
	IDLE_MS = 60 * 1000,
	BODY_MS = 30 * 1000,
	RATE_MS = 30 * 1000,
	BODY_MAX_MS = 24 * 3600 * 1000,
	WRITE_MS = 30 * 1000,
	LINGER_MS = 2 * 1000,
	ACCEPT_RETRY_MS = 100
};

static void bury_conn(struct deferred *d)
{
	struct http_conn *c = container_of(d, struct http_conn, bury);

	buf_done(&c->in);
	buf_done(&c->out);
	buf_done(&c->whole);
	http_head_done(&c->head);
	free(c->guest);
	free(c);
}

/* There may be room: for a new one, or because an idle one can go. */
static void accept_again(struct http_server *s)
{
	if (s->retry.slot == 0 && s->io.fd >= 0)
		io_set(s->loop, &s->io, EPOLLIN);
}

void conn_forget(struct http_conn *c)
{
	struct http_server *s = c->server;

	c->state = CONN_CLOSED;
	http_stream_unwatch(&c->stream);
	timer_del(s->loop, &c->read_timer);
	timer_del(s->loop, &c->write_timer);
	if (c->kicked)
		list_del(&c->kick.node);
	list_del(&c->node);
	crowd_leave(c);
	s->n_conns--;
	accept_again(s);
	loop_defer(s->loop, &c->bury, bury_conn);
}

void conn_close(struct http_conn *c)
{
	void *owner = c->owner;
	http_gone_fn *on_gone = c->on_gone;

	conn_answered(c, 0);
	c->owner = NULL;
	c->on_gone = NULL;
	conn_forget(c);
	http_stream_close(&c->stream);
	if (on_gone)
		on_gone(c, owner);
}

static void on_read_timeout(struct timer *t)
{
	struct http_conn *c = container_of(t, struct http_conn, read_timer);

	if (c->state == CONN_LINGER ||
	    (c->state == CONN_HEAD && buf_len(&c->in) == 0))
		conn_close(c);
	else if (c->state == CONN_REQUEST)
		conn_refuse(c, 408, "timeout",
			    "the body came too slowly: send at least 1 KiB a "
			    "second, without long pauses");
	else
		conn_refuse(c, 408, "timeout", "the request came too slowly");
	conn_drive(c);
}

/* The answer has left. Keeps the connection for another request, or ends it. */
static void finish_request(struct http_conn *c)
{
	if (c->close_after && !c->linger) {
		conn_close(c);
		return;
	}
	http_head_done(&c->head);
	buf_done(&c->whole);
	if (buf_len(&c->in) == 0)
		buf_done(&c->in);
	crowd_idle(c);
	accept_again(c->server);
	if (c->close_after) {
		/* A socket closed with unread input would reset the answer. */
		http_stream_shutdown(&c->stream);
		c->state = CONN_LINGER;
		timer_set(c->server->loop, &c->read_timer, LINGER_MS,
			  on_read_timeout);
		return;
	}
	c->state = CONN_HEAD;
	c->scan = (struct http_scan){ 0 };
	c->served = true;
	c->timed = false;
}

/*
 * How long we wait for more of a body: for its next byte, and for all of them
 * together as long as the bytes that came are worth. Only our waiting counts,
 * so that a slow consumer is not the client's fault.
 */
static uint64_t body_patience(struct http_conn *c)
{
	const struct http_server *s = c->server;
	uint64_t now = clock_boot_ms(), waited, worth;

	if (c->body_since == 0)
		c->body_since = now;
	if (c->patient)
		return s->body_ms;
	waited = c->body_wait_ms + now - c->body_since;
	worth = s->rate_ms + c->body_got * 1000 / HTTP_BODY_RATE;
	if (worth > BODY_MAX_MS)
		worth = BODY_MAX_MS;
	if (waited >= worth)
		return 0;
	return worth - waited < s->body_ms ? worth - waited : s->body_ms;
}

/* It is not waited for. */
static void body_stands(struct http_conn *c)
{
	if (c->body_since > 0)
		c->body_wait_ms += clock_boot_ms() - c->body_since;
	c->body_since = 0;
	timer_del(c->server->loop, &c->read_timer);
}

/* Sets the timer that the state needs while nothing comes. */
static void watch_input(struct http_conn *c)
{
	struct http_server *s = c->server;

	if (c->state == CONN_HEAD && !c->timed) {
		bool idle = c->served && buf_len(&c->in) == 0;

		c->timed = !idle;
		timer_set(s->loop, &c->read_timer,
			  idle ? s->idle_ms : s->head_ms, on_read_timeout);
	} else if (c->state == CONN_REQUEST) {
		if (conn_wants_read(c))
			timer_set(s->loop, &c->read_timer, body_patience(c),
				  on_read_timeout);
		else
			body_stands(c);
	}
	if (conn_wants_read(c))
		conn_watch(c, EPOLLIN | EPOLLRDHUP, 0);
}

static bool step(struct http_conn *c)
{
	if (c->state == CONN_CLOSED)
		return false;
	if (c->broken) {
		conn_close(c);
		return false;
	}
	switch (c->state) {
	case CONN_HEAD:
		return conn_head_step(c);
	case CONN_REQUEST:
		if (c->stopped &&
		    buf_len(&c->out) < (c->draining ? 1 : HTTP_OUT_HIGH / 2)) {
			c->stopped = c->draining = false;
			c->on_ready(c, c->owner);
			return true;
		}
		return conn_body_step(c);
	case CONN_FLUSH:
		if (buf_len(&c->out) > 0)
			return false;
		finish_request(c);
		return true;
	case CONN_LINGER:
	case CONN_CLOSED:
		break;
	}
	return false;
}

void conn_drive(struct http_conn *c)
{
	if (c->driving)
		return;
	c->driving = true;
	for (;;) {
		conn_flush(c);
		if (step(c))
			continue;
		/* The step may have queued output, and that another step. */
		if (c->state == CONN_CLOSED || c->blocked ||
		    buf_len(&c->out) == 0)
			break;
	}
	if (c->state != CONN_CLOSED)
		watch_input(c);
	c->driving = false;
}

static void on_kick(struct deferred *d)
{
	struct http_conn *c = container_of(d, struct http_conn, kick);

	c->kicked = false;
	conn_drive(c);
}

void conn_kick(struct http_conn *c)
{
	if (c->driving || c->kicked || c->state == CONN_CLOSED)
		return;
	c->kicked = true;
	loop_defer(c->server->loop, &c->kick, on_kick);
}

static void on_conn_io(struct http_stream *s, uint32_t events)
{
	struct http_conn *c = container_of(s, struct http_conn, stream);
	bool half_closed = events & EPOLLRDHUP;

	/*
	 * HUP: closed in both directions, nobody can read an answer. A half
	 * close does not say that, but with TCP it is all that is ever seen of
	 * a client that left.
	 */
	if ((events & (EPOLLHUP | EPOLLERR)) ||
	    (half_closed && !c->server->is_unix && c->state == CONN_REQUEST &&
	     c->body == BODY_DONE)) {
		conn_close(c);
		return;
	}
	if (events & EPOLLOUT)
		c->blocked = false; /* conn_drive() sends */
	if ((events & EPOLLIN) && conn_wants_read(c))
		conn_read(c);
	else if (events & (EPOLLIN | EPOLLRDHUP))
		conn_watch(c, 0, events & (EPOLLIN | EPOLLRDHUP));
	conn_drive(c);
}

void conn_watch(struct http_conn *c, uint32_t more, uint32_t less)
{
	http_stream_watch(&c->stream, (c->stream.want | more) & ~less,
			  on_conn_io);
}

static void on_accept_retry(struct timer *t)
{
	struct http_server *s = container_of(t, struct http_server, retry);

	io_set(s->loop, &s->io, EPOLLIN);
}

union peer {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage room;
};

static struct in6_addr peer_address(const union peer *p)
{
	struct in6_addr a = { .s6_addr = { [10] = 0xff, [11] = 0xff } };

	if (p->any.sa_family == AF_INET6)
		return p->v6.sin6_addr;
	memcpy(&a.s6_addr[12], &p->v4.sin_addr, sizeof(p->v4.sin_addr));
	return a;
}

static struct http_conn *new_conn(struct http_server *s)
{
	struct http_conn *c = xcalloc(1, sizeof(*c));

	c->server = s;
	list_init(&c->kick.node);
	list_init(&c->bury.node);
	list_init(&c->idle);
	list_init(&c->origin_idle);
	list_add(&s->conns, &c->node);
	s->n_conns++;
	return c;
}

static void start_conn(struct http_conn *c, int fd)
{
	struct http_server *s = c->server;

	http_stream_open(&c->stream, s->loop, fd, s->tls);
	if (http_stream_watch(&c->stream, EPOLLIN | EPOLLRDHUP, on_conn_io) <
	    0) {
		conn_close(c);
		return;
	}
	/* Most clients write right after connect(): save a turn. */
	conn_read(c);
	conn_drive(c);
}

void http_server_adopt(struct http_server *s, int fd, const void *guest,
		       size_t n, const char *request_id)
{
	struct http_conn *c = new_conn(s);

	c->guest = xcalloc(1, n);
	memcpy(c->guest, guest, n);
	snprintf(c->id, sizeof(c->id), "%s", request_id);
	start_conn(c, fd);
}

/* A descriptor of an idle connection serves a new one better than none. */
static void accept_failed(struct http_server *s, int why)
{
	if (why != EMFILE && why != ENFILE && why != ENOBUFS && why != ENOMEM)
		return;
	if (crowd_make_room(s))
		return;
	io_set(s->loop, &s->io, 0);
	timer_set(s->loop, &s->retry, ACCEPT_RETRY_MS, on_accept_retry);
}

/* One per event: a crowd at the door does not starve those inside. */
static void on_accept(struct io *io, uint32_t events)
{
	struct http_server *s = container_of(io, struct http_server, io);
	union peer from = { 0 };
	socklen_t n = sizeof(from);
	struct in6_addr peer;
	struct http_conn *c;
	int fd;

	(void)events;
	if (s->n_conns >= s->max_conns && !crowd_make_room(s)) {
		io_set(s->loop, io, 0);
		return;
	}
	fd = accept4(io->fd, &from.any, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		accept_failed(s, errno);
		return;
	}
	peer = peer_address(&from);
	if (!crowd_admits(s, &peer)) {
		close(fd);
		return;
	}
	c = new_conn(s);
	if (!s->is_unix)
		crowd_join(c, &peer);
	crowd_idle(c);
	start_conn(c, fd);
}

static void set_default(unsigned *v, unsigned to)
{
	if (*v == 0)
		*v = to;
}

int http_server_start(struct http_server *s, struct loop *l, int listen_fd,
		      struct err *e)
{
	int domain = 0;
	socklen_t n = sizeof(domain);
	int r;

	set_default(&s->max_conns, MAX_CONNS);
	set_default(&s->head_ms, HEAD_MS);
	set_default(&s->idle_ms, IDLE_MS);
	set_default(&s->body_ms, BODY_MS);
	set_default(&s->rate_ms, RATE_MS);
	set_default(&s->write_ms, WRITE_MS);
	s->loop = l;
	s->date_s = -1;
	server_date(s); /* libc reads the time zone now, not in a request */
	list_init(&s->conns);
	crowd_init(s);
	s->io.fd = listen_fd;
	s->is_unix = true;
	if (listen_fd < 0)
		return 0;
	getsockopt(listen_fd, SOL_SOCKET, SO_DOMAIN, &domain, &n);
	s->is_unix = domain == AF_UNIX;
	r = io_add(l, &s->io, listen_fd, EPOLLIN, on_accept);
	if (r < 0) {
		io_close(l, &s->io);
		return err_set(e, -r, "watch the HTTP socket: %s",
			       strerror(-r));
	}
	return 0;
}

void http_server_done(struct http_server *s)
{
	struct list *pos, *tmp;

	if (!s->loop)
		return;
	if (s->io.fd >= 0)
		io_close(s->loop, &s->io);
	timer_del(s->loop, &s->retry);
	list_each (pos, tmp, &s->conns)
		conn_close(container_of(pos, struct http_conn, node));
}

/* Random bytes are fetched for many ids at once. */
void conn_make_id(struct http_conn *c)
{
	static const char hex[] = "0123456789abcdef";
	struct http_server *s = c->server;
	size_t i;

	if (c->guest)
		return; /* has that of the request it is made for */
	if (s->random_left < HTTP_REQUEST_ID / 2) {
		if (getrandom(s->random, sizeof(s->random), 0) !=
		    sizeof(s->random))
			abort();
		s->random_left = sizeof(s->random);
	}
	for (i = 0; i < HTTP_REQUEST_ID / 2; i++) {
		unsigned char v = s->random[--s->random_left];

		c->id[2 * i] = hex[v >> 4];
		c->id[2 * i + 1] = hex[v & 15];
	}
	c->id[2 * i] = '\0';
}

/* Not strftime(): names of days must not depend on a locale. */
const char *server_date(struct http_server *s)
{
	static const char days[][4] = { "Sun", "Mon", "Tue", "Wed",
					"Thu", "Fri", "Sat" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr",
					  "May", "Jun", "Jul", "Aug",
					  "Sep", "Oct", "Nov", "Dec" };
	time_t now = (time_t)(clock_wall_ms() / 1000);
	struct tm tm;

	if (now == s->date_s || !gmtime_r(&now, &tm))
		return s->date;
	s->date_s = now;
	snprintf(s->date, sizeof(s->date),
		 "%s, %02u %s %04u %02u:%02u:%02u GMT", days[tm.tm_wday % 7],
		 (unsigned)tm.tm_mday % 100, months[tm.tm_mon % 12],
		 (unsigned)(tm.tm_year + 1900) % 10000,
		 (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
		 (unsigned)tm.tm_sec % 100);
	return s->date;
}
