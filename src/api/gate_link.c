/*
 * Messages go out in order. What a door does not take at once waits here; one
 * that takes nothing for long loses its connection, and hears everything when
 * it comes back.
 */
#include "api/gate_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "api/access.h"
#include "api/api.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/privs.h"

enum {
	PAUSE_MIN_MS = 20,
	PAUSE_MAX_MS = 1000,
	IDLE_MS = 20000, /* between looks whether anybody needs a door */
	OUT_MAX = 8192,  /* messages that wait */
	GONE_MAX = 4096,
};

struct out {
	struct list node;
	struct buf text;
	int fds[GATE_FDS_MAX], n_fds;
};

struct gone {
	struct list node;
	char id[ID_CAP];
	bool ended;
};

static void try_connect(struct gate_link *l);
static void on_timer(struct timer *t);
static void ask(struct gate_link *l, struct gate_wait *w);

/* --- sending --- */

static void out_free(struct out *o)
{
	int i;

	for (i = 0; i < o->n_fds; i++)
		auto_close(&o->fds[i]);
	list_del(&o->node);
	buf_done(&o->text);
	free(o);
}

static void drop_out(struct gate_link *l)
{
	struct list *n, *next;

	list_each (n, next, &l->out)
		out_free(container_of(n, struct out, node));
	l->n_out = 0;
}

/* Broken: heard of in the next turn, where nobody is surprised. */
static void give_up(struct gate_link *l)
{
	shutdown(l->io.fd, SHUT_RDWR);
}

static void flush(struct gate_link *l)
{
	struct list *at, *next;

	list_each (at, next, &l->out) {
		struct out *o = container_of(at, struct out, node);
		ssize_t n = send_msg_fds(l->io.fd, buf_data(&o->text),
					 buf_len(&o->text), o->fds, o->n_fds);

		if (n == -EAGAIN)
			break;
		l->n_out--;
		out_free(o);
		if (n < 0) {
			log_warn("door='%s' send: %s", l->door,
				 strerror((int)-n));
			give_up(l);
			return;
		}
	}
	io_set(&l->api->loop, &l->io,
	       EPOLLIN | (list_empty(&l->out) ? 0 : EPOLLOUT));
}

static void put(struct gate_link *l, const struct gate_msg *m, int *fds,
		int n_fds)
{
	struct out *o = xcalloc(1, sizeof(*o));
	int i;

	gate_msg_put(&o->text, m);
	for (i = 0; i < n_fds && i < GATE_FDS_MAX; i++)
		o->fds[i] = take_fd(&fds[i]);
	o->n_fds = i;
	list_add(&l->out, &o->node);
	if (++l->n_out > OUT_MAX)
		give_up(l);
	else
		flush(l);
}

void gate_send(struct gate_link *l, const struct gate_msg *m, int *fds,
	       int n_fds)
{
	int i;

	if (l->io.fd >= 0)
		put(l, m, fds, n_fds);
	for (i = 0; i < n_fds; i++)
		auto_close(&fds[i]);
}

/* --- projects and sandboxes that it knows --- */

static void project_free(struct gate_project *p)
{
	list_del(&p->node);
	free(p->ca);
	free(p);
}

static void drop_projects(struct gate_link *l)
{
	struct list *n, *next;

	list_each (n, next, &l->projects)
		project_free(container_of(n, struct gate_project, node));
}

static struct gate_project *find_project(struct gate_link *l, const char *name)
{
	struct list *n, *next;

	list_each (n, next, &l->projects) {
		struct gate_project *p =
			container_of(n, struct gate_project, node);

		if (strcmp(p->name, name) == 0)
			return p;
	}
	return NULL;
}

struct gate_project *gate_project_get(struct gate_link *l, const char *name)
{
	struct gate_project *p = find_project(l, name);
	const struct gate_msg m = { .kind = GATE_PROJECT, .project = name };

	if (p)
		return p;
	p = xcalloc(1, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "%s", name);
	list_add(&l->projects, &p->node);
	gate_send(l, &m, NULL, 0);
	return p;
}

static void send_gone(struct gate_link *l, const char *id, bool ended)
{
	const struct gate_msg m = { .kind = ended ? GATE_GONE : GATE_MOVED,
				    .id = id };

	gate_send(l, &m, NULL, 0);
}

void gate_forget(struct gate_link *l, const char *id, bool ended)
{
	struct gone *g;

	if (l->ready) {
		send_gone(l, id, ended);
		return;
	}
	if (l->n_gone >= GONE_MAX)
		return;
	g = xcalloc(1, sizeof(*g));
	memcpy(g->id, id, ID_CAP);
	g->ended = ended;
	list_add(&l->gone, &g->node);
	l->n_gone++;
}

static void send_all_gone(struct gate_link *l)
{
	struct list *n, *next;

	list_each (n, next, &l->gone) {
		struct gone *g = container_of(n, struct gone, node);

		send_gone(l, g->id, g->ended);
		gate_box_lost(l, g->id);
		list_del(&g->node);
		free(g);
	}
	l->n_gone = 0;
}

/* --- who waits --- */

void gate_cancel(struct gate_wait *w)
{
	if (!w->fn)
		return;
	w->fn = NULL;
	list_del(&w->node);
	timer_del(&w->api->loop, &w->timer);
}

static void answer(struct gate_wait *w, const struct gate_msg *m,
		   const struct err *e)
{
	gate_wait_fn *fn = w->fn;

	gate_cancel(w);
	fn(w, m, e);
}

static void on_wait_over(struct timer *t)
{
	struct gate_wait *w = container_of(t, struct gate_wait, timer);
	struct err e = { 0 };

	err_set(&e, GATE_AWAY,
		"the gate does not answer: see the daemon's log, or try again");
	answer(w, NULL, &e);
}

static void ask(struct gate_link *l, struct gate_wait *w)
{
	const struct gate_msg m = { .kind = w->kind,
				    .project = w->project,
				    .name = w->name,
				    .number = w->number };

	gate_send(l, &m, NULL, 0);
}

static void wait_for(struct gate_link *l, struct gate_wait *w,
		     enum gate_kind kind, gate_wait_fn *fn)
{
	w->api = l->api;
	w->kind = kind;
	w->number = ++l->api->gates.number;
	w->fn = fn;
	list_add(&l->waits, &w->node);
	timer_set(&l->api->loop, &w->timer, GATE_WAIT_MS, on_wait_over);
	if (l->ready)
		ask(l, w);
}

void gate_sync(struct gate_link *l, struct gate_wait *w, gate_wait_fn *fn)
{
	wait_for(l, w, GATE_SYNC, fn);
}

/* The project's own door: only that one is to have them. */
void gate_keys(struct api *a, const char *project, struct gate_wait *w,
	       gate_wait_fn *fn)
{
	snprintf(w->project, sizeof(w->project), "%s", project);
	wait_for(gate_link_get(a, project), w, GATE_PROJECT, fn);
}

void gate_code(struct api *a, const char *project, const char *name,
	       struct gate_wait *w, gate_wait_fn *fn)
{
	snprintf(w->project, sizeof(w->project), "%s", project);
	snprintf(w->name, sizeof(w->name), "%s", name);
	wait_for(gate_link_get(a, project), w, GATE_CODE, fn);
}

static bool is_answer(const struct gate_wait *w, const struct gate_msg *m)
{
	if (m->kind == GATE_KEYS)
		return w->kind == GATE_PROJECT &&
		       strcmp(w->project, m->project) == 0;
	return w->number == m->number &&
	       w->kind == (m->kind == GATE_CODED ? GATE_CODE : GATE_SYNC);
}

static void take_answer(struct gate_link *l, const struct gate_msg *m)
{
	struct list *n, *next, found;

	/* Who is told may ask again. */
	list_init(&found);
	list_each (n, next, &l->waits) {
		if (!is_answer(container_of(n, struct gate_wait, node), m))
			continue;
		list_del(n);
		list_add(&found, n);
	}
	while (!list_empty(&found))
		answer(container_of(found.next, struct gate_wait, node), m,
		       NULL);
}

/* --- what it says --- */

static void take_keys(struct gate_link *l, const struct gate_msg *m)
{
	struct gate_project *p = find_project(l, m->project);

	if (p && strlen(m->text) <= GATE_CA_MAX) {
		free(p->ca);
		p->ca = xstrdup(m->text);
		gate_boxes_keys(l, p);
	}
	take_answer(l, m);
}

static void take_ready(struct gate_link *l, const struct gate_msg *m)
{
	struct list *n, *next;

	(void)m;
	log_info("door='%s' is there", l->door);
	l->ready = true;
	l->told = false;
	l->pause_ms = PAUSE_MIN_MS;
	timer_set(&l->api->loop, &l->timer, IDLE_MS, on_timer);
	send_all_gone(l);
	approvals_settle(l);
	access_hook(l);
	gate_boxes_ready(l);
	list_each (n, next, &l->waits)
		ask(l, container_of(n, struct gate_wait, node));
}

static void take_have(struct gate_link *l, const struct gate_msg *m)
{
	gate_box_have(l, m->id);
}

static void take_pause(struct gate_link *l, const struct gate_msg *m)
{
	struct sandbox *s = gate_box_of(l, m->id);

	if (s)
		gate_box_pause(s, m->text);
}

static void take_use(struct gate_link *l, const struct gate_msg *m)
{
	struct sandbox *s = gate_box_of(l, m->id);

	if (s)
		egress_count(s, &m->count);
	else
		egress_last(l->api, &l->ends, m->id, &m->count);
}

/* Counters of a sandbox that ended while one of us was away. */
static void take_kept(struct gate_link *l, const struct gate_msg *m)
{
	if (l->api->reconciled && !box_by_id(l->api, m->id) &&
	    !account_is_needed(l->api, m->id))
		send_gone(l, m->id, true);
}

/* A door has the secrets of its own project alone. */
static void take_sealed(struct gate_link *l, const struct gate_msg *m)
{
	if (strcmp(l->door, m->project) == 0)
		gate_secret_sealed(l->api, m);
}

/* What a door may say. */
static void (*const heard[GATE_KINDS])(struct gate_link *l,
				       const struct gate_msg *m) = {
	[GATE_HAVE] = take_have,         [GATE_READY] = take_ready,
	[GATE_KEYS] = take_keys,         [GATE_CODED] = take_answer,
	[GATE_SYNCED] = take_answer,     [GATE_ASK] = approval_asked,
	[GATE_ASK_GONE] = approval_gone, [GATE_PAUSE] = take_pause,
	[GATE_USE] = take_use,           [GATE_SEALED] = take_sealed,
	[GATE_KEPT] = take_kept,
};

static void take(struct gate_link *l, const struct gate_msg *m)
{
	if (heard[m->kind]) {
		heard[m->kind](l, m);
		return;
	}
	log_warn("door='%s' says what is ours to say (%d)", l->door, m->kind);
	give_up(l);
}

/* --- the connection --- */

static void link_free(struct deferred *d)
{
	free(container_of(d, struct gate_link, end));
}

/* Its door ends with the connection, when it serves nobody. */
static void link_end(struct gate_link *l)
{
	io_close(&l->api->loop, &l->io);
	drop_out(l);
	drop_projects(l);
	egress_ends_done(&l->ends);
	list_del(&l->node);
	loop_defer(&l->api->loop, &l->end, link_free);
}

static bool is_idle(const struct gate_link *l)
{
	return *l->door && l->ready && list_empty(&l->boxes) &&
	       list_empty(&l->waits) && list_empty(&l->out) &&
	       !approvals_any(l);
}

static void on_timer(struct timer *t)
{
	struct gate_link *l = container_of(t, struct gate_link, timer);

	if (l->io.fd < 0)
		try_connect(l);
	else if (is_idle(l))
		link_end(l);
	else
		timer_set(&l->api->loop, t, IDLE_MS, on_timer);
}

static void link_down(struct gate_link *l, const char *why)
{
	struct api *a = l->api;

	if (!l->told)
		log_warn("door='%s' %s, trying again", l->door, why);
	l->told = true;
	io_close(&a->loop, &l->io);
	drop_out(l);
	l->ready = false;
	drop_projects(l);
	egress_ends_done(&l->ends);
	timer_set(&a->loop, &l->timer, l->pause_ms, on_timer);
	l->pause_ms =
		l->pause_ms * 2 < PAUSE_MAX_MS ? l->pause_ms * 2 : PAUSE_MAX_MS;
	gate_boxes_lost(l);
	approvals_lost(l);
}

/* One message; false when there is none, or no connection any more. */
static bool take_message(struct gate_link *l)
{
	static char text[GATE_MSG_MAX];
	struct gate_msg m;
	int fds[FD_PASS_MAX], i;
	ssize_t n = recv_msg_fds(l->io.fd, text, sizeof(text), fds);

	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		link_down(l, n < 0 ? strerror((int)-n) : "went away");
		return false;
	}
	for (i = 0; i < FD_PASS_MAX; i++)
		auto_close(&fds[i]);
	if (gate_msg_get(text, (size_t)n, &m) < 0) {
		link_down(l, "speaks another language");
		return false;
	}
	take(l, &m);
	return l->io.fd >= 0;
}

static void on_link(struct io *io, uint32_t events)
{
	struct gate_link *l = container_of(io, struct gate_link, io);

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		while (take_message(l))
			;
	if (l->io.fd >= 0 && (events & EPOLLOUT))
		flush(l);
}

static void try_connect(struct gate_link *l)
{
	const struct gate_msg hello = { .kind = GATE_HELLO, .door = l->door };
	struct api *a = l->api;
	char path[CONF_PATH + 32];
	AUTO_CLOSE int fd = -1;
	int r;

	snprintf(path, sizeof(path), "%s/roles/gate.sock", a->conf.run_dir);
	fd = unix_connect_role(path, SOCK_SEQPACKET | SOCK_NONBLOCK,
			       a->gates.uid);
	r = fd;
	if (fd >= 0)
		r = io_add(&a->loop, &l->io, fd, EPOLLIN, on_link);
	if (r < 0) {
		l->io.fd = -1;
		link_down(l, strerror(-r));
		return;
	}
	(void)take_fd(&fd);
	put(l, &hello, NULL, 0);
}

struct gate_link *gate_link_find(struct api *a, const char *door)
{
	struct list *n, *next;

	list_each (n, next, &a->gates.links) {
		struct gate_link *l = container_of(n, struct gate_link, node);

		if (strcmp(l->door, door) == 0)
			return l;
	}
	return NULL;
}

struct gate_link *gate_link_get(struct api *a, const char *door)
{
	struct gate_link *l = gate_link_find(a, door);

	if (l)
		return l;
	l = xcalloc(1, sizeof(*l));
	l->api = a;
	l->io.fd = -1;
	l->pause_ms = PAUSE_MIN_MS;
	snprintf(l->door, sizeof(l->door), "%s", door);
	list_init(&l->projects);
	list_init(&l->boxes);
	list_init(&l->waits);
	list_init(&l->gone);
	list_init(&l->out);
	list_init(&l->ends.all);
	list_add(&a->gates.links, &l->node);
	/* Before that it would be told to forget what is found in a moment. */
	if (a->reconciled)
		try_connect(l);
	return l;
}

void gates_init(struct api *a)
{
	struct err e = { 0 };
	gid_t gid;

	list_init(&a->gates.links);
	if (privs_find_user(a->conf.gate_user, "gate_user", &a->gates.uid, &gid,
			    &e) < 0)
		log_warn("%s: no sandbox has a way out", e.msg);
}

/*
 * A project whose last secret was removed just before a crash of ours may have
 * a door that still has its sandboxes: it is looked for, and told to let go.
 */
static void find_doors(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (s->gate)
			(void)gate_link_get(a, s->project);
	}
}

void gates_start(struct api *a)
{
	struct list *n, *next;

	if (!a->gates.started)
		find_doors(a);
	a->gates.started = true;
	list_each (n, next, &a->gates.links) {
		struct gate_link *l = container_of(n, struct gate_link, node);

		if (l->io.fd < 0 && l->timer.slot == 0)
			try_connect(l);
	}
}

json_t *gates_json(const struct api *a)
{
	struct list *n, *next;
	int doors = 0, up = 0;

	list_each (n, next, &a->gates.links) {
		doors++;
		up += container_of(n, struct gate_link, node)->ready;
	}
	return json_pack("{s:i, s:i}", "doors", doors, "up", up);
}
