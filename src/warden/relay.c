/*
 * The relay of a VM's door (src/relay), and what is asked of it. It is started
 * when it is first needed, lives as long as the VM, and is started again when
 * it ends. It is found by the path of its socket, so a warden that was started
 * again goes on with it, and connections through it do not notice.
 *
 * What it answers may be a lie of the guest's: it is about the guest alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/vm/relay.h"
#include "warden/warden.h"
#include "wire/relay.h"

enum {
	ASK_MS = 10 * 1000,
	ASKS_MAX = 512, /* of one VM */
	AGAIN_MS = 20,  /* and then twice as long each time */
	AGAIN_MAX_MS = 2000,
};

#define RELAY_SOCK "relay.sock"
#define DOOR_SOCK "door.sock"

struct relay {
	struct warden *w;
	struct box *box; /* NULL: it has ended */
	struct io io;    /* our connection to it */
	struct io pid_io;
	bool up; /* it has found the guest */
	uint32_t seq;
	struct list asks;
	unsigned n_asks;
	struct timer again;
	uint64_t again_ms;
	struct deferred gone;
};

struct ask {
	struct list node;
	struct relay *r;
	struct waiter *wt;
	struct relay_req req;
	bool sent;
	int fd; /* RELAY_CONNECT: the half of who asked */
	struct timer late;
	struct deferred gone;
};

static void start_later(struct relay *r);

/* --- what is asked --- */

static void ask_free(struct deferred *d)
{
	free(container_of(d, struct ask, gone));
}

static void ask_end(struct ask *a, const struct err *e)
{
	struct warden_rep rep = { .err = *e };
	struct relay *r = a->r;

	list_del(&a->node);
	r->n_asks--;
	timer_del(&r->w->loop, &a->late);
	if (a->req.op == RELAY_DOOR)
		door_done(r->box, a->req.flags, a->wt, e);
	else
		answer_rep(a->wt, &rep, &a->fd, e->code == 0);
	auto_close(&a->fd);
	loop_defer(&r->w->loop, &a->gone, ask_free);
}

static void ask_failed(struct ask *a, int code, const char *why)
{
	struct err e = { 0 };

	err_set(&e, code, "sandbox %s: %s", a->r->box->spec.id, why);
	ask_end(a, &e);
}

static void on_late(struct timer *t)
{
	ask_failed(container_of(t, struct ask, late), ETIMEDOUT,
		   "its machine does not answer");
}

/* The socket's other half goes with the request. */
static int send_ask(struct ask *a)
{
	AUTO_CLOSE int theirs = -1;
	ssize_t n;
	int pair[2];

	if (a->req.op == RELAY_CONNECT) {
		if (socketpair(AF_UNIX,
			       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			       pair) < 0)
			return -errno;
		auto_close(&a->fd);
		a->fd = pair[0];
		theirs = pair[1];
	}
	n = send_msg_fds(a->r->io.fd, &a->req, sizeof(a->req), &theirs,
			 theirs >= 0);
	a->sent = n > 0;
	return n < 0 ? (int)n : 0;
}

/* Now, or when it is up: it may have ended, of which we hear soon. */
static void ask_now(struct ask *a)
{
	int r = a->r->up ? send_ask(a) : 0;

	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		ask_failed(a, -r, "its relay takes no requests");
}

static void ask(struct relay *r, struct waiter *wt, const struct relay_req *q)
{
	struct ask *a = xcalloc(1, sizeof(*a));

	a->r = r;
	a->wt = wt;
	a->fd = -1;
	a->req = *q;
	a->req.version = RELAY_VERSION;
	if (++r->seq == 0)
		r->seq = 1;
	a->req.seq = r->seq;
	list_add(&r->asks, &a->node);
	r->n_asks++;
	timer_set(&r->w->loop, &a->late, ASK_MS, on_late);
	if (r->n_asks > ASKS_MAX)
		ask_failed(a, EAGAIN, "too many connections at once");
	else
		ask_now(a);
}

/* --- what is answered --- */

static struct ask *ask_find(struct relay *r, const struct relay_rep *rep)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &r->asks) {
		struct ask *a = container_of(pos, struct ask, node);

		if (a->sent && a->req.seq == rep->seq && a->req.op == rep->op)
			return a;
	}
	return NULL;
}

/* A few that mean something to who asked; the rest could be anything. */
static void ask_refused(struct ask *a, uint32_t code)
{
	switch (code) {
	case ENOTCONN: /* not now: it is told when to try again */
		a->sent = false;
		return;
	case EADDRINUSE:
		ask_failed(a, EADDRINUSE,
			   "a port of its door is taken by a program inside");
		return;
	case ECONNREFUSED:
	case EAGAIN:
	case EMFILE:
		ask_failed(a, (int)code, strerror((int)code));
		return;
	default:
		ask_failed(a, EIO, "its machine failed");
		return;
	}
}

/* Those about its door are asked again, the others were answered. */
static void on_up(struct relay *r)
{
	struct list *pos, *tmp;

	r->up = true;
	r->again_ms = 0;
	list_each (pos, tmp, &r->asks) {
		struct ask *a = container_of(pos, struct ask, node);

		if (!a->sent || a->req.op == RELAY_DOOR)
			ask_now(a);
	}
}

static void on_reply(struct relay *r, const struct relay_rep *rep)
{
	struct ask *a;
	struct err none = { 0 };

	if (rep->op == RELAY_UP) {
		on_up(r);
		return;
	}
	a = ask_find(r, rep);
	if (a && rep->code)
		ask_refused(a, rep->code);
	else if (a)
		ask_end(a, &none);
}

/* It is gone, or not well. What was asked of it is asked of the next one:
 * nobody has got anything of it yet. */
static void lost(struct relay *r)
{
	struct list *pos, *tmp;

	r->up = false;
	io_close(&r->w->loop, &r->io);
	list_each (pos, tmp, &r->asks)
		container_of(pos, struct ask, node)->sent = false;
	start_later(r);
}

static void on_words(struct io *io, uint32_t events)
{
	struct relay *r = container_of(io, struct relay, io);
	struct relay_rep rep;
	int fds[FD_PASS_MAX], i;
	ssize_t n = recv_msg_fds(io->fd, &rep, sizeof(rep), fds);

	(void)events;
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]); /* no answer carries one */
	if (n == -EAGAIN)
		return;
	if (n == (ssize_t)sizeof(rep) && rep.version == RELAY_VERSION)
		on_reply(r, &rep);
	else
		lost(r);
}

/* --- its process --- */

static void relay_free(struct deferred *d)
{
	free(container_of(d, struct relay, gone));
}

static void on_exit_of(struct io *io, uint32_t events)
{
	struct relay *r = container_of(io, struct relay, pid_io);
	siginfo_t si = { 0 };

	(void)events;
	waitid(P_PIDFD, (id_t)io->fd, &si, WEXITED);
	io_close(&r->w->loop, io);
	if (!r->box) {
		loop_defer(&r->w->loop, &r->gone, relay_free);
		return;
	}
	log_warn("sandbox=%s the relay of its door ended, starting it again",
		 r->box->spec.id);
	lost(r);
}

static int connect_at(int dir_fd, const char *name, int type)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name);
	return unix_connect(path, type | SOCK_NONBLOCK);
}

static int connect_relay(struct relay *r, int dir_fd, struct err *e)
{
	int fd = connect_at(dir_fd, RELAY_SOCK, SOCK_SEQPACKET), n;

	if (fd < 0)
		return err_set(e, -fd, "connect to " RELAY_SOCK ": %s",
			       strerror(-fd));
	n = io_add(&r->w->loop, &r->io, fd, EPOLLIN, on_words);
	if (n == 0)
		return 0;
	io_close(&r->w->loop, &r->io);
	return err_set(e, -n, "watch the relay: %s", strerror(-n));
}

static int spawn(struct relay *r, int dir_fd, struct err *e)
{
	struct box *b = r->box;
	const uint32_t base = slot_base(r->w, b->slot);
	AUTO_CLOSE int line_fd = connect_at(dir_fd, DOOR_SOCK, SOCK_STREAM);
	AUTO_CLOSE int listen_fd =
		unix_listen_at(dir_fd, RELAY_SOCK, SOCK_SEQPACKET, 0600);
	const struct part its = { .base = base };
	struct relay_spec s = { .cg = &r->w->cg,
				.slot = b->slot,
				.uid = part_agent_uid(&its),
				.vm_fd = b->pid_io.fd,
				.program_fd = r->w->relay_fd,
				.line_fd = line_fd,
				.listen_fd = listen_fd };
	int pid_fd = -1, n;

	if (line_fd < 0 || listen_fd < 0)
		return err_set(e, line_fd < 0 ? -line_fd : -listen_fd,
			       "sockets of the relay: %s",
			       strerror(line_fd < 0 ? -line_fd : -listen_fd));
	if (relay_start(&s, &pid_fd, e) < 0)
		return -e->code;
	n = io_add(&r->w->loop, &r->pid_io, pid_fd, EPOLLIN, on_exit_of);
	if (n == 0)
		return 0;
	/* Nobody would hear of its end: the VM's groups end it. */
	close(pid_fd);
	r->pid_io.fd = -1;
	return err_set(e, -n, "watch the relay: %s", strerror(-n));
}

static int open_dir(const struct box *b)
{
	return openat(b->w->box_fd, b->spec.id,
		      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void on_again(struct timer *t)
{
	struct relay *r = container_of(t, struct relay, again);
	AUTO_CLOSE int dir_fd = open_dir(r->box);
	struct err e = { 0 };

	/* It may live, and have lost us alone. */
	if (dir_fd >= 0 && connect_relay(r, dir_fd, &e) == 0)
		return;
	err_clear(&e);
	if (r->pid_io.fd >= 0) {
		/* Its end comes first, and brings us here again. */
		syscall(SYS_pidfd_send_signal, r->pid_io.fd, SIGKILL, NULL, 0);
		return;
	}
	if (dir_fd < 0)
		err_sys(&e, "open run directory");
	else if (spawn(r, dir_fd, &e) == 0)
		(void)connect_relay(r, dir_fd, &e);
	if (e.code == 0)
		return;
	log_err("sandbox=%s relay: %s", r->box->spec.id, e.msg);
	start_later(r);
}

static void start_later(struct relay *r)
{
	r->again_ms = r->again_ms ? 2 * r->again_ms : AGAIN_MS;
	if (r->again_ms > AGAIN_MAX_MS)
		r->again_ms = AGAIN_MAX_MS;
	timer_set(&r->w->loop, &r->again, r->again_ms, on_again);
}

static struct relay *relay_new(struct box *b)
{
	struct relay *r = xcalloc(1, sizeof(*r));

	r->w = b->w;
	r->box = b;
	r->io.fd = r->pid_io.fd = -1;
	list_init(&r->asks);
	b->relay = r;
	return r;
}

/* --- for others --- */

static struct relay *relay_of(struct box *b)
{
	if (!b->relay) {
		relay_new(b);
		on_again(&b->relay->again);
	}
	return b->relay;
}

void relay_door(struct box *b, uint32_t flags, struct waiter *wt)
{
	ask(relay_of(b), wt,
	    &(struct relay_req){ .op = RELAY_DOOR, .flags = flags });
}

void relay_connect(struct box *b, const struct connect_spec *s,
		   struct waiter *wt)
{
	ask(relay_of(b), wt,
	    &(struct relay_req){
		    .op = RELAY_CONNECT, .port = s->port, .flags = s->flags });
}

void relay_adopt(struct box *b)
{
	AUTO_CLOSE int dir_fd = open_dir(b);
	struct err e = { 0 };
	struct relay *r;

	if (dir_fd < 0 || faccessat(dir_fd, RELAY_SOCK, F_OK, 0) < 0)
		return; /* it was never needed */
	r = relay_new(b);
	if (connect_relay(r, dir_fd, &e) < 0)
		start_later(r);
}

void relay_end(struct box *b)
{
	struct relay *r = b->relay;

	if (!r)
		return;
	while (!list_empty(&r->asks))
		ask_failed(container_of(r->asks.next, struct ask, node), ESRCH,
			   "it is ending");
	b->relay = NULL;
	r->box = NULL;
	timer_del(&r->w->loop, &r->again);
	io_close(&r->w->loop, &r->io);
	/* Its groups end it; then it is waited for. */
	if (r->pid_io.fd < 0)
		loop_defer(&r->w->loop, &r->gone, relay_free);
}
