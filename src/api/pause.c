#include "api/pause.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/proc_log.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/clock.h"

static void settle(struct sandbox *s);

void pause_init(struct sandbox *s)
{
	list_init(&s->pause.pausers);
	list_init(&s->pause.wakers);
	list_init(&s->pause.start.node);
	s->pause.freezer_fd = -1;
}

void pause_because(struct pause_cause *to, const char *reason,
		   const struct identity *who, const struct http_conn *c)
{
	to->reason = reason;
	to->who = *who;
	memcpy(to->request_id, http_request_id(c), sizeof(to->request_id));
}

static void tell(struct sandbox *s, struct list *waiters, const struct err *e)
{
	struct list *n, *next, line;

	/* Who is told may wait again. */
	list_init(&line);
	list_each (n, next, waiters) {
		list_del(n);
		list_add(&line, n);
	}
	while (!list_empty(&line)) {
		struct pause_waiter *w =
			container_of(line.next, struct pause_waiter, node);

		list_del(&w->node);
		w->fn(w, s, e);
	}
}

/* Takes `data`, and adds the reason to it. */
static void note(struct sandbox *s, const char *type, json_t *data)
{
	const struct pause_cause *why = &s->pause.cause;
	bool somebody = *why->who.name != '\0';

	json_object_set_new(data, "reason", json_string(why->reason));
	audit_add(
		s->api,
		&(struct audit){
			.type = type,
			.box = s,
			.who = somebody ? &why->who : NULL,
			.request_id = *why->request_id ? why->request_id : NULL,
			.data = data,
		});
}

/* --- what the warden answers --- */

static void paused(struct sandbox *s, uint64_t mem_bytes)
{
	struct pause *p = &s->pause;

	s->state = BOX_PAUSED;
	p->since_ms = clock_wall_ms();
	p->mem_bytes = mem_bytes;
	lifetime_asleep(s);
	meter_plan(s);
	note(s, "sandbox.pause",
	     json_pack("{s:I}", "memory_bytes", (json_int_t)p->mem_bytes));
}

static void awake(struct sandbox *s)
{
	struct pause *p = &s->pause;
	uint64_t now = clock_wall_ms(), since = p->since_ms;
	struct err e = { 0 };

	s->state = BOX_RUNNING;
	auto_close(&p->freezer_fd);
	s->api->metrics.wakes++;
	/* Not idle, and what it used before is not held against it. */
	box_touch(s);
	lifetime_awake(s);
	s->meter.mark_ms = 0;
	meter_plan(s);
	if (since == 0 || now < since)
		since = now;
	note(s, "sandbox.resume",
	     json_pack("{s:I}", "paused_ms", (json_int_t)(now - since)));
	drive_door_open(s);
	gate_box_found(s);
	if (!p->unheard)
		return;
	p->unheard = false;
	if (agent_connect(s, &e) < 0)
		log_warn("sandbox=%s %s, trying again when it is used", s->id,
			 e.msg);
	else
		proc_log_resume(s);
}

/* The answer came too late for a sandbox that is on its way out. */
static bool is_late(struct sandbox *s, const char *what,
		    const struct warden_rep *rep)
{
	if (s->state == BOX_ENDING)
		return true;
	if (rep->err.code)
		log_warn("sandbox=%s %s failed: %s", s->id, what, rep->err.msg);
	return false;
}

static void on_paused(struct warden_call *c, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct sandbox *s = container_of(c, struct sandbox, pause.call);

	if (is_late(s, "pause", rep))
		return;
	if (rep->err.code == 0) {
		auto_close(&s->pause.freezer_fd);
		s->pause.freezer_fd = take_fd(&fds[0]);
		paused(s, rep->use.mem_bytes);
	}
	tell(s, &s->pause.pausers, &rep->err);
	settle(s);
}

static void on_awake(struct warden_call *c, const struct warden_rep *rep,
		     int fds[FD_PASS_MAX])
{
	struct sandbox *s = container_of(c, struct sandbox, pause.call);

	(void)fds;
	if (is_late(s, "resume", rep))
		return;
	if (rep->err.code == 0)
		awake(s);
	tell(s, &s->pause.wakers, &rep->err);
	settle(s);
}

/* --- what is asked of it --- */

static void ask(struct sandbox *s, enum warden_op op,
		const struct pause_cause *why)
{
	struct pause *p = &s->pause;

	p->cause = *why;
	warden_req_id(&p->call, op, s->id);
	warden_ask(&s->api->warden, &p->call,
		   op == WARDEN_PAUSE ? on_paused : on_awake);
}

/* Ourselves, if we can: the warden is told behind the answer. */
static bool thaw(const struct sandbox *s)
{
	int fd = s->pause.freezer_fd;

	return fd >= 0 && warden_is_quiet(&s->api->warden) &&
	       write(fd, "0", 1) == 1;
}

static void resume(struct sandbox *s, const struct pause_cause *why)
{
	const struct err ok = { 0 };

	if (!thaw(s)) {
		ask(s, WARDEN_RESUME, why);
		return;
	}
	warden_chore_soon(&s->api->warden, WARDEN_RESUME, s->id);
	s->pause.cause = *why;
	awake(s);
	tell(s, &s->pause.wakers, &ok);
	settle(s);
}

static const struct pause_cause *first_cause(const struct list *waiters)
{
	return &container_of(waiters->next, struct pause_waiter, node)->cause;
}

/*
 * It runs again, or cannot; the state is what it says. Who else waits is told
 * by pause_moved(), right behind this.
 */
static void on_started(struct box_waiter *w, const struct err *e)
{
	struct sandbox *s = container_of(w, struct sandbox, pause.start);

	if (e->code == 0) {
		s->api->metrics.wakes++;
		note(s, "sandbox.resume", json_pack("{s:b}", "disk", true));
	} else if (s->state != BOX_ENDING) {
		tell(s, &s->pause.wakers, e);
	}
}

/* One that is suspended has another life. */
static void start(struct sandbox *s, const struct pause_cause *why)
{
	struct pause *p = &s->pause;
	struct err e = { 0 };

	p->cause = *why;
	p->start.fn = on_started;
	if (box_resume(s, &p->start, &e) < 0)
		tell(s, &p->wakers, &e);
}

/* The next step that somebody waits for, if none is under way. */
static void settle(struct sandbox *s)
{
	struct pause *p = &s->pause;
	const struct err ok = { 0 };

	if (p->call.busy || s->restart.busy)
		return;
	if (s->state == BOX_RUNNING)
		tell(s, &p->wakers, &ok);
	else if (s->state == BOX_PAUSED || s->state == BOX_SUSPENDED)
		tell(s, &p->pausers, &ok);
	/* Who was told may have asked for something. */
	if (p->call.busy || s->restart.busy)
		return;
	if (s->state == BOX_SUSPENDED && !list_empty(&p->wakers))
		start(s, first_cause(&p->wakers));
	else if (s->state == BOX_PAUSED && !list_empty(&p->wakers))
		resume(s, first_cause(&p->wakers));
	else if (s->state == BOX_RUNNING && !list_empty(&p->pausers))
		ask(s, WARDEN_PAUSE, first_cause(&p->pausers));
}

/* Neither there nor on its way: nothing can be asked of it. */
static bool refused(struct sandbox *s, struct pause_waiter *w)
{
	struct err e = { 0 };

	if (s->state == BOX_RUNNING || s->state == BOX_PAUSED ||
	    s->state == BOX_SUSPENDED || s->state == BOX_RESTARTING)
		return false;
	if (s->state == BOX_ENDING)
		err_set(&e, EBUSY, "sandbox %s is being removed", s->id);
	else
		err_set(&e, EAGAIN, "sandbox %s is %s: try again", s->id,
			box_state_name(s->state));
	w->fn(w, s, &e);
	return true;
}

void box_pause(struct sandbox *s, struct pause_waiter *w)
{
	list_init(&w->node);
	if (refused(s, w))
		return;
	list_add(&s->pause.pausers, &w->node);
	settle(s);
}

void box_wake(struct sandbox *s, struct pause_waiter *w)
{
	list_init(&w->node);
	if (refused(s, w))
		return;
	list_add(&s->pause.wakers, &w->node);
	settle(s);
}

void box_pause_because(struct sandbox *s, const char *reason)
{
	const struct pause_cause why = { .reason = reason };

	if (s->state == BOX_RUNNING && !s->pause.call.busy && !s->restart.busy)
		ask(s, WARDEN_PAUSE, &why);
}

void box_wake_now(struct sandbox *s, const struct identity *who,
		  const char *request_id)
{
	struct pause_cause why = { .reason = "request" };

	if (s->state != BOX_PAUSED || s->pause.call.busy || s->restart.busy)
		return;
	if (who)
		why.who = *who;
	if (request_id)
		snprintf(why.request_id, sizeof(why.request_id), "%s",
			 request_id);
	ask(s, WARDEN_RESUME, &why);
}

bool box_sleeps(const struct sandbox *s)
{
	return s->state == BOX_PAUSED || s->state == BOX_SUSPENDED ||
	       s->state == BOX_RESTARTING ||
	       (s->state == BOX_RUNNING &&
		(s->pause.call.busy || s->restart.busy));
}

int box_usable(struct sandbox *s, const struct identity *who,
	       const char *request_id, struct err *e)
{
	if (s->state == BOX_PAUSED)
		box_wake_now(s, who, request_id);
	else if (s->state == BOX_ENDING)
		return err_set(e, EBUSY, "sandbox %s is being removed", s->id);
	else if (s->state != BOX_RUNNING)
		return err_set(e, EAGAIN, "sandbox %s is %s: try again", s->id,
			       box_state_name(s->state));
	return 0;
}

/* --- around it --- */

void pause_found(struct sandbox *s, bool is_paused)
{
	auto_close(&s->pause.freezer_fd);
	if (s->state == BOX_RUNNING && is_paused) {
		s->state = BOX_PAUSED;
		lifetime_asleep(s);
		meter_plan(s);
	} else if (s->state == BOX_PAUSED && !is_paused) {
		s->state = BOX_RUNNING;
		lifetime_awake(s);
		box_touch(s);
		meter_plan(s);
	}
}

void pause_moved(struct sandbox *s)
{
	warden_cancel(&s->pause.call);
	auto_close(&s->pause.freezer_fd);
	settle(s); /* who waits hears of the end of it */
}

void pause_end(struct sandbox *s)
{
	struct err e = { 0 };

	warden_cancel(&s->pause.call);
	auto_close(&s->pause.freezer_fd);
	list_del(&s->pause.start.node);
	err_set(&e, ERR_ENDED, "sandbox %s has ended: %s", s->id, s->reason);
	tell(s, &s->pause.pausers, &e);
	tell(s, &s->pause.wakers, &e);
}

json_t *pause_json(const struct sandbox *s)
{
	const struct pause *p = &s->pause;

	return json_pack("{s:o, s:o}", "since", json_time(p->since_ms),
			 "memory_at_pause",
			 p->mem_bytes ? json_integer((json_int_t)p->mem_bytes)
				      : json_null());
}
