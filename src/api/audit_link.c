/*
 * The connection to the scribe. It is told how long the spool is, at most once
 * in a while, so that a create does not share the processor with its own log;
 * it tells what is written and what is on disk. While it is away the spool
 * grows; nothing here waits.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "api/api.h"
#include "api/audit.h"
#include "audit/spool.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "wire/scribe.h"

enum {
	POKE_MS = 2,       /* with somebody who waits for events */
	POKE_LAZY_MS = 50, /* without: fewer wake-ups */
	PAUSE_MIN_MS = 10,
	PAUSE_MAX_MS = 500,
	WAIT_MS = 5000,         /* for the disk */
	SHRINK_BYTES = 1 << 20, /* a spool that is worth it */
	STUCK_MAX = 3,          /* connections without progress */
};

static void try_connect(struct api *a);

static int say(struct audit_log *l, enum scribe_op op, uint32_t flags,
	       const int *fds, int n_fds)
{
	struct scribe_msg m = {
		.version = SCRIBE_VERSION,
		.op = (uint16_t)op,
		.flags = flags,
		.end = l->size,
	};
	ssize_t n = send_msg_fds(l->io.fd, &m, sizeof(m), fds, n_fds);

	return n < 0 ? (int)n : 0;
}

static void on_retry(struct timer *t)
{
	try_connect(container_of(t, struct api, audit.retry));
}

static void link_down(struct api *a, const char *why)
{
	struct audit_log *l = &a->audit;
	struct err e = { 0 };

	if (l->up || !l->told)
		log_warn("no connection to the scribe: %s, trying again", why);
	l->told = true;
	io_close(&a->loop, &l->io);
	timer_del(&a->loop, &l->poke);
	/* It may have met something in the spool that is not a record. */
	if (l->up && ++l->stuck >= STUCK_MAX && l->written + 1 < l->next) {
		l->stuck = 0;
		if (spool_check(l, &e) < 0)
			log_err("%s", e.msg);
	}
	l->up = false;
	timer_set(&a->loop, &l->retry, l->pause_ms, on_retry);
	l->pause_ms =
		l->pause_ms * 2 < PAUSE_MAX_MS ? l->pause_ms * 2 : PAUSE_MAX_MS;
}

static void on_poke(struct timer *t)
{
	struct api *a = container_of(t, struct api, audit.poke);
	struct audit_log *l = &a->audit;
	int r;

	if (!l->up)
		return;
	r = say(l, SCRIBE_POKE, l->sync_due ? SCRIBE_SYNC : 0, NULL, 0);
	if (r == -EAGAIN)
		timer_set(&a->loop, t, PAUSE_MIN_MS, on_poke);
	else if (r < 0)
		shutdown(l->io.fd, SHUT_RDWR); /* heard of in the next turn */
	else
		l->sync_due = false;
}

void audit_link_poke(struct api *a, bool sync)
{
	struct audit_log *l = &a->audit;

	unsigned wait = a->events.n > 0 ? POKE_MS : POKE_LAZY_MS;

	l->sync_due |= sync;
	if (l->up && (sync || l->poke.slot == 0))
		timer_set(&a->loop, &l->poke, sync ? 0 : wait, on_poke);
}

static void finish(struct audit_wait *w, const struct err *e)
{
	list_del(&w->node);
	w->busy = false;
	w->fn(w, e);
}

static void on_give_up(struct timer *t)
{
	struct api *a = container_of(t, struct api, audit.give_up);
	struct list *n, *next;
	struct err e = { 0 };
	uint64_t now = clock_boot_ms(), left = WAIT_MS;

	err_set(&e, LOG_AWAY,
		"the log does not answer: see the daemon's log, or try again");
	list_each (n, next, &a->audit.waits) {
		struct audit_wait *w = container_of(n, struct audit_wait, node);

		if (w->until_ms <= now)
			finish(w, &e);
		else if (w->until_ms - now < left)
			left = w->until_ms - now;
	}
	if (!list_empty(&a->audit.waits))
		timer_set(&a->loop, t, left, on_give_up);
}

void audit_link_wait(struct api *a, struct audit_wait *w)
{
	struct audit_log *l = &a->audit;
	uint64_t wait = w->number ? WAIT_MS : 0; /* 0: it is nowhere */

	w->busy = true;
	w->until_ms = clock_boot_ms() + wait;
	list_init(&w->node);
	list_add(&l->waits, &w->node);
	if (l->give_up.slot == 0 || wait == 0)
		timer_set(&a->loop, &l->give_up, wait, on_give_up);
	audit_link_poke(a, true);
}

void audit_cancel(struct audit_wait *w)
{
	if (w->busy)
		list_del(&w->node);
	w->busy = false;
}

static void tell_waits(struct audit_log *l)
{
	struct list *n, *next;
	struct err ok = { 0 };

	list_each (n, next, &l->waits) {
		struct audit_wait *w = container_of(n, struct audit_wait, node);

		if (w->number && w->number <= l->synced)
			finish(w, &ok);
	}
}

/*
 * Under load there is never a moment in which the log has everything: what is
 * on disk up to a mark goes, the rest moves to a new file.
 */
static void shrink_spool(struct audit_log *l)
{
	uint64_t some =
		l->size_max / 2 < SHRINK_BYTES ? l->size_max / 2 : SHRINK_BYTES;
	int r;

	if (l->mark && l->synced + 1 >= l->mark) {
		r = spool_shrink(l);
		if (r < 0)
			log_err("shrink %s: %s, trying again", l->path,
				strerror(-r));
		/* If it is not told, it looks for records in the old one. */
		else if (say(l, SCRIBE_HELLO, 0, &l->read_fd, 1) < 0)
			shutdown(l->io.fd, SHUT_RDWR);
		else
			audit_link_poke(container_of(l, struct api, audit),
					false);
	}
	if (!l->mark && l->size > some) {
		l->mark = l->next;
		l->mark_at = l->size;
	}
}

static void on_ack(struct api *a, const struct scribe_msg *m)
{
	struct audit_log *l = &a->audit;
	bool first = !l->up, grown = m->seq != l->seq;

	/* A number that it has and we would use again: start over from disk. */
	if (m->written >= l->next)
		die("the log has record %llu, the spool only up to %llu",
		    (unsigned long long)m->written,
		    (unsigned long long)l->next - 1);
	if (m->written > l->written)
		l->stuck = 0;
	l->up = true;
	l->written = m->written;
	l->synced = m->synced;
	l->seq = m->seq;
	l->segment = m->segment;
	if (first) {
		log_info("connected to the scribe");
		l->told = false;
		l->pause_ms = PAUSE_MIN_MS;
		audit_link_poke(a, true);
	}
	if (grown)
		events_wake(a);
	tell_waits(l);
	shrink_spool(l);
}

static bool take_message(struct api *a)
{
	struct audit_log *l = &a->audit;
	struct scribe_msg m;
	int fds[FD_PASS_MAX], i;
	ssize_t n = recv_msg_fds(l->io.fd, &m, sizeof(m), fds);

	if (n == -EAGAIN)
		return false;
	for (i = 0; n > 0 && i < FD_PASS_MAX; i++)
		auto_close(&fds[i]); /* it sends none */
	if (n <= 0)
		link_down(a, n < 0 ? strerror((int)-n) : "it went away");
	else if (n != sizeof(m) || m.version != SCRIBE_VERSION ||
		 m.op != SCRIBE_ACK)
		link_down(a, "it speaks another version");
	else
		on_ack(a, &m);
	return l->io.fd >= 0;
}

static void on_link(struct io *io, uint32_t events)
{
	struct api *a = container_of(io, struct api, audit.io);

	(void)events;
	while (take_message(a))
		;
}

static int check_peer(int fd)
{
	struct ucred peer;
	socklen_t n = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return -errno;
	return peer.uid == 0 ? 0 : -EPERM;
}

static void try_connect(struct api *a)
{
	struct audit_log *l = &a->audit;
	char path[CONF_PATH + 32];
	AUTO_CLOSE int fd = -1;
	int r;

	snprintf(path, sizeof(path), "%s/roles/scribe.sock", a->conf.run_dir);
	fd = unix_connect(path, SOCK_SEQPACKET | SOCK_NONBLOCK);
	/* Root has bound it, before it became somebody else. */
	r = fd < 0 ? fd : check_peer(fd);
	if (r == 0)
		r = io_add(&a->loop, &l->io, fd, EPOLLIN, on_link);
	if (r < 0) {
		l->io.fd = -1;
		link_down(a, strerror(-r));
		return;
	}
	(void)take_fd(&fd);
	r = say(l, SCRIBE_HELLO, 0, &l->read_fd, 1);
	if (r < 0)
		link_down(a, strerror(-r));
}

void audit_link_start(struct api *a)
{
	a->audit.pause_ms = PAUSE_MIN_MS;
	try_connect(a);
}

void audit_link_stop(struct api *a)
{
	struct audit_log *l = &a->audit;

	if (l->up)
		(void)say(l, SCRIBE_POKE, SCRIBE_SYNC, NULL, 0);
	timer_del(&a->loop, &l->retry);
	timer_del(&a->loop, &l->poke);
	timer_del(&a->loop, &l->give_up);
	io_close(&a->loop, &l->io);
}
