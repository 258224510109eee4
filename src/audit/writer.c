#include "audit/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "audit/spool.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

enum {
	PAUSE_MIN_MS = 10,
	PAUSE_MAX_MS = 500,
	WAIT_MS = 5000,         /* for the disk */
	SHRINK_BYTES = 1 << 20, /* a spool that is worth it */
	STUCK_MAX = 3,          /* connections without progress */
	LATE_MS = 5000,         /* a record that nobody took */
};

static void try_connect(struct log_writer *w);

static int say(struct log_writer *w, uint32_t flags)
{
	struct scribe_msg m = {
		.version = SCRIBE_VERSION,
		.op = SCRIBE_POKE,
		.flags = flags,
		.end = w->spool.end,
	};
	ssize_t n = send_msg_fds(w->io.fd, &m, sizeof(m), NULL, 0);

	return n < 0 ? (int)n : 0;
}

static int say_hello(struct log_writer *w)
{
	struct scribe_hello h = { .msg = { .version = SCRIBE_VERSION,
					   .op = SCRIBE_HELLO,
					   .end = w->spool.start } };
	int fd = w->spool.read_fd >= 0 ? w->spool.read_fd : w->spool.fd;
	ssize_t n;

	snprintf(h.name, sizeof(h.name), "%s", w->name);
	n = send_msg_fds(w->io.fd, &h, sizeof(h), &fd, 1);
	return n < 0 ? (int)n : 0;
}

static void on_retry(struct timer *t)
{
	try_connect(container_of(t, struct log_writer, retry));
}

static void link_down(struct log_writer *w, const char *why)
{
	struct err e = { 0 };

	if (w->up || !w->told)
		log_warn("no connection to the scribe: %s, trying again", why);
	w->told = true;
	io_close(w->loop, &w->io);
	timer_del(w->loop, &w->poke);
	/* It may have met something in the spool that is not a record. */
	if (w->up && ++w->stuck >= STUCK_MAX &&
	    w->written + 1 < w->spool.next) {
		w->stuck = 0;
		if (spool_file_check(&w->spool, &e) < 0)
			log_err("%s", e.msg);
	}
	w->up = false;
	timer_set(w->loop, &w->retry, w->pause_ms, on_retry);
	w->pause_ms =
		w->pause_ms * 2 < PAUSE_MAX_MS ? w->pause_ms * 2 : PAUSE_MAX_MS;
}

static void on_poke(struct timer *t)
{
	struct log_writer *w = container_of(t, struct log_writer, poke);
	int r;

	if (!w->up)
		return;
	r = say(w, w->sync_due ? SCRIBE_SYNC : 0);
	if (r == -EAGAIN)
		timer_set(w->loop, t, PAUSE_MIN_MS, on_poke);
	else if (r < 0)
		shutdown(w->io.fd, SHUT_RDWR); /* heard of in the next turn */
	else
		w->sync_due = false;
}

void writer_poke(struct log_writer *w, bool sync)
{
	w->sync_due |= sync;
	if (w->late == 0 && w->written + 1 < w->spool.next) {
		w->late = w->spool.next - 1;
		w->late_ms = clock_boot_ms();
	}
	if (w->up && (sync || w->poke.slot == 0))
		timer_set(w->loop, &w->poke, sync ? 0 : w->poke_ms, on_poke);
}

static void finish(struct audit_wait *w, const struct err *e)
{
	list_del(&w->node);
	w->busy = false;
	w->fn(w, e);
}

static void on_give_up(struct timer *t)
{
	struct log_writer *w = container_of(t, struct log_writer, give_up);
	struct list *n, *next;
	struct err e = { 0 };
	uint64_t now = clock_boot_ms(), left = WAIT_MS;

	err_set(&e, LOG_AWAY,
		"the log does not answer: see the daemon's log, or try again");
	list_each (n, next, &w->waits) {
		struct audit_wait *a = container_of(n, struct audit_wait, node);

		if (a->until_ms <= now)
			finish(a, &e);
		else if (a->until_ms - now < left)
			left = a->until_ms - now;
	}
	if (!list_empty(&w->waits))
		timer_set(w->loop, t, left, on_give_up);
}

void writer_wait(struct log_writer *w, struct audit_wait *a)
{
	uint64_t wait = a->number ? WAIT_MS : 0; /* 0: it is nowhere */

	a->busy = true;
	a->until_ms = clock_boot_ms() + wait;
	list_init(&a->node);
	list_add(&w->waits, &a->node);
	if (w->give_up.slot == 0 || wait == 0)
		timer_set(w->loop, &w->give_up, wait, on_give_up);
	writer_poke(w, true);
}

void audit_cancel(struct audit_wait *a)
{
	if (a->busy)
		list_del(&a->node);
	a->busy = false;
}

static void tell_waits(struct log_writer *w)
{
	struct list *n, *next;
	struct err ok = { 0 };

	list_each (n, next, &w->waits) {
		struct audit_wait *a = container_of(n, struct audit_wait, node);

		if (a->number && a->number <= w->synced)
			finish(a, &ok);
	}
}

/*
 * Under load there is never a moment in which the log has everything: what is
 * on disk up to a mark goes. When there is one, the file gets short.
 */
static void shrink_spool(struct log_writer *w)
{
	struct spool_file *f = &w->spool;
	uint64_t some =
		f->size_max / 2 < SHRINK_BYTES ? f->size_max / 2 : SHRINK_BYTES;
	bool all = w->synced + 1 >= f->next && f->end > some;
	int r;

	if (all || (f->mark && w->synced + 1 >= f->mark)) {
		r = all ? spool_file_empty(f, f->next) : spool_file_cut(f);
		if (r < 0)
			log_err("shrink %s: %s, trying again", f->name,
				strerror(-r));
		/* If it is not told, it looks for records that are gone. */
		else if (say_hello(w) < 0)
			shutdown(w->io.fd, SHUT_RDWR);
		else
			writer_poke(w, false);
	}
	if (!f->mark && spool_file_bytes(f) > some)
		spool_file_mark(f);
}

/* A number that it has and we would use again. */
static void take_number(struct log_writer *w, uint64_t written)
{
	struct spool_file *f = &w->spool;
	int r;

	if (!w->adopt)
		die("the log has record %llu, the spool only up to %llu",
		    (unsigned long long)written,
		    (unsigned long long)f->next - 1);
	log_warn("the log has record %llu, %s only up to %llu: going on behind "
		 "it",
		 (unsigned long long)written, f->name,
		 (unsigned long long)f->next - 1);
	r = spool_file_empty(f, written + 1);
	if (r < 0)
		die("empty %s: %s", f->name, strerror(-r));
	if (say_hello(w) < 0)
		shutdown(w->io.fd, SHUT_RDWR);
}

static void on_ack(struct log_writer *w, const struct scribe_msg *m)
{
	bool first = !w->up, grown = m->seq != w->seq;

	if (m->written >= w->spool.next)
		take_number(w, m->written);
	if (m->written > w->written)
		w->stuck = 0;
	w->up = true;
	w->written = m->written;
	w->synced = m->synced;
	w->seq = m->seq;
	w->segment = m->segment;
	if (w->late && m->written >= w->late) {
		w->late =
			m->written + 1 < w->spool.next ? w->spool.next - 1 : 0;
		w->late_ms = clock_boot_ms();
	}
	if (first) {
		log_info("connected to the scribe");
		w->told = false;
		w->pause_ms = PAUSE_MIN_MS;
		writer_poke(w, true);
	}
	if (w->on_ack)
		w->on_ack(w, grown);
	tell_waits(w);
	shrink_spool(w);
}

static bool take_message(struct log_writer *w)
{
	struct scribe_msg m;
	int fds[FD_PASS_MAX], i;
	ssize_t n = recv_msg_fds(w->io.fd, &m, sizeof(m), fds);

	if (n == -EAGAIN)
		return false;
	for (i = 0; n > 0 && i < FD_PASS_MAX; i++)
		auto_close(&fds[i]); /* it sends none */
	if (n <= 0)
		link_down(w, n < 0 ? strerror((int)-n) : "it went away");
	else if (n != sizeof(m) || m.version != SCRIBE_VERSION ||
		 m.op != SCRIBE_ACK)
		link_down(w, "it speaks another version");
	else
		on_ack(w, &m);
	return w->io.fd >= 0;
}

static void on_link(struct io *io, uint32_t events)
{
	struct log_writer *w = container_of(io, struct log_writer, io);

	(void)events;
	while (take_message(w))
		;
}

static void try_connect(struct log_writer *w)
{
	AUTO_CLOSE int fd =
		unix_connect_role(w->socket, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	int r = fd;

	if (fd >= 0)
		r = io_add(w->loop, &w->io, fd, EPOLLIN, on_link);
	if (r < 0) {
		w->io.fd = -1;
		link_down(w, strerror(-r));
		return;
	}
	(void)take_fd(&fd);
	r = say_hello(w);
	if (r < 0)
		link_down(w, strerror(-r));
}

int writer_open(struct log_writer *w, uint64_t in_log, struct err *e)
{
	w->io.fd = -1;
	w->pause_ms = PAUSE_MIN_MS;
	list_init(&w->waits);
	return spool_file_open(&w->spool, in_log, e);
}

void writer_connect(struct log_writer *w)
{
	try_connect(w);
}

void writer_stop(struct log_writer *w)
{
	if (w->up)
		(void)say(w, SCRIBE_SYNC);
	timer_del(w->loop, &w->retry);
	timer_del(w->loop, &w->poke);
	timer_del(w->loop, &w->give_up);
	io_close(w->loop, &w->io);
	spool_file_close(&w->spool);
}

bool writer_is_heard(const struct log_writer *w)
{
	return w->up && spool_file_bytes(&w->spool) <= w->spool.size_max &&
	       (w->late == 0 || clock_boot_ms() - w->late_ms < LATE_MS);
}
