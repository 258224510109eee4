#include "api/lifetime.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "base/clock.h"

enum {
	/* Less processor time than this in a second, a hundredth of it, is no
	 * work: what ticks inside a program that waits. */
	IDLE_US_PER_S = 10000,
	LOOK_MIN_MS = 100,
	LOOK_MAX_MS = 60000,
	/* One that is paused uses nothing; but its memory is taken back. */
	LOOK_RECLAIMED_MS = 10000,
	LOOK_PAUSED_MS = 600000,
	IDLE_LOOKS = 4, /* in the time after which it ends */
	/* Until it is in a state to be paused; until a pause that failed is
	 * tried again. */
	SLEEP_BUSY_MS = 2000,
	SLEEP_RETRY_MS = 30000,
};

void box_reason(struct sandbox *s, const char *fmt, ...)
{
	va_list ap;

	if (*s->reason)
		return;
	va_start(ap, fmt);
	vsnprintf(s->reason, sizeof(s->reason), fmt, ap);
	va_end(ap);
}

static void note_limit(struct sandbox *s, const char *limit)
{
	audit_add(s->api, &(struct audit){
				  .type = "limit.reached",
				  .box = s,
				  .data = json_pack("{s:s, s:s}", "limit",
						    limit, "reason", s->reason),
			  });
}

void box_over(struct sandbox *s, const char *limit)
{
	if (s->state == BOX_ENDING)
		return;
	log_info("sandbox=%s %s, removing it", s->id, s->reason);
	note_limit(s, limit);
	box_abort(s, ETIMEDOUT, s->reason);
}

void box_give_up(struct sandbox *s, const char *limit)
{
	if (!s->told || (!s->spec.persist && !s->restart.move) ||
	    s->state == BOX_ENDING) {
		box_over(s, limit);
		return;
	}
	log_info("sandbox=%s %s, ending it", s->id, s->reason);
	note_limit(s, limit);
	warden_chore(&s->api->warden, WARDEN_GIVE_UP, s->id);
}

static void on_deadline(struct timer *t);

/* Only one that does not end has a time that stops. */
static bool outlives(const struct sandbox *s)
{
	return !s->transient && strcmp(s->spec.timeout_action, "remove") != 0;
}

static bool sleeps(const struct sandbox *s)
{
	return s->state == BOX_PAUSED || s->state == BOX_SUSPENDED;
}

static void save(struct sandbox *s)
{
	struct err e = { 0 };

	if (s->told && box_save(s, &e) < 0)
		log_warn("sandbox=%s %s, ignoring", s->id, e.msg);
}

void lifetime_asleep(struct sandbox *s)
{
	if (!outlives(s) || s->deadline_boot_ms == 0)
		return;
	timer_del(&s->api->loop, &s->deadline);
	s->deadline_boot_ms = s->deadline_wall_ms = 0;
	save(s);
}

void lifetime_awake(struct sandbox *s)
{
	if (!outlives(s) || s->deadline_boot_ms > 0 || s->spec.timeout_ms == 0)
		return;
	lifetime_start(s);
	save(s);
}

void lifetime_changed(struct sandbox *s, bool timeout)
{
	if (timeout || sleeps(s))
		lifetime_start(s);
	if (sleeps(s))
		lifetime_asleep(s);
}

/* A microVM that is paused has its memory on disk. */
static void fall_asleep(struct sandbox *s, const char *action, const char *why)
{
	bool pause = strcmp(action, "pause") == 0;
	struct err e = { 0 };

	if (pause && !spec_is_vm(&s->spec)) {
		box_pause_because(s, why);
		return;
	}
	if (box_suspend(s, !pause, NULL, &e) < 0) {
		box_touch(s);
		log_warn("sandbox=%s %s, trying again", s->id, e.msg);
	} else {
		audit_add(s->api,
			  &(struct audit){
				  .type = "sandbox.suspend",
				  .box = s,
				  .data = json_pack("{s:s}", "reason", why) });
	}
}

/* Now, or when it is in a state for it. */
static void put_to_sleep(struct sandbox *s)
{
	bool busy = s->state != BOX_RUNNING || s->pause.call.busy ||
		    s->restart.busy;

	if (sleeps(s)) {
		lifetime_asleep(s);
		return;
	}
	timer_set(&s->api->loop, &s->deadline,
		  busy ? SLEEP_BUSY_MS : SLEEP_RETRY_MS, on_deadline);
	if (busy)
		return;
	log_info("sandbox=%s its time is over, timeout-action=%s", s->id,
		 s->spec.timeout_action);
	fall_asleep(s, s->spec.timeout_action, "timeout");
}

static void on_deadline(struct timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, deadline);

	if (s->state == BOX_ENDING)
		return;
	if (outlives(s)) {
		put_to_sleep(s);
		return;
	}
	box_reason(s, "its time is over: timeout of %.10g s",
		   (double)s->spec.timeout_ms / 1000);
	box_over(s, "timeout");
}

void lifetime_start(struct sandbox *s)
{
	timer_del(&s->api->loop, &s->deadline);
	s->deadline_boot_ms = s->deadline_wall_ms = 0;
	if (s->spec.timeout_ms == 0 ||
	    (s->state == BOX_LAUNCHING && spec_is_vm(&s->spec)))
		return;
	s->deadline_boot_ms = clock_boot_ms() + s->spec.timeout_ms;
	s->deadline_wall_ms = clock_wall_ms() + s->spec.timeout_ms;
	timer_set(&s->api->loop, &s->deadline, s->spec.timeout_ms, on_deadline);
}

static void cap_deadline(struct sandbox *s)
{
	uint64_t now = clock_boot_ms(), at = s->heir_boot_ms;

	if (at == 0 || outlives(s) || s->deadline_boot_ms <= at)
		return;
	s->deadline_wall_ms = s->heir_wall_ms;
	s->deadline_boot_ms = at;
	timer_set(&s->api->loop, &s->deadline, at > now ? at - now : 0,
		  on_deadline);
}

void lifetime_inherit(struct sandbox *s, const struct sandbox *from)
{
	if (outlives(from))
		return;
	s->heir_boot_ms = from->deadline_boot_ms;
	s->heir_wall_ms = from->deadline_wall_ms;
	cap_deadline(s);
}

void lifetime_ready(struct sandbox *s)
{
	if (!spec_is_vm(&s->spec))
		return;
	lifetime_start(s);
	cap_deadline(s);
	save(s);
}

void lifetime_resume(struct sandbox *s)
{
	uint64_t now = clock_boot_ms(), at = s->deadline_boot_ms;

	if (at > 0)
		timer_set(&s->api->loop, &s->deadline, at > now ? at - now : 0,
			  on_deadline);
}

static bool is_attached(const struct sandbox *s)
{
	return agent_has_clients(&s->agent) || s->n_ports > 0;
}

uint64_t box_idle_ms(const struct sandbox *s)
{
	uint64_t now = clock_boot_ms();

	return is_attached(s) || now < s->active_ms ? 0 : now - s->active_ms;
}

/* Where virtualization is slow, the ticks of an idle guest cost more, too. */
static uint64_t idle_us_per_s(const struct sandbox *s)
{
	uint64_t factor = s->api->conf.microvm_patience;

	return IDLE_US_PER_S *
	       (spec_is_vm(&s->spec) && factor > 1 ? factor : 1);
}

/* A sandbox that worked since the last look, or has a client, was active. */
static void note_activity(struct sandbox *s)
{
	struct meter *m = &s->meter;
	uint64_t now = clock_boot_ms(), passed = now - m->mark_ms;
	uint64_t used = m->last.cpu_us - m->mark_us;

	if (is_attached(s) ||
	    (m->mark_ms > 0 && used * 1000 > passed * idle_us_per_s(s)))
		box_touch(s);
	m->mark_us = m->last.cpu_us;
	m->mark_ms = now;
}

static bool budget_used(const struct sandbox *s)
{
	return s->spec.cpu_budget_ms > 0 &&
	       s->account->cpu_us / 1000 >= s->spec.cpu_budget_ms;
}

static void idle(struct sandbox *s)
{
	if (strcmp(s->spec.idle_action, "pause") == 0) {
		fall_asleep(s, "pause", "idle");
		return;
	}
	box_reason(s, "idle for %.10g s", (double)s->spec.idle_ms / 1000);
	box_over(s, "idle-timeout");
}

void lifetime_check(struct sandbox *s)
{
	note_activity(s);
	if (s->state != BOX_RUNNING)
		return;
	if (budget_used(s)) {
		box_reason(s, "cpu budget of %.10g s used%s%s%s",
			   (double)s->spec.cpu_budget_ms / 1000,
			   account_is_shared(s) ? " by sandbox " : "",
			   account_is_shared(s) ? s->account->id : "",
			   account_is_shared(s) ? " and its forks" : "");
		box_over(s, "cpu-budget");
	} else if (s->spec.idle_ms > 0 && !s->restart.busy &&
		   box_idle_ms(s) >= s->spec.idle_ms) {
		idle(s);
	}
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A budget cannot be used faster than the processors allow all who share it. */
uint64_t lifetime_wait_ms(const struct sandbox *s)
{
	const struct spec *spec = &s->spec;
	uint64_t used_ms = s->account->cpu_us / 1000, idle = box_idle_ms(s);
	uint64_t wait = LOOK_MAX_MS;

	if (s->state == BOX_PAUSED)
		return clock_wall_ms() - s->pause.since_ms < LOOK_RECLAIMED_MS
			       ? LOOK_RECLAIMED_MS
			       : LOOK_PAUSED_MS;
	if (spec->cpu_budget_ms > used_ms)
		wait = less(wait, (spec->cpu_budget_ms - used_ms) * 1000 /
					  spec->cpus_milli /
					  s->account->n_boxes);
	if (spec->idle_ms > 0) {
		wait = less(wait, spec->idle_ms / IDLE_LOOKS);
		if (idle < spec->idle_ms)
			wait = less(wait, spec->idle_ms - idle);
	}
	return wait < LOOK_MIN_MS ? LOOK_MIN_MS : wait;
}

void box_output(struct sandbox *s, size_t n)
{
	char limit[SIZE_TEXT];

	s->output_bytes += n;
	s->meter.dirty = true;
	if (s->spec.output_limit == 0 ||
	    s->output_bytes <= s->spec.output_limit)
		return;
	size_text(s->spec.output_limit, limit);
	box_reason(s, "output limit of %s reached", limit);
	box_over(s, "output-limit");
}
