/*
 * The writers' connections: what they say about their spools, and the reading
 * of those, of each in its turn.
 *
 * The spool is read from its start after each hello; records whose number the
 * log has already are passed over. A body that is not an entry is not written
 * but noted (log.refused), numbers that are missing too (log.gap); a record
 * that is not one ends the connection, and its writer looks at its file again.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/spool.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "scribe/role.h"
#include "scribe/scribe.h"
#include "wire/scribe.h"

enum {
	END_MAX = 1 << 30,       /* longer than any spool is */
	GAP_MAX = 1 << 30,       /* records that can be missing */
	READ_BYTES = 128 * 1024, /* of the spool at a time */
};

struct conn {
	struct list node;
	struct scribe *s;
	struct door *door;
	uid_t uid;
	struct io io;
	const struct role *role; /* NULL before its hello */
	struct writer *writer;
	int spool_fd;
	uint64_t start, at, end; /* of the spool: read up to, whole up to */
	bool sync;               /* somebody waits for the disk */
	bool ack_due;
	uint64_t written, synced, seq; /* as it was told */
	struct deferred gone;
};

static void conn_free(struct deferred *d)
{
	free(container_of(d, struct conn, gone));
}

static void conn_close(struct conn *c)
{
	if (c->io.fd < 0)
		return;
	io_close(&c->s->loop, &c->io);
	auto_close(&c->spool_fd);
	list_del(&c->node);
	c->door->n--;
	if (c->writer && c->writer != writers_api(&c->s->chain.writers))
		c->writer->busy = false;
	loop_defer(&c->s->loop, &c->gone, conn_free);
}

static void send_ack(struct conn *c)
{
	const struct chain *ch = &c->s->chain;
	struct scribe_msg m = {
		.version = SCRIBE_VERSION,
		.op = SCRIBE_ACK,
		.written = c->writer->written,
		.synced = c->writer->synced,
		.seq = ch->written.seq,
		.segment = ch->segment,
	};
	ssize_t n = send_msg_fds(c->io.fd, &m, sizeof(m), NULL, 0);

	/* A full socket: the newest numbers go when there is room. */
	c->ack_due = n == -EAGAIN;
	c->written = m.written;
	c->synced = m.synced;
	c->seq = m.seq;
	io_set(&c->s->loop, &c->io,
	       EPOLLIN | (c->ack_due ? (uint32_t)EPOLLOUT : 0));
}

/* Only the api, for who follows the log, hears of others' entries. */
static bool has_news(const struct conn *c)
{
	const struct chain *ch = &c->s->chain;

	return c->writer->written != c->written ||
	       c->writer->synced != c->synced ||
	       (c->writer == &ch->writers.v[0] && ch->written.seq != c->seq);
}

static void ack_all(struct scribe *s)
{
	struct list *n, *next;

	list_each (n, next, &s->conns) {
		struct conn *c = container_of(n, struct conn, node);

		if (c->role && has_news(c))
			send_ack(c);
	}
}

/* --- to the disk --- */

static void do_sync(struct scribe *s)
{
	struct err e = { 0 };

	timer_del(&s->loop, &s->sync);
	/* The next one takes up what is really there. */
	if (chain_sync(&s->chain, &e) < 0)
		die("%s", e.msg);
	ack_all(s);
}

static void on_sync(struct timer *t)
{
	do_sync(container_of(t, struct scribe, sync));
}

static void on_sign(struct timer *t);

/* Everything that was added; false: not now, the spool keeps it. */
static bool do_write(struct scribe *s)
{
	struct chain_pos before = s->chain.written;
	struct err e = { 0 };

	if (chain_write(&s->chain, &e) < 0) {
		log_err("%s, trying again", e.msg);
		return false;
	}
	if (s->chain.written.seq == before.seq)
		return true;
	if (s->sync.slot == 0)
		timer_set(&s->loop, &s->sync, SYNC_MS, on_sync);
	if (s->chain.loose > 0 && s->sign.slot == 0)
		timer_set(&s->loop, &s->sign, SIGN_MS, on_sign);
	return true;
}

static void on_sign(struct timer *t)
{
	struct scribe *s = container_of(t, struct scribe, sign);

	chain_sign(&s->chain);
	if (!do_write(s))
		timer_set(&s->loop, t, RETRY_MS, on_sign);
}

static void do_keep(struct scribe *s)
{
	struct err e = { 0 };

	if (keep_apply(&s->keep, &s->chain, &e) < 0)
		log_err("remove old files of the log: %s", e.msg);
	if (s->chain.broken)
		die("%s", e.msg);
}

static void on_prune(struct timer *t)
{
	struct scribe *s = container_of(t, struct scribe, prune);

	do_keep(s);
	timer_set(&s->loop, t, KEEP_MS, on_prune);
}

static void end_segment(struct scribe *s)
{
	chain_sign(&s->chain);
	if (!do_write(s))
		return;
	do_sync(s);
	do_keep(s);
}

/* --- from the spool --- */

static void note(struct conn *c, const char *type, const char *data)
{
	char all[320];

	if (c->writer == writers_api(&c->s->chain.writers))
		snprintf(all, sizeof(all), "%s", data);
	else
		snprintf(all, sizeof(all), "%s,\"source\":\"%s\"", data,
			 c->writer->name);
	log_err("records of the spool of %s: %s %s", c->writer->name, type,
		data);
	chain_say(&c->s->chain, type, all);
}

static void take_record(struct conn *c, const struct spool_record *r)
{
	struct writer *w = c->writer;
	struct entry entry;
	const char *why;
	char data[160];

	if (r->number > w->now + 1) {
		snprintf(data, sizeof(data), "\"from\":%llu,\"to\":%llu",
			 (unsigned long long)w->now + 1,
			 (unsigned long long)r->number - 1);
		note(c, "log.gap", data);
	}
	if (entry_read_body(r->body, r->n, &entry, &why) == 0) {
		if (role_may_send(c->role, entry.type)) {
			chain_add(&c->s->chain, w, r->body, r->n, r->number);
			return;
		}
		why = "a type that is not its own";
	}
	w->now = r->number;
	snprintf(data, sizeof(data), "\"number\":%llu,\"why\":\"%s\"",
		 (unsigned long long)r->number, why);
	note(c, "log.refused", data);
}

/* What is whole in `n` bytes: how many were taken, or -EBADMSG. */
static ssize_t take_records(struct conn *c, const char *p, size_t n)
{
	struct spool_record r;
	size_t at = 0;
	int rc;

	while ((rc = spool_get(p + at, n - at, &r)) > 0) {
		if (r.number > c->writer->now + GAP_MAX)
			return -EBADMSG;
		if (r.number > c->writer->now)
			take_record(c, &r);
		at += r.size;
	}
	return rc < 0 ? rc : (ssize_t)at;
}

/* One piece. 1: there may be more, 0: that was all, or -errno. */
static int read_piece(struct conn *c)
{
	static char piece[READ_BYTES];
	uint64_t want = c->end - c->at;
	ssize_t n, used;

	if (want == 0)
		return 0;
	if (want > sizeof(piece))
		want = sizeof(piece);
	do
		n = pread(c->spool_fd, piece, (size_t)want, (off_t)c->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	used = take_records(c, piece, (size_t)n);
	if (used < 0)
		return (int)used;
	if (used == 0) /* it has said that they are whole */
		return -EBADMSG;
	c->at += (uint64_t)used;
	return c->at < c->end;
}

static void on_feed(struct timer *t);

/* Nothing was written: what was read since is read again. */
static void start_over(struct scribe *s)
{
	struct list *n, *next;

	list_each (n, next, &s->conns) {
		struct conn *c = container_of(n, struct conn, node);

		c->at = c->start;
	}
	timer_set(&s->loop, &s->feed, RETRY_MS, on_feed);
}

static bool read_spool(struct conn *c, uint64_t most)
{
	uint64_t from = c->at;
	int r = 1;

	while (r > 0 && c->at - from < most)
		r = read_piece(c);
	if (r < 0) {
		log_err("read the spool of %s at %llu: %s, closing the "
			"connection",
			c->writer->name, (unsigned long long)c->at,
			strerror(-r));
		conn_close(c);
	}
	return r > 0;
}

/* What one of those that have something may bring in this turn. */
static uint64_t share(struct scribe *s)
{
	struct list *n, *next;
	uint64_t busy = 1, most;

	list_each (n, next, &s->conns) {
		const struct conn *c = container_of(n, struct conn, node);

		busy += c->at < c->end;
	}
	most = FEED_MAX / busy;
	return most < FEED_MIN ? FEED_MIN : most;
}

/* One turn's worth; true when there is more. */
static bool feed(struct scribe *s)
{
	struct list *n, *next;
	uint64_t most = share(s);
	bool more = false, sync = false;

	list_each (n, next, &s->conns) {
		struct conn *c = container_of(n, struct conn, node);

		if (!c->role)
			continue;
		if (read_spool(c, most)) {
			more = true;
		} else if (c->sync) {
			sync = true;
			c->sync = false;
		}
	}
	if (!do_write(s)) {
		start_over(s);
		return false;
	}
	if (chain_is_full(&s->chain) && s->chain.fd >= 0)
		end_segment(s);
	if (sync)
		do_sync(s);
	else
		ack_all(s);
	if (more)
		timer_set(&s->loop, &s->feed, 0, on_feed);
	return more;
}

static void on_feed(struct timer *t)
{
	feed(container_of(t, struct scribe, feed));
}

/* --- messages --- */

static int spool_ok(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? 0
								     : -EBADF;
}

/* A new connection of a writer ends what is left of the last one. */
static void close_others(struct conn *c)
{
	struct list *n, *next;

	list_each (n, next, &c->s->conns) {
		struct conn *other = container_of(n, struct conn, node);

		if (other != c && other->writer == c->writer)
			conn_close(other);
	}
}

/* Once for each connection: who it is. */
static int take_name(struct conn *c, const char *name)
{
	char gone[SCRIBE_NAME], data[SCRIBE_NAME + 16];

	c->role = role_find(c->s, c->uid, name);
	if (!c->role) {
		log_warn("user %u asks to write as somebody else",
			 (unsigned)c->uid);
		return -EPERM;
	}
	c->writer = writers_get(&c->s->chain.writers, name, gone);
	if (!c->writer) {
		c->role = NULL;
		return -EUSERS;
	}
	if (*gone) {
		snprintf(data, sizeof(data), "\"source\":\"%s\"", gone);
		chain_say(&c->s->chain, "log.forget", data);
	}
	close_others(c);
	c->writer->busy = true;
	return 0;
}

static int on_hello(struct conn *c, const struct scribe_hello *h, int *fd)
{
	int r = 0;

	if (!c->role)
		r = take_name(c, h->name);
	else if (strcmp(h->name, c->writer->name) != 0)
		r = -EBADMSG;
	if (r == 0)
		r = spool_ok(*fd);
	if (r < 0)
		return r;
	auto_close(&c->spool_fd);
	c->spool_fd = take_fd(fd);
	c->start = h->msg.end ? h->msg.end : SPOOL_HEAD;
	c->at = c->end = c->start;
	send_ack(c);
	return 0;
}

static int on_poke(struct conn *c, const struct scribe_msg *m)
{
	if (!c->role || m->end < c->at || m->end - c->start > END_MAX)
		return -EBADMSG;
	c->end = m->end;
	c->sync |= (m->flags & SCRIBE_SYNC) != 0;
	if (c->s->feed.slot == 0)
		feed(c->s);
	return 0;
}

static int on_message(struct conn *c, struct scribe_hello *h, size_t n, int *fd)
{
	const struct scribe_msg *m = &h->msg;

	if ((n != sizeof(*m) && n != sizeof(*h)) ||
	    m->version != SCRIBE_VERSION || m->end > SPOOL_OFFSET_MAX)
		return -EPROTO;
	if (n == sizeof(*m))
		snprintf(h->name, sizeof(h->name), "api");
	if (h->name[sizeof(h->name) - 1] != '\0')
		return -EBADMSG;
	if (m->op == SCRIBE_HELLO && (m->end == 0 || m->end >= SPOOL_HEAD))
		return on_hello(c, h, fd);
	return m->op == SCRIBE_POKE ? on_poke(c, m) : -EBADMSG;
}

/* One message; false when there is none, or no connection any more. */
static bool take_message(struct conn *c)
{
	struct scribe_hello h;
	int fds[FD_PASS_MAX], i, r;
	ssize_t n = recv_msg_fds(c->io.fd, &h, sizeof(h), fds);

	if (n == -EAGAIN)
		return false;
	r = n > 0 ? on_message(c, &h, (size_t)n, &fds[0]) : -ECONNRESET;
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]);
	if (r < 0) {
		if (n > 0)
			log_warn("a message that is not one, closing the "
				 "connection");
		conn_close(c);
	}
	return c->io.fd >= 0;
}

static void on_conn(struct io *io, uint32_t events)
{
	struct conn *c = container_of(io, struct conn, io);

	if ((events & EPOLLOUT) && c->ack_due)
		send_ack(c);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		while (take_message(c))
			;
}

static bool peer_allowed(const struct scribe *s, int fd, uid_t *uid)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return false;
	*uid = cred.uid;
	return cred.uid == 0 || cred.uid == s->api_uid ||
	       cred.uid == s->gate_uid;
}

static void take_conn(struct scribe *s, struct door *d)
{
	int fd = accept4(d->io.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct conn *c;
	uid_t uid;

	if (fd < 0)
		return;
	if (d->n >= d->max || !peer_allowed(s, fd, &uid)) {
		log_warn("connection refused");
		close(fd);
		return;
	}
	c = xcalloc(1, sizeof(*c));
	c->s = s;
	c->door = d;
	c->uid = uid;
	c->spool_fd = -1;
	list_add(&s->conns, &c->node);
	d->n++;
	if (io_add(&s->loop, &c->io, fd, EPOLLIN, on_conn) < 0)
		conn_close(c);
}

static void on_api(struct io *io, uint32_t events)
{
	struct scribe *s = container_of(io, struct scribe, api.io);

	(void)events;
	take_conn(s, &s->api);
}

static void on_gate(struct io *io, uint32_t events)
{
	struct scribe *s = container_of(io, struct scribe, gate.io);

	(void)events;
	take_conn(s, &s->gate);
}

static void on_signal(struct io *io, uint32_t events)
{
	(void)events;
	container_of(io, struct scribe, signal_io)->loop.stop = true;
}

static int catch_signals(struct scribe *s)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	return io_add(&s->loop, &s->signal_io, fd, EPOLLIN, on_signal);
}

int serve_start(struct scribe *s, struct err *e)
{
	int r = loop_init(&s->loop);

	list_init(&s->conns);
	if (r == 0)
		r = catch_signals(s);
	if (r == 0)
		r = io_add(&s->loop, &s->api.io, take_fd(&s->api.fd), EPOLLIN,
			   on_api);
	if (r == 0)
		r = io_add(&s->loop, &s->gate.io, take_fd(&s->gate.fd), EPOLLIN,
			   on_gate);
	if (r < 0)
		return err_set(e, -r, "event loop: %s", strerror(-r));
	chain_start(&s->chain);
	if (!do_write(s) || s->chain.loose > 0)
		timer_set(&s->loop, &s->sign, RETRY_MS, on_sign);
	timer_set(&s->loop, &s->prune, 1, on_prune);
	return 0;
}

void serve_stop(struct scribe *s)
{
	struct list *n, *next;

	/* The writers have stopped before us: their last words are here. */
	list_each (n, next, &s->conns) {
		struct conn *c = container_of(n, struct conn, node);

		on_conn(&c->io, EPOLLIN);
	}
	while (feed(s))
		;
	chain_sign(&s->chain);
	if (do_write(s))
		do_sync(s);
	list_each (n, next, &s->conns)
		conn_close(container_of(n, struct conn, node));
	io_close(&s->loop, &s->api.io);
	io_close(&s->loop, &s->gate.io);
	io_close(&s->loop, &s->signal_io);
	loop_done(&s->loop);
	chain_done(&s->chain);
}
