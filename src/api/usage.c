#include "api/usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/samples.h"
#include "base/clock.h"
#include "registry/gate.h"

enum {
	FLUSH_MS = 30000,
	FLUSH_ENDED_MS = 1000,
	UPKEEP_MS = 3600 * 1000,
	FIRST_LOOK_MS = 30000, /* to twice that: many are made at once */
	PENDING_MAX = 10000,   /* ended ones that the disk does not take */
	ROWS_MAX = 100000,     /* ended ones with a row each */
};

/* A sandbox that is gone, on its way into the ledger. */
struct closed {
	struct list node;
	char id[ID_CAP], project[NAME_CAP], account[ID_CAP];
	struct usage_row row;
};

/* --- the ledger --- */

static struct usage_row row_of(const struct sandbox *s)
{
	return (struct usage_row){
		.sandbox = s->id,
		.project = s->project,
		.cpu_us = s->meter.last.cpu_us,
		.mem_byte_s = s->meter.mem_byte_s,
		.disk_byte_s = s->meter.disk_byte_s,
		.output_bytes = s->output_bytes,
		.started_ms = s->created_ms,
		.updated_ms = clock_wall_ms(),
		.account = s->account->id,
	};
}

static int put_rows(struct api *a, struct err *e)
{
	struct list *n, *next;
	int r = 0;

	list_each (n, next, &a->ledger.ended) {
		r = registry_usage_put(
			&a->registry,
			&container_of(n, struct closed, node)->row, e);
		if (r < 0)
			return r;
	}
	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);
		struct usage_row row = row_of(s);

		if (s->meter.dirty)
			r = registry_usage_put(&a->registry, &row, e);
		if (r == 0)
			r = egress_save(s, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static void written(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->ledger.ended) {
		list_del(n);
		free(container_of(n, struct closed, node));
	}
	a->ledger.n_ended = 0;
	list_each (n, next, &a->boxes.all)
		container_of(n, struct sandbox, all)->meter.dirty = false;
}

static void on_flush(struct timer *t)
{
	ledger_flush(container_of(t, struct api, ledger.flush));
}

static void flush_in(struct api *a, uint64_t ms)
{
	struct timer *t = &a->ledger.flush;

	if (t->slot == 0 || t->at_ms > clock_boot_ms() + ms)
		timer_set(&a->loop, t, ms, on_flush);
}

void ledger_flush(struct api *a)
{
	struct err e = { 0 };
	int r = registry_begin(&a->registry, &e);

	if (r == 0)
		r = registry_end(&a->registry, put_rows(a, &e), &e);
	if (r == 0) {
		written(a);
	} else {
		log_err("usage: %s, trying again", e.msg);
		flush_in(a, FLUSH_MS);
	}
	api_registry_touched(a);
}

static void on_upkeep(struct timer *t)
{
	struct api *a = container_of(t, struct api, ledger.upkeep);
	struct err e = { 0 };

	ledger_flush(a);
	if (registry_usage_fold(&a->registry, ROWS_MAX, &e) < 0 ||
	    registry_egress_prune(&a->registry, &e) < 0)
		log_err("usage: %s, ignoring", e.msg);
	replays_prune(a);
	api_registry_touched(a);
	timer_set(&a->loop, t, UPKEEP_MS, on_upkeep);
}

void ledger_init(struct api *a)
{
	list_init(&a->ledger.ended);
}

int ledger_start(struct api *a, struct err *e)
{
	timer_set(&a->loop, &a->ledger.upkeep, UPKEEP_MS, on_upkeep);
	return registry_usage_close(&a->registry, e);
}

/* --- meters --- */

static uint64_t byte_seconds(uint64_t bytes, uint64_t ms)
{
	unsigned __int128 v = (unsigned __int128)bytes * ms / 1000;

	return v > INT64_MAX / 2 ? INT64_MAX / 2 : (uint64_t)v;
}

static void add_to(uint64_t *sum, uint64_t v)
{
	*sum = *sum > INT64_MAX - v ? INT64_MAX : *sum + v;
}

/* What was used up to now, as if it had been so since the last time. */
static void add_up(struct sandbox *s, const struct sandbox_use *u)
{
	struct meter *m = &s->meter;
	uint64_t now = clock_boot_ms(), passed = now - m->at_ms;
	uint64_t cpu_us;

	/* Of an earlier life of ours, which may have seen one of its. */
	if (!m->fresh && u->cpu_us < m->last.cpu_us)
		m->before_us = m->last.cpu_us - u->cpu_us;
	cpu_us = m->before_us + u->cpu_us;
	if (cpu_us < m->last.cpu_us)
		cpu_us = m->last.cpu_us;
	add_to(&m->mem_byte_s, byte_seconds(u->mem_bytes, passed));
	add_to(&m->disk_byte_s, byte_seconds(u->disk_bytes, passed));
	s->account->cpu_us += cpu_us - m->last.cpu_us;
	m->last = *u;
	m->last.cpu_us = cpu_us;
	m->at_ms = now;
	m->fresh = m->dirty = true;
}

void meter_add(struct sandbox *s, const struct sandbox_use *u)
{
	if (s->meter.at_ms == 0 || s->meter.stopped)
		return;
	add_up(s, u);
	samples_note(s);
	flush_in(s->api, FLUSH_MS);
	lifetime_check(s);
}

static void on_figures(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX])
{
	struct sandbox *s = container_of(c, struct sandbox, meter.call);

	(void)fds;
	if (rep->err.code == 0)
		meter_add(s, &rep->use);
	if (s->state != BOX_ENDING)
		meter_plan(s);
}

static void on_look(struct timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, meter.timer);
	struct meter *m = &s->meter;

	if (m->call.busy)
		return;
	warden_req_id(&m->call, WARDEN_STAT, s->id);
	warden_ask(&s->api->warden, &m->call, on_figures);
}

void meter_touch(struct sandbox *s)
{
	flush_in(s->api, FLUSH_MS);
}

/* On whole seconds, so that one turn of the loop serves many. */
static void look_in(struct sandbox *s, uint64_t wait_ms)
{
	uint64_t step = wait_ms >= 2000 ? 1000 : 50, now = clock_boot_ms();
	uint64_t at = (now + wait_ms + step - 1) / step * step;

	timer_set(&s->api->loop, &s->meter.timer, at - now, on_look);
}

void meter_plan(struct sandbox *s)
{
	if (s->meter.at_ms > 0 && !s->meter.stopped)
		look_in(s, lifetime_wait_ms(s));
}

/* While it had no processes it had a disk. */
static void count_disk(struct meter *m)
{
	if (m->stopped && m->at_ms > 0)
		add_to(&m->disk_byte_s,
		       byte_seconds(m->last.disk_bytes,
				    clock_boot_ms() - m->at_ms));
}

void meter_start(struct sandbox *s)
{
	uint64_t wait = lifetime_wait_ms(s);

	count_disk(&s->meter);
	s->account->counted = true;
	s->meter.stopped = false;
	s->meter.at_ms = clock_boot_ms();
	s->meter.dirty = true;
	if (wait > FIRST_LOOK_MS)
		wait = FIRST_LOOK_MS + s->asked_us % FIRST_LOOK_MS;
	look_in(s, wait);
}

void meter_resume(struct sandbox *s)
{
	struct meter *m = &s->meter;
	uint64_t wall = clock_wall_ms(), away = 0;
	struct usage_row row = { 0 };
	struct err e = { 0 };
	int r = registry_usage_get(&s->api->registry, s->id, &row, &e);

	if (r < 0)
		log_err("sandbox=%s %s, counting from 0", s->id, e.msg);
	if (r == 1) {
		m->last.cpu_us = row.cpu_us;
		m->mem_byte_s = row.mem_byte_s;
		m->disk_byte_s = row.disk_byte_s;
		s->output_bytes = row.output_bytes;
		away = wall > row.updated_ms ? wall - row.updated_ms : 0;
	}
	account_resume(s->account);
	meter_start(s);
	m->at_ms -= away < m->at_ms ? away : 0;
	/* A budget may have been used up while nobody looked. */
	look_in(s, 0);
}

void meter_stop(struct sandbox *s, const struct sandbox_use *last)
{
	struct meter *m = &s->meter;

	timer_del(&s->api->loop, &m->timer);
	warden_cancel(&m->call);
	if (m->stopped)
		return;
	if (last && m->at_ms > 0) {
		struct sandbox_use u = *last;

		u.disk_bytes = m->last.disk_bytes;
		add_up(s, &u);
		flush_in(s->api, FLUSH_ENDED_MS);
	}
	m->before_us = m->last.cpu_us;
	m->last.mem_bytes = m->last.pids = 0;
	if (m->at_ms == 0)
		m->at_ms = clock_boot_ms();
	m->fresh = m->stopped = true;
}

void meter_end(struct sandbox *s, const struct sandbox_use *last)
{
	struct api *a = s->api;
	struct meter *m = &s->meter;
	struct closed *c;
	struct err e = { 0 };

	timer_del(&a->loop, &m->timer);
	warden_cancel(&m->call);
	if (egress_save(s, &e) < 0)
		log_err("sandbox=%s %s, ignoring", s->id, e.msg);
	if (m->at_ms == 0)
		return;
	if (last && !m->stopped) {
		struct sandbox_use u = *last;

		u.disk_bytes = m->last.disk_bytes;
		add_up(s, &u);
	}
	count_disk(m);
	m->at_ms = 0;
	m->dirty = false;
	if (a->ledger.n_ended >= PENDING_MAX)
		return;
	c = xcalloc(1, sizeof(*c));
	memcpy(c->id, s->id, ID_CAP);
	memcpy(c->project, s->project, sizeof(c->project));
	c->row = row_of(s);
	c->row.sandbox = c->id;
	c->row.project = c->project;
	memcpy(c->account, s->account->id, ID_CAP);
	c->row.account = c->account;
	c->row.ended_ms = c->row.updated_ms;
	list_add(&a->ledger.ended, &c->node);
	a->ledger.n_ended++;
	flush_in(a, FLUSH_ENDED_MS);
}
