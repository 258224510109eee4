/*
 * Slots: each living sandbox (and worker) has one, and with it a range of ids
 * that no other has. A slot is free again only when its groups are gone, that
 * is when no process with these ids exists. The search goes round, so that a
 * range rests before it is used again.
 *
 * The stock holds parts made ahead in idle time.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "warden/warden.h"

enum { REFILL_MS = 15 };

int slots_init(struct warden *w, struct err *e)
{
	const struct conf *c = &w->conf;

	/* 0 to 65535 are the host's, and the last one is nobody's. */
	if (c->uid_base < 0x10000 || c->uid_base >= UINT32_MAX ||
	    c->uid_count > UINT32_MAX - c->uid_base ||
	    c->uid_count < SLOT_STRIDE)
		return err_set(e, EINVAL,
			       "uid_base and uid_count: %llu ids from %llu on "
			       "are not a range for sandboxes; it lies between "
			       "65536 and 4294967295 and has %d ids for each",
			       (unsigned long long)c->uid_count,
			       (unsigned long long)c->uid_base, SLOT_STRIDE);
	/* All of them, whatever max_sandboxes is now: who lowers it and
	 * restarts keeps what runs. */
	w->n_slots = (unsigned)(c->uid_count / SLOT_STRIDE);
	w->slot_used = xcalloc(w->n_slots, 1);
	return 0;
}

int slot_take(struct warden *w, unsigned *slot, struct err *e)
{
	unsigned i, s;

	for (i = 0; i < w->n_slots; i++) {
		s = (w->next_slot + i) % w->n_slots;
		if (w->slot_used[s])
			continue;
		w->slot_used[s] = 1;
		w->next_slot = (s + 1) % w->n_slots;
		*slot = s;
		return 0;
	}
	return err_set(e, EAGAIN,
		       "no free range of user ids (all %u in use); remove "
		       "sandboxes or raise uid_count",
		       w->n_slots);
}

void slot_mark(struct warden *w, unsigned slot)
{
	if (slot < w->n_slots)
		w->slot_used[slot] = 1;
}

void slot_free(struct warden *w, unsigned slot)
{
	if (slot < w->n_slots)
		w->slot_used[slot] = 0;
}

uint32_t slot_base(const struct warden *w, unsigned slot)
{
	return (uint32_t)(w->conf.uid_base + (uint64_t)slot * SLOT_STRIDE);
}

/* Gives back what a part that failed has left. */
static int lost(struct warden *w, const struct part *p, int r)
{
	if (cgroup_remove(&w->cg, p->slot) == 0)
		slot_free(w, p->slot);
	return r;
}

static int open_new(struct warden *w, enum part_kind kind, struct part *p,
		    struct err *e)
{
	int r;

	*p = PART_NONE;
	r = slot_take(w, &p->slot, e);
	if (r < 0)
		return r;
	p->base = slot_base(w, p->slot);
	r = part_open(&w->cg, kind, p, e);
	return r < 0 ? lost(w, p, r) : 0;
}

int part_take(struct warden *w, enum part_kind kind, struct part *p,
	      struct err *e)
{
	if (kind != PART_WORKER && w->n_stock > 0) {
		*p = w->stock[--w->n_stock];
		return 0;
	}
	return open_new(w, kind, p, e);
}

static unsigned stock_size(const struct warden *w)
{
	return w->conf.spares < STOCK_MAX ? (unsigned)w->conf.spares
					  : STOCK_MAX;
}

/* One part per turn, so that a request never waits for more than one. */
static void refill(struct timer *t)
{
	struct warden *w = container_of(t, struct warden, stock_timer);
	struct err e = { 0 };
	struct part *p;

	if (w->n_stock >= stock_size(w))
		return;
	p = &w->stock[w->n_stock];
	if (open_new(w, PART_SANDBOX, p, &e) < 0)
		goto failed;
	if (part_start(&w->cg, p, &e) < 0 ||
	    part_finish(&w->cg, w->launch.proc_fd, p, &e) < 0) {
		lost(w, p, 0);
		goto failed;
	}
	part_reap(p);
	w->n_stock++;
	timer_set(&w->loop, t, 1, refill);
	return;
failed:
	log_warn("no part made ahead: %s", e.msg);
}

void stock_refill_later(struct warden *w)
{
	if (w->n_stock < stock_size(w))
		timer_set(&w->loop, &w->stock_timer, REFILL_MS, refill);
}

/* At shut-down: unused groups are not left behind. */
void stock_drop(struct warden *w)
{
	while (w->n_stock > 0) {
		struct part *p = &w->stock[--w->n_stock];

		part_close(p);
		if (cgroup_remove(&w->cg, p->slot) < 0)
			log_warn("cgroup b%u left for the next start", p->slot);
	}
}
