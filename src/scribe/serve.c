/*
 * The api's connection: what it says about its spool, and the reading of it.
 *
 * The spool is read from its start after each hello; records whose number the
 * log has already are passed over. A body that is not an entry is not written
 * but noted (log.refused), numbers that are missing too (log.gap); a record
 * that is not one ends the connection, and the api looks at its file again.
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
	struct io io;
	int spool_fd;     /* -1 before its hello */
	uint64_t at, end; /* of the spool: read up to, whole up to */
	bool sync;        /* somebody waits for the disk */
	bool ack_due;
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
	c->s->n_conns--;
	loop_defer(&c->s->loop, &c->gone, conn_free);
}

static void send_ack(struct conn *c)
{
	const struct chain *ch = &c->s->chain;
	struct scribe_msg m = {
		.version = SCRIBE_VERSION,
		.op = SCRIBE_ACK,
		.written = ch->written.spool,
		.synced = ch->synced.spool,
		.seq = ch->written.seq,
		.segment = ch->segment,
	};
	ssize_t n = send_msg_fds(c->io.fd, &m, sizeof(m), NULL, 0);

	/* A full socket: the newest numbers go when there is room. */
	c->ack_due = n == -EAGAIN;
	io_set(&c->s->loop, &c->io,
	       EPOLLIN | (c->ack_due ? (uint32_t)EPOLLOUT : 0));
}

static void ack_all(struct scribe *s)
{
	struct list *n, *next;

	list_each (n, next, &s->conns) {
		struct conn *c = container_of(n, struct conn, node);

		if (c->spool_fd >= 0)
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

static void take_record(struct chain *ch, const struct spool_record *r)
{
	const char *why;
	char data[160];

	if (r->number > ch->now.spool + 1) {
		snprintf(data, sizeof(data), "\"from\":%llu,\"to\":%llu",
			 (unsigned long long)ch->now.spool + 1,
			 (unsigned long long)r->number - 1);
		log_err("records of the spool are missing: %s", data);
		chain_say(ch, "log.gap", data);
	}
	if (entry_check_body(r->body, r->n, &why) == 0) {
		chain_add(ch, r->body, r->n, r->number);
		return;
	}
	log_err("record %llu of the spool is not an entry: %s",
		(unsigned long long)r->number, why);
	ch->now.spool = r->number;
	snprintf(data, sizeof(data), "\"number\":%llu,\"why\":\"%s\"",
		 (unsigned long long)r->number, why);
	chain_say(ch, "log.refused", data);
}

/* What is whole in `n` bytes: how many were taken, or -EBADMSG. */
static ssize_t take_records(struct chain *ch, const char *p, size_t n)
{
	struct spool_record r;
	size_t at = 0;
	int rc;

	while ((rc = spool_get(p + at, n - at, &r)) > 0) {
		if (r.number > ch->now.spool + GAP_MAX)
			return -EBADMSG;
		if (r.number > ch->now.spool)
			take_record(ch, &r);
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
	used = take_records(&c->s->chain, piece, (size_t)n);
	if (used < 0)
		return (int)used;
	if (used == 0) /* the api has said that they are whole */
		return -EBADMSG;
	c->at += (uint64_t)used;
	return c->at < c->end;
}

static void on_feed(struct timer *t);

/* Nothing was written: what was read since is read again. */
static void start_over(struct scribe *s)
{
	struct list *n, *next;

	list_each (n, next, &s->conns)
		container_of(n, struct conn, node)->at = SPOOL_HEAD;
	timer_set(&s->loop, &s->feed, RETRY_MS, on_feed);
}

static bool read_spool(struct conn *c)
{
	uint64_t from = c->at;
	int r = 1;

	while (r > 0 && c->at - from < FEED_MAX)
		r = read_piece(c);
	if (r < 0) {
		log_err("read the spool at %llu: %s, closing the connection",
			(unsigned long long)c->at, strerror(-r));
		conn_close(c);
	}
	return r > 0;
}

/* One turn's worth; true when there is more. */
static bool feed(struct scribe *s)
{
	struct list *n, *next;
	bool more = false, sync = false;

	list_each (n, next, &s->conns) {
		struct conn *c = container_of(n, struct conn, node);

		if (c->spool_fd < 0)
			continue;
		if (read_spool(c)) {
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

/* There is one api: a new connection ends what is left of the last one. */
static void close_others(struct conn *c)
{
	struct list *n, *next;

	list_each (n, next, &c->s->conns) {
		struct conn *other = container_of(n, struct conn, node);

		if (other != c)
			conn_close(other);
	}
}

static int on_message(struct conn *c, const struct scribe_msg *m, int *fd)
{
	bool hello = c->spool_fd >= 0;

	if (m->version != SCRIBE_VERSION)
		return -EPROTO;
	if (m->op == SCRIBE_HELLO && spool_ok(*fd) == 0) {
		auto_close(&c->spool_fd);
		c->spool_fd = take_fd(fd);
		c->at = c->end = SPOOL_HEAD;
		close_others(c);
		send_ack(c);
		return 0;
	}
	if (m->op == SCRIBE_POKE && hello && m->end >= c->at &&
	    m->end <= END_MAX) {
		c->end = m->end;
		c->sync |= (m->flags & SCRIBE_SYNC) != 0;
		if (c->s->feed.slot == 0)
			feed(c->s);
		return 0;
	}
	return -EBADMSG;
}

/* One message; false when there is none, or no connection any more. */
static bool take_message(struct conn *c)
{
	struct scribe_msg m;
	int fds[FD_PASS_MAX], i, r;
	ssize_t n = recv_msg_fds(c->io.fd, &m, sizeof(m), fds);

	if (n == -EAGAIN)
		return false;
	r = n == sizeof(m) ? on_message(c, &m, &fds[0]) : (int)n;
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]);
	if (n != sizeof(m) || r < 0) {
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

static bool peer_allowed(const struct scribe *s, int fd)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0 &&
	       (cred.uid == 0 || cred.uid == s->api_uid);
}

static void on_accept(struct io *io, uint32_t events)
{
	struct scribe *s = container_of(io, struct scribe, listen_io);
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct conn *c;

	(void)events;
	if (fd < 0)
		return;
	if (s->n_conns >= CONNS_MAX || !peer_allowed(s, fd)) {
		log_warn("connection refused");
		close(fd);
		return;
	}
	c = xcalloc(1, sizeof(*c));
	c->s = s;
	c->spool_fd = -1;
	list_add(&s->conns, &c->node);
	s->n_conns++;
	if (io_add(&s->loop, &c->io, fd, EPOLLIN, on_conn) < 0)
		conn_close(c);
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
		r = io_add(&s->loop, &s->listen_io, take_fd(&s->listen_fd),
			   EPOLLIN, on_accept);
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

	/* The api has stopped before us: its last words are here. */
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
	io_close(&s->loop, &s->listen_io);
	io_close(&s->loop, &s->signal_io);
	loop_done(&s->loop);
	chain_done(&s->chain);
}
