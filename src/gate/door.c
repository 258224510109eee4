#include "gate/door.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "gate/account.h"
#include "gate/ask.h"
#include "gate/ask_hook.h"
#include "gate/box.h"
#include "gate/inject.h"
#include "gate/leaf.h"
#include "gate/oauth.h"
#include "gate/project.h"
#include "gate/record.h"
#include "gate/resolve.h"
#include "gate/self.h"

/* --- to the keeper --- */

void keeper_ask(struct gate *g, enum within_op op, const char *name)
{
	struct within_msg m = { .op = op, .name = name };
	AUTO(buf_done) struct buf b = { 0 };

	within_put(&b, &m);
	if (outbox_send(&g->to_keeper, buf_data(&b), buf_len(&b), NULL, 0) < 0)
		g->loop.stop = true;
}

/* --- to the api --- */

static void api_close(struct gate *g)
{
	io_close(&g->loop, &g->api);
	outbox_clear(&g->to_api);
}

void gate_tell(struct gate *g, const struct gate_msg *m)
{
	AUTO(buf_done) struct buf b = { 0 };
	int r;

	if (g->api.fd < 0)
		return;
	gate_msg_put(&b, m);
	r = outbox_send(&g->to_api, buf_data(&b), buf_len(&b), NULL, 0);
	if (r < 0) {
		log_warn("the api does not listen: %s", strerror(-r));
		api_close(g);
	}
}

static void tell_have(struct gate *g)
{
	struct list *n, *next;
	size_t i;

	for (i = 0; i < GATE_BUCKETS; i++)
		list_each (n, next, &g->boxes[i]) {
			struct box *b = container_of(n, struct box, node);
			struct gate_msg m = { .kind = GATE_HAVE, .id = b->id };

			if (box_has_sockets(b))
				gate_tell(g, &m);
		}
}

/* --- from the api --- */

static void say_code(struct gate *g, const struct gate_msg *m)
{
	struct project *p = project_get(g, m->project);
	struct gate_msg answer = { .kind = GATE_CODED, .number = m->number };
	char code[TOTP_CAP] = "";
	struct err e = { 0 };

	if (oauth_check(p, m->name, m->number))
		return;
	if (totp_code_of(p, m->name, code, &e) < 0)
		code[0] = '\0';
	answer.name = code;
	answer.text = e.msg;
	gate_tell(g, &answer);
	sodium_memzero(code, sizeof(code));
}

static void box_goes(struct gate *g, const char *id, bool for_good)
{
	struct box *b = box_find(g, id);

	if (b)
		box_end(b);
	if (for_good)
		keeper_ask(g, WITHIN_DROP, id);
}

static int of_project(struct gate *g, const struct gate_msg *m)
{
	struct project *p;

	if (!project_is_ours(g, m->project))
		return -EBADMSG;
	p = project_get(g, m->project);
	switch ((int)m->kind) {
	case GATE_PROJECT:
		project_want_keys(p);
		return 0;
	case GATE_SECRET:
		return project_secret(p, m->number, m->bytes, m->n_bytes);
	case GATE_SECRET_GONE:
		project_secret_gone(p, m->name);
		return 0;
	default:
		say_code(g, m);
		return 0;
	}
}

static int api_message(struct gate *g, const struct gate_msg *m, int *fds)
{
	const struct gate_msg synced = { .kind = GATE_SYNCED,
					 .number = m->number };

	switch ((int)m->kind) {
	case GATE_PROJECT:
	case GATE_SECRET:
	case GATE_SECRET_GONE:
	case GATE_CODE:
		return of_project(g, m);
	case GATE_BOX:
		return box_apply(g, m, fds);
	case GATE_GONE:
	case GATE_MOVED:
		box_goes(g, m->id, m->kind == GATE_GONE);
		return 0;
	case GATE_ANSWER:
		ask_answer(g, m->number, m->allow);
		return 0;
	case GATE_SHOWN:
		ask_shown(g, m->number, m->shown);
		return 0;
	case GATE_SELF:
		return self_apply(g, m);
	case GATE_HOOK:
		ask_hook(g, m->text);
		return 0;
	case GATE_SYNC:
		projects_settle(g);
		gate_tell(g, &synced);
		return 0;
	default:
		return -EBADMSG;
	}
}

/* Nobody is served, and nobody knows of us: who needs us has us started. */
static bool is_idle(const struct gate *g)
{
	size_t i;

	for (i = 0; i < GATE_BUCKETS; i++)
		if (!list_empty(&g->boxes[i]))
			return false;
	return *g->door && g->api.fd < 0;
}

static void close_all(int *fds)
{
	int i;

	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]);
}

/* One message; false when there is none, or nobody who sends them. */
static bool api_read(struct gate *g)
{
	static char raw[GATE_MSG_MAX];
	static struct gate_msg m;
	int fds[FD_PASS_MAX], r;
	ssize_t n = recv_msg_fds(g->api.fd, raw, sizeof(raw), fds);

	if (n == -EAGAIN)
		return false;
	r = n <= 0 ? -EPIPE : gate_msg_get(raw, (size_t)n, &m);
	if (r == 0)
		r = api_message(g, &m, fds);
	close_all(fds);
	if (r < 0) {
		if (n < 0)
			log_warn(
				"read from the api: %s, closing its connection",
				strerror((int)-n));
		else if (n > 0)
			log_err("a message that is not one (kind %d), closing "
				"the api's connection",
				(int)m.kind);
		api_close(g);
		g->loop.stop |= is_idle(g);
	}
	return g->api.fd >= 0;
}

static void on_api(struct io *io, uint32_t events)
{
	struct gate *g = container_of(io, struct gate, api);

	if ((events & EPOLLOUT) && outbox_flush(&g->to_api) < 0) {
		api_close(g);
		return;
	}
	/* A bounded number at a time: sandboxes have their turn too. */
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		for (int i = 0; i < 64 && api_read(g); i++)
			;
}

/* The newest connection is the api's. */
static void api_came(struct gate *g, int fd)
{
	struct gate_msg ready = { .kind = GATE_READY };

	api_close(g);
	if (io_add(&g->loop, &g->api, fd, EPOLLIN, on_api) < 0) {
		api_close(g);
		return;
	}
	g->round++;
	tell_have(g);
	asks_tell(g);
	gate_tell(g, &ready);
}

/* --- from the keeper --- */

static void keys_came(struct gate *g, const struct within_msg *m)
{
	if (project_is_ours(g, m->name))
		project_keys_came(project_get(g, m->name), m);
}

static void state_came(struct gate *g, const char *id, int fd)
{
	struct account *x = account_find(g, id);
	struct box *b = box_find(g, id);

	if (x)
		boxes_account_came(x, fd);
	if (b)
		box_state_came(b, fd);
}

/* Perhaps nobody's: the api may have been away when it ended. */
static void tell_kept(struct gate *g, const char *id)
{
	struct gate_msg m = { .kind = GATE_KEPT, .id = id };

	if (!box_find(g, id) && !account_find(g, id))
		gate_tell(g, &m);
}

static int keeper_message(struct gate *g, const struct within_msg *m, int *fds)
{
	struct err e = { 0 };

	switch (m->op) {
	case WITHIN_CONN:
		if (fds[0] < 0)
			return -EBADMSG;
		api_came(g, take_fd(&fds[0]));
		return 0;
	case WITHIN_RESOLV:
		if (resolver_set(g, m->one, m->two, &e) < 0)
			log_err("%s", e.msg);
		return 0;
	case WITHIN_KEYS:
		keys_came(g, m);
		return 0;
	case WITHIN_STATE:
		state_came(g, m->name, fds[0]);
		return 0;
	case WITHIN_KEPT:
		tell_kept(g, m->name);
		return 0;
	case WITHIN_DOOR:
	case WITHIN_DROP:
	case WITHIN_OPS:
		break;
	}
	return -EBADMSG;
}

static bool keeper_read(struct gate *g)
{
	static char raw[WITHIN_MSG_MAX];
	struct within_msg m;
	int fds[FD_PASS_MAX], r;
	ssize_t n = recv_msg_fds(g->keeper.fd, raw, sizeof(raw), fds);

	if (n == -EAGAIN)
		return false;
	r = n <= 0 ? -EPIPE : within_get(raw, (size_t)n, &m);
	if (r == 0)
		r = keeper_message(g, &m, fds);
	close_all(fds);
	if (n > 0)
		sodium_memzero(raw, (size_t)n);
	if (r < 0)
		g->loop.stop = true;
	return r == 0;
}

static void on_keeper(struct io *io, uint32_t events)
{
	struct gate *g = container_of(io, struct gate, keeper);

	if ((events & EPOLLOUT) && outbox_flush(&g->to_keeper) < 0)
		g->loop.stop = true;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		while (keeper_read(g))
			;
}

/* --- start and end --- */

static void on_signal(struct io *io, uint32_t events)
{
	(void)events;
	container_of(io, struct gate, signals)->loop.stop = true;
}

/* The starter has blocked them. */
static int catch_signals(struct gate *g)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	return io_add(&g->loop, &g->signals, fd, EPOLLIN, on_signal);
}

static int start(struct gate *g, int link_fd, int spool_fd, struct err *e)
{
	size_t i;
	int r;

	for (i = 0; i < GATE_BUCKETS; i++) {
		list_init(&g->boxes[i]);
		list_init(&g->accounts[i]);
	}
	list_init(&g->projects);
	g->api.fd = -1;
	outbox_init(&g->to_api, &g->loop, &g->api);
	outbox_init(&g->to_keeper, &g->loop, &g->keeper);
	r = loop_init(&g->loop);
	if (r == 0)
		r = catch_signals(g);
	if (r == 0)
		r = io_add(&g->loop, &g->keeper, link_fd, EPOLLIN, on_keeper);
	if (r < 0)
		return err_set(e, -r, "event loop: %s", strerror(-r));
	if (leaves_new(&g->leaves, e) < 0 ||
	    recorder_new(&g->record, g, spool_fd, e) < 0)
		return -e->code;
	return 0;
}

static void stop(struct gate *g)
{
	struct list *n, *next;
	size_t i;

	for (i = 0; i < GATE_BUCKETS; i++)
		list_each (n, next, &g->boxes[i])
			box_end(container_of(n, struct box, node));
	api_close(g);
	outbox_clear(&g->to_keeper);
	io_close(&g->loop, &g->keeper);
	io_close(&g->loop, &g->signals);
	resolver_free(g->resolver);
	recorder_free(g->record);
	loop_done(&g->loop);
	projects_done(g);
	leaves_free(g->leaves);
}

int door_run(struct gate *g, int link_fd, int spool_fd)
{
	static char label[NAME_CAP + 8];
	struct err e = { 0 };
	int r;

	snprintf(label, sizeof(label), "door%s%s", *g->door ? "=" : "",
		 g->door);
	log_init(label, conf_log_level(g->conf));
	if (start(g, link_fd, spool_fd, &e) < 0)
		die("%s", e.msg);
	r = loop_run(&g->loop);
	stop(g);
	return r < 0;
}
