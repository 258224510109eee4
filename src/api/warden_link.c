/*
 * How the link lives: connect (again and again, with a growing pause), hello,
 * on_up() - which reconciles with `early` calls - and warden_ready(), from
 * when on everybody's calls pass.
 *
 * When the connection breaks, calls that can be made twice wait for the next
 * one; the others fail, and their owners undo what they did. The warden's
 * leftovers of such a call are found by the reconciliation.
 */
#include "api/warden_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/last_error.h"
#include "base/log.h"

enum { PAUSE_MIN_MS = 10, PAUSE_MAX_MS = 500 };

static void try_connect(struct warden_link *w);

static bool may_repeat(unsigned op)
{
	switch (op) {
	case WARDEN_KILL:
	case WARDEN_KILL_ALL:
	case WARDEN_GIVE_UP:
	case WARDEN_STAT:
	case WARDEN_HOST:
	case WARDEN_IMAGE_REMOVE:
	case WARDEN_SNAPSHOT_REMOVE:
	case WARDEN_RESIZE:
	case WARDEN_CONNECT:
	case WARDEN_DOOR:
	case WARDEN_PAUSE:
	case WARDEN_RESUME:
		return true;
	default:
		return false;
	}
}

static void finish(struct warden_call *c, const struct warden_rep *rep,
		   int fds[FD_PASS_MAX])
{
	int none[FD_PASS_MAX] = { -1, -1, -1, -1, -1, -1, -1, -1 };
	int *use = fds ? fds : none, i;

	list_del(&c->node);
	c->busy = false;
	c->fn(c, rep, use);
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&use[i]);
}

bool warden_failed(const struct warden_link *w)
{
	char why[8];

	return last_error_read(w->run_dir, "warden", why, sizeof(why));
}

int warden_explain(const struct warden_link *w, struct err *e)
{
	char why[sizeof(e->msg)];

	if (last_error_read(w->run_dir, "warden", why, sizeof(why)))
		return err_set(e, WARDEN_AWAY, "the warden is down: %s", why);
	return err_set(e, WARDEN_AWAY,
		       w->was_ready ? "the warden does not answer: see the "
				      "daemon's log, or try again"
				    : "the warden has not started yet: see "
				      "the daemon's log, or try again");
}

static void finish_away(const struct warden_link *w, struct warden_call *c)
{
	struct warden_rep rep = { .op = c->req.op, .seq = c->req.seq };

	warden_explain(w, &rep.err);
	finish(c, &rep, NULL);
}

static void on_give_up(struct timer *t)
{
	struct warden_link *w = container_of(t, struct warden_link, give_up);
	uint64_t now = clock_boot_ms();

	/* In the order of their deadlines: all wait equally long. */
	while (!list_empty(&w->waiting)) {
		struct warden_call *c =
			container_of(w->waiting.next, struct warden_call, node);

		if (c->until_ms > now) {
			timer_set(w->loop, t, c->until_ms - now, on_give_up);
			return;
		}
		finish_away(w, c);
	}
}

static void wait_in_line(struct warden_link *w, struct warden_call *c)
{
	c->until_ms = clock_boot_ms() + WARDEN_WAIT_MS;
	list_add(&w->waiting, &c->node);
	if (w->give_up.slot == 0)
		timer_set(w->loop, &w->give_up, WARDEN_WAIT_MS, on_give_up);
}

static void on_retry(struct timer *t)
{
	try_connect(container_of(t, struct warden_link, retry));
}

static void link_down(struct warden_link *w, const char *why)
{
	struct list sent;

	if (w->ready || !w->told)
		log_warn("no connection to the warden: %s, trying again", why);
	w->told = true;
	io_close(w->loop, &w->io);
	w->up = w->ready = false;
	w->unanswered = 0;
	timer_set(w->loop, &w->retry, w->pause_ms, on_retry);
	w->pause_ms =
		w->pause_ms * 2 < PAUSE_MAX_MS ? w->pause_ms * 2 : PAUSE_MAX_MS;
	/* Owners may ask again from their callbacks: walk a list of our own. */
	list_init(&sent);
	while (!list_empty(&w->sent)) {
		struct list *n = w->sent.next;

		list_del(n);
		list_add(&sent, n);
	}
	while (!list_empty(&sent)) {
		struct warden_call *c =
			container_of(sent.next, struct warden_call, node);

		list_del(&c->node);
		if (may_repeat(c->req.op))
			wait_in_line(w, c);
		else
			finish_away(w, c);
	}
}

/* Sent, or in line when the socket is full. */
static void send_call(struct warden_link *w, struct warden_call *c)
{
	ssize_t n;

	c->req.version = WARDEN_VERSION;
	c->req.zero = 0;
	c->req.seq = ++w->seq;
	n = send_msg_fds(w->io.fd, &c->req, sizeof(c->req), NULL, 0);
	if (n == -EAGAIN) {
		io_set(w->loop, &w->io, EPOLLIN | EPOLLOUT);
		wait_in_line(w, c);
		return;
	}
	list_add(&w->sent, &c->node);
	w->unanswered++;
	/*
	 * Broken: heard of in the next turn. Nothing fails inside of
	 * warden_ask(), where its caller is not ready for it.
	 */
	if (n < 0)
		shutdown(w->io.fd, SHUT_RDWR);
}

static void send_waiting(struct warden_link *w)
{
	struct list *n, *next, line;

	list_init(&line);
	list_each (n, next, &w->waiting) {
		list_del(n);
		list_add(&line, n);
	}
	list_each (n, next, &line) {
		struct warden_call *c =
			container_of(n, struct warden_call, node);

		list_del(n);
		if (w->ready)
			send_call(w, c);
		else
			list_add(&w->waiting, n); /* keeps its deadline */
	}
	if (list_empty(&w->waiting))
		timer_del(w->loop, &w->give_up);
}

static void pass(struct warden_link *w, struct warden_call *c)
{
	if (w->ready ? !(w->io.events & EPOLLOUT) : w->up && c->early)
		send_call(w, c);
	else
		wait_in_line(w, c);
}

static void pass_soon(struct warden_link *w)
{
	while (!list_empty(&w->soon)) {
		struct warden_call *c =
			container_of(w->soon.next, struct warden_call, node);

		list_del(&c->node);
		pass(w, c);
	}
}

static void on_turn_over(struct deferred *d)
{
	struct warden_link *w = container_of(d, struct warden_link, turn_over);

	w->turn_over_set = false;
	pass_soon(w);
}

void warden_ask(struct warden_link *w, struct warden_call *c, warden_fn *fn)
{
	c->fn = fn;
	c->busy = true;
	list_init(&c->node);
	pass_soon(w);
	pass(w, c);
}

bool warden_is_quiet(const struct warden_link *w)
{
	return w->ready && w->unanswered == 0 && list_empty(&w->waiting) &&
	       list_empty(&w->soon);
}

void warden_cancel(struct warden_call *c)
{
	if (c->busy)
		list_del(&c->node);
	c->busy = false;
}

void warden_req_id(struct warden_call *c, enum warden_op op, const char *id)
{
	memset(&c->req, 0, sizeof(c->req));
	c->req.op = (uint16_t)op;
	memcpy(c->req.id, id, strnlen(id, ID_LEN));
}

static void on_chore(struct warden_call *c, const struct warden_rep *rep,
		     int fds[FD_PASS_MAX])
{
	(void)fds;
	if (rep->err.code && rep->err.code != ESRCH && rep->err.code != ENOENT)
		log_warn("id=%s background request %u failed: %s", c->req.id,
			 c->req.op, rep->err.msg);
	free(c);
}

void warden_chore(struct warden_link *w, enum warden_op op, const char *id)
{
	struct warden_call *c = xcalloc(1, sizeof(*c));

	warden_req_id(c, op, id);
	warden_ask(w, c, on_chore);
}

void warden_chore_soon(struct warden_link *w, enum warden_op op, const char *id)
{
	struct warden_call *c = xcalloc(1, sizeof(*c));

	warden_req_id(c, op, id);
	c->fn = on_chore;
	c->busy = true;
	list_init(&c->node);
	list_add(&w->soon, &c->node);
	if (!w->turn_over_set)
		loop_defer(w->loop, &w->turn_over, on_turn_over);
	w->turn_over_set = true;
}

static void on_hello(struct warden_call *c, const struct warden_rep *rep,
		     int fds[FD_PASS_MAX])
{
	struct warden_link *w = container_of(c, struct warden_link, hello);

	(void)fds;
	if (rep->err.code == WARDEN_AWAY)
		return;
	if (rep->err.code) {
		link_down(w, rep->err.msg);
		return;
	}
	w->up = true;
	w->on_up(w->ctx);
}

void warden_ready(struct warden_link *w)
{
	w->ready = w->was_ready = true;
	w->told = false;
	w->pause_ms = PAUSE_MIN_MS;
	log_info("connected to the warden");
	send_waiting(w);
}

static struct warden_call *find_sent(struct warden_link *w, uint64_t seq)
{
	struct list *n, *next;

	list_each (n, next, &w->sent) {
		struct warden_call *c =
			container_of(n, struct warden_call, node);

		if (c->req.seq == seq)
			return c;
	}
	return NULL;
}

/* One message; false when there is none, or no link any more. */
static bool take_message(struct warden_link *w)
{
	struct warden_rep rep;
	int fds[FD_PASS_MAX], i;
	struct warden_call *c;
	ssize_t n = recv_msg_fds(w->io.fd, &rep, sizeof(rep), fds);

	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		link_down(w, n < 0 ? strerror((int)-n) : "it went away");
		return false;
	}
	rep.err.msg[sizeof(rep.err.msg) - 1] = '\0';
	if (n == sizeof(rep) && rep.seq != 0 && w->unanswered > 0)
		w->unanswered--;
	c = n == sizeof(rep) ? find_sent(w, rep.seq) : NULL;
	if (n != sizeof(rep) || rep.version != WARDEN_VERSION) {
		link_down(w, "it speaks another version");
	} else if (c) {
		finish(c, &rep, fds);
	} else if (rep.seq == 0 && rep.op == WARDEN_ENDED) {
		rep.last.id[ID_LEN] = '\0';
		w->on_ended(w->ctx, &rep.last, &rep.err);
	}
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]);
	return w->io.fd >= 0;
}

static void on_link(struct io *io, uint32_t events)
{
	struct warden_link *w = container_of(io, struct warden_link, io);

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		while (take_message(w))
			;
	if (w->io.fd >= 0 && (events & EPOLLOUT)) {
		io_set(w->loop, &w->io, EPOLLIN);
		send_waiting(w);
	}
}

static void try_connect(struct warden_link *w)
{
	AUTO_CLOSE int fd =
		unix_connect_role(w->path, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	int r = fd;

	if (fd >= 0)
		r = io_add(w->loop, &w->io, fd, EPOLLIN, on_link);
	if (r < 0) {
		w->io.fd = -1;
		link_down(w, strerror(-r));
		return;
	}
	(void)take_fd(&fd);
	warden_req_id(&w->hello, WARDEN_HELLO, "");
	w->hello.fn = on_hello;
	w->hello.busy = true;
	list_init(&w->hello.node);
	send_call(w, &w->hello);
}

int warden_start(struct warden_link *w, struct loop *l, const char *run_dir,
		 struct err *e)
{
	w->loop = l;
	w->run_dir = run_dir;
	w->io.fd = -1;
	w->pause_ms = PAUSE_MIN_MS;
	list_init(&w->waiting);
	list_init(&w->sent);
	list_init(&w->soon);
	if (snprintf(w->path, sizeof(w->path), "%s/roles/warden.sock",
		     run_dir) >= (int)sizeof(w->path))
		return err_set(e, ENAMETOOLONG, "run_dir %s is too long",
			       run_dir);
	try_connect(w);
	return 0;
}

void warden_done(struct warden_link *w)
{
	timer_del(w->loop, &w->retry);
	timer_del(w->loop, &w->give_up);
	io_close(w->loop, &w->io);
}

int worker_pipes(struct loop *l, int fds[FD_PASS_MAX], struct io *to,
		 struct io *from)
{
	int r;

	if (fds[0] < 0 || fds[1] < 0)
		return -EPROTO;
	r = fd_set_nonblock(fds[0], true);
	if (r == 0)
		r = fd_set_nonblock(fds[1], true);
	if (r == 0)
		r = io_add(l, to, fds[0], to->events, to->fn);
	if (r < 0) {
		to->fd = -1;
		return r;
	}
	(void)take_fd(&fds[0]);
	r = io_add(l, from, fds[1], EPOLLIN, from->fn);
	if (r < 0) {
		from->fd = -1;
		return r;
	}
	(void)take_fd(&fds[1]);
	return 0;
}
