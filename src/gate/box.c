#include "gate/box.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "gate/account.h"
#include "gate/budget.h"
#include "gate/door.h"
#include "gate/flow.h"
#include "gate/inject.h"
#include "gate/names.h"
#include "gate/project.h"
#include "gate/self.h"
#include "gate/state.h"

enum { USE_MS = 1000 };

struct list *gate_bucket(struct list *table, const char *id)
{
	uint32_t h = 2166136261;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619;
	return &table[h % GATE_BUCKETS];
}

struct box *box_find(struct gate *g, const char *id)
{
	struct list *n, *next;

	list_each (n, next, gate_bucket(g->boxes, id)) {
		struct box *b = container_of(n, struct box, node);

		if (strcmp(b->id, id) == 0)
			return b;
	}
	return NULL;
}

/* --- how much it uses --- */

static void on_use(struct timer *t)
{
	struct box *b = container_of(t, struct box, use_timer);
	struct gate_msg m = { .kind = GATE_USE, .id = b->id };
	bool changed;

	box_count(b, &m.count);
	changed = memcmp(&m.count, &b->told, sizeof(b->told)) != 0;
	if (changed) {
		gate_tell(b->gate, &m);
		b->told = m.count;
	}
	if (changed || b->n_flows > 0)
		timer_set(&b->gate->loop, t, USE_MS, on_use);
}

/* Something happens: its counters will change. */
static void watch_use(struct box *b)
{
	if (b->use_timer.slot == 0)
		timer_set(&b->gate->loop, &b->use_timer, USE_MS, on_use);
}

/* --- sockets --- */

static void on_proxy(struct io *io, uint32_t events)
{
	struct box *b = container_of(io, struct box, proxy);

	(void)events;
	watch_use(b);
	flows_accept(b, io);
}

static void on_tcp(struct io *io, uint32_t events)
{
	struct box *b = container_of(io, struct box, tcp);

	(void)events;
	watch_use(b);
	flows_accept(b, io);
}

static void on_self(struct io *io, uint32_t events)
{
	(void)events;
	flows_accept(container_of(io, struct box, self), io);
}

static void on_dns(struct io *io, uint32_t events)
{
	struct box *b = container_of(io, struct box, dns);

	(void)events;
	watch_use(b);
	names_read(b, io);
}

static void on_udp(struct io *io, uint32_t events)
{
	struct box *b = container_of(io, struct box, udp);

	(void)events;
	watch_use(b);
	names_read(b, io);
}

/* In the order of enum gate_fd, but for the link between the last two. */
static const struct {
	enum gate_fd bit;
	size_t at;
	io_fn *fn;
} sockets[] = {
	{ GATE_FD_PROXY, offsetof(struct box, proxy), on_proxy },
	{ GATE_FD_DNS, offsetof(struct box, dns), on_dns },
	{ GATE_FD_TCP, offsetof(struct box, tcp), on_tcp },
	{ GATE_FD_UDP, offsetof(struct box, udp), on_udp },
	{ GATE_FD_SELF, offsetof(struct box, self), on_self },
};

static struct io *socket_at(struct box *b, size_t i)
{
	return (struct io *)((char *)b + sockets[i].at);
}

bool box_has_sockets(const struct box *b)
{
	return b->proxy.fd >= 0 || b->tcp.fd >= 0;
}

/* Until then connections wait in the kernel. */
static void listen_if_ready(struct box *b)
{
	size_t i;
	int r;

	b->listens = b->project->ready && b->state && b->account->state;
	if (!b->listens)
		return;
	for (i = 0; i < ARRAY_LEN(sockets); i++) {
		struct io *io = socket_at(b, i);

		if (io->fd < 0 || io->armed)
			continue;
		r = io_add(&b->gate->loop, io, io->fd, EPOLLIN, sockets[i].fn);
		if (r < 0)
			log_err("watch a socket of %s: %s", b->id,
				strerror(-r));
	}
}

/* As many as the message says, no more. */
static int check_fds(const struct gate_msg *m, const int *fds)
{
	int i, n = __builtin_popcount(m->fds);

	for (i = 0; i < FD_PASS_MAX; i++)
		if ((fds[i] >= 0) != (i < n))
			return -EBADMSG;
	return 0;
}

static void take_sockets(struct box *b, const struct gate_msg *m, int *fds)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(sockets); i++) {
		struct io *io = socket_at(b, i);

		if (sockets[i].bit > GATE_FD_LINK && (m->fds & GATE_FD_LINK)) {
			auto_close(&b->link_fd);
			b->link_fd = take_fd(fds++);
		}
		if (!(m->fds & sockets[i].bit))
			continue;
		io_close(&b->gate->loop, io);
		io->fd = take_fd(fds++);
	}
	if (m->fds)
		b->full = false;
}

/* --- policies --- */

static void parts_free(struct box_part *parts, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		policy_done(&parts[i].policy);
	free(parts);
}

/* The number of them; 0 when one cannot be read: then nothing passes. */
static unsigned parse_parts(struct box_part *parts, const struct gate_msg *m)
{
	struct err e = { 0 };
	unsigned i;
	int r = 0;

	for (i = 0; i < m->n_parts && r == 0; i++) {
		const struct gate_part *p = &m->parts[i];

		r = str_copy(parts[i].name, sizeof(parts[i].name), p->name);
		if (r == 0)
			r = policy_parse(&parts[i].policy, p->text,
					 strlen(p->text), &e);
		if (r < 0)
			log_err("sandbox %s: %s: %s: everything is denied",
				m->id, p->name, e.msg);
	}
	if (r == 0)
		return m->n_parts;
	while (i-- > 0)
		policy_done(&parts[i].policy);
	return 0;
}

static void take_uses(struct box *b, const struct gate_msg *m)
{
	unsigned i;

	memset(b->uses, 0, sizeof(b->uses));
	for (i = 0; i < m->n_uses; i++) {
		struct box_use *u = &b->uses[i];

		/* The codec has looked at the lengths. */
		if (str_copy(u->name, sizeof(u->name), m->uses[i].name) < 0 ||
		    str_copy(u->placeholder, sizeof(u->placeholder),
			     m->uses[i].placeholder) < 0)
			break;
		u->canary = m->uses[i].canary;
	}
	b->n_uses = i;
	inject_uses(b);
}

/* What is open now is decided again before the rules of before go. */
static void take_rules(struct box *b, const struct gate_msg *m)
{
	struct box_part *old = b->parts;
	unsigned n_old = b->n_parts;

	b->parts = xcalloc(m->n_parts + 1, sizeof(*b->parts));
	b->n_parts = parse_parts(b->parts, m);
	b->flags = m->flags;
	if (b->n_parts < m->n_parts)
		b->flags &= ~(uint32_t)GATE_OBSERVE;
	b->ask_ms = m->ask_ms;
	take_uses(b, m);
	b->generation++;
	flows_review(b);
	parts_free(old, n_old);
}

/* --- life --- */

static struct box *box_new(struct gate *g, const struct gate_msg *m)
{
	struct box *b = xcalloc(1, sizeof(*b));
	size_t i;

	b->gate = g;
	b->project = project_get(g, m->project);
	memcpy(b->id, m->id, strlen(m->id) + 1);
	for (i = 0; i < ARRAY_LEN(sockets); i++)
		socket_at(b, i)->fd = -1;
	b->link_fd = -1;
	list_init(&b->flows);
	list_add(gate_bucket(g->boxes, b->id), &b->node);
	account_join(b, m->account);
	/* The account's answer serves both if it has this id. */
	if (strcmp(m->account, b->id) != 0 || b->account->state)
		keeper_ask(g, WITHIN_STATE, b->id);
	return b;
}

int box_apply(struct gate *g, const struct gate_msg *m, int *fds)
{
	struct box *b = box_find(g, m->id);

	if (!project_is_ours(g, m->project) || check_fds(m, fds) < 0 ||
	    (b && (strcmp(b->project->name, m->project) != 0 ||
		   strcmp(b->account->id, m->account) != 0)))
		return -EBADMSG;
	if (!b && m->fds == 0) {
		log_warn("sandbox %s has no sockets", m->id);
		return 0;
	}
	if (!b)
		b = box_new(g, m);
	if (str_copy(b->name, sizeof(b->name), m->name) < 0)
		return -EBADMSG;
	take_sockets(b, m, fds);
	take_rules(b, m);
	listen_if_ready(b);
	return 0;
}

void box_state_came(struct box *b, int fd)
{
	struct err e = { 0 };

	if (b->state)
		return;
	if (fd >= 0)
		b->state = state_map(fd, b->id, &e);
	if (!b->state) {
		log_err("sandbox %s has no state, its door stays shut: %s",
			b->id, e.msg);
		return;
	}
	box_count(b, &b->told);
	listen_if_ready(b);
}

void boxes_account_came(struct account *x, int fd)
{
	struct list *n, *next;

	account_state_came(x, fd);
	list_each (n, next, &x->boxes)
		listen_if_ready(container_of(n, struct box, in_account));
}

void box_project_changed(struct box *b)
{
	flows_review(b);
	listen_if_ready(b);
}

static void box_free(struct deferred *d)
{
	struct box *b = container_of(d, struct box, gone);

	inject_forget(b);
	budget_forget(b);
	self_forget(b);
	parts_free(b->parts, b->n_parts);
	account_leave(b);
	state_unmap(b->state);
	sodium_memzero(b, sizeof(*b));
	free(b);
}

void box_end(struct box *b)
{
	struct gate_msg m = { .kind = GATE_USE, .id = b->id };
	size_t i;

	flows_end(b);
	box_count(b, &m.count);
	if (memcmp(&m.count, &b->told, sizeof(b->told)) != 0)
		gate_tell(b->gate, &m);
	timer_del(&b->gate->loop, &b->use_timer);
	for (i = 0; i < ARRAY_LEN(sockets); i++)
		io_close(&b->gate->loop, socket_at(b, i));
	auto_close(&b->link_fd);
	list_del(&b->node);
	loop_defer(&b->gate->loop, &b->gone, box_free);
}
