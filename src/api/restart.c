#include "api/restart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/drive_door.h"
#include "api/move.h"
#include "api/relay.h"
#include "base/auto.h"
#include "base/buf.h"

static void ask_launch(struct sandbox *s);

void restart_init(struct restart *r)
{
	list_init(&r->waiters);
}

/* --- ends --- */

static void tell(struct list *waiters, const struct err *e)
{
	struct list *n, *next, line;

	/* Who is told may wait for another life. */
	list_init(&line);
	list_each (n, next, waiters) {
		list_del(n);
		list_add(&line, n);
	}
	while (!list_empty(&line)) {
		struct box_waiter *w =
			container_of(line.next, struct box_waiter, node);

		list_del(&w->node);
		w->fn(w, e);
	}
}

/* Over, one way or the other; the state has been set. */
static void finish(struct sandbox *s, const struct err *e)
{
	static const struct err ok = { 0 };
	struct snapshot *held = take_ptr(s->restart.held);
	struct move *move = take_ptr(s->restart.move);

	if (move)
		move_stop(move);
	s->restart.busy = s->restart.resuming = false;
	if (held)
		snapshot_release(held);
	tell(&s->restart.waiters, e ? e : &ok);
	pause_moved(s);
	spares_poke(s->api);
}

void restart_abort(struct sandbox *s)
{
	struct err e = { 0 };

	if (!s->restart.busy)
		return;
	snapshot_leave(&s->restart.take);
	err_set(&e, ESRCH, "sandbox %s has ended: %s", s->id,
		*s->reason ? s->reason : "removed");
	finish(s, &e);
}

static void begin(struct sandbox *s, struct box_waiter *w)
{
	s->restart.busy = true;
	if (w)
		list_add(&s->restart.waiters, &w->node);
}

/* Nothing of it runs, as far as we can know. */
static void now_suspended(struct sandbox *s, const struct err *e)
{
	s->state = BOX_SUSPENDED;
	lifetime_asleep(s);
	volumes_detached(s);
	meter_stop(s, NULL);
	box_count(s, false);
	*s->reason = '\0'; /* its next life ends for another one */
	finish(s, e);
}

/* --- rows --- */

/*
 * Another disk and base. The old ones are let go when the row is written: a
 * crash finds what the row speaks of.
 */
static int write_row(struct sandbox *s, const char *disk, const char *base,
		     struct snapshot *also, struct err *e)
{
	struct api *a = s->api;
	char old_disk[ID_CAP], old_base[ID_CAP];
	bool durable = also || s->spec.persist;
	int r = durable ? registry_begin_durable(&a->registry, e)
			: registry_begin(&a->registry, e);

	if (r < 0)
		return r;
	memcpy(old_disk, s->disk, ID_CAP);
	memcpy(old_base, s->base, ID_CAP);
	snapshot_ref(a, old_disk);
	snapshot_ref(a, old_base);
	box_set_disk(s, disk);
	box_set_base(s, base);
	if (also)
		r = snapshot_save(also, e);
	if (r == 0)
		r = box_save(s, e);
	r = registry_end(&a->registry, r, e);
	if (r < 0) {
		if (also)
			also->has_row = false;
		box_set_disk(s, old_disk);
		box_set_base(s, old_base);
	}
	snapshot_unref(a, old_disk);
	snapshot_unref(a, old_base);
	return r;
}

/* --- from one life to the next --- */

/* Its clients hear why. */
static void cut_off(struct sandbox *s, const char *why)
{
	gate_box_down(s, false);
	agent_lost(&s->agent, ENOTCONN, why);
	relays_finish(s);
}

/*
 * It did not come up: what may be left of it goes, and it stays what its row
 * says it is.
 */
static void stays(struct sandbox *s, const struct err *e)
{
	log_warn("sandbox=%s did not start again: %s, it is suspended", s->id,
		 e->msg);
	warden_chore(&s->api->warden, WARDEN_KILL, s->id);
	/* It may have left a disk that nobody is to wait for. */
	if (s->spec.persist && strcmp(s->disk, s->id) != 0)
		warden_chore(&s->api->warden, WARDEN_SNAPSHOT_REMOVE, s->id);
	now_suspended(s, e);
}

static void not_launched(struct sandbox *s, const struct err *why)
{
	struct err e = *why;

	e.code = launch_code(e.code);
	stays(s, &e);
}

static void not_up(struct sandbox *s, const struct err *e)
{
	cut_off(s, "the sandbox did not start");
	not_launched(s, e);
}

static void settled(struct sandbox *s)
{
	struct err e = { 0 };

	lifetime_awake(s);
	if ((s->restart.move && move_settle(s, &e) < 0) ||
	    write_row(s, "", s->base, NULL, &e) < 0) {
		if (s->restart.move)
			move_unsettle(s);
		not_up(s, &e);
		return;
	}
	s->restart.move = NULL; /* it is of the new tier, not on its way */
	box_touch(s);
	meter_start(s);
	drive_door_open(s);
	volumes_attached(s);
	finish(s, NULL);
}

static void on_door(struct gate_up *u, const struct err *e)
{
	struct sandbox *s = container_of(u, struct sandbox, restart.door);

	if (s->state != BOX_RUNNING) /* it ended meanwhile */
		return;
	if (e)
		not_up(s, e);
	else
		settled(s);
}

static void open_door(struct sandbox *s)
{
	s->state = BOX_RUNNING;
	if (gate_box_up(s, &s->restart.door, on_door) == 1)
		settled(s);
}

void restart_laid(struct sandbox *s, const struct err *e)
{
	if (s->state != BOX_RESTARTING) /* it ended meanwhile */
		return;
	if (e) {
		cut_off(s, "the sandbox did not move");
		stays(s, e);
	} else {
		open_door(s);
	}
}

static void up(struct sandbox *s)
{
	struct err e = { 0 };

	s->degraded = s->agent.mute = false;
	if (agent_connect(s, &e) < 0)
		not_up(s, &e);
	else if (s->restart.move)
		move_lay(s->restart.move, s);
	else
		open_door(s);
}

static void on_launch(struct warden_call *c, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct sandbox *s = container_of(c, struct sandbox, call);
	struct err e = { 0 };

	(void)fds;
	if (s->state == BOX_ENDING) { /* removed meanwhile */
		if (rep->err.code)
			box_gone(s, NULL, NULL);
		else
			box_ask_kill(s);
	} else if (rep->err.code) {
		not_launched(s, &rep->err);
	} else if (s->ended) {
		err_set(&e, EIO, "the sandbox ended while it was starting");
		not_launched(s, &e);
	} else {
		s->kvm = rep->launch.flags & LAUNCH_KVM;
		up(s);
	}
}

static void ask_launch(struct sandbox *s)
{
	s->ended = false;
	box_fill_launch(s, s->restart.move ? "" : s->disk);
	if (s->restart.move)
		s->call.req.launch.flags ^= LAUNCH_MICROVM;
	warden_ask(&s->api->warden, &s->call, on_launch);
}

static void on_kill(struct warden_call *c, const struct warden_rep *rep,
		    int fds[FD_PASS_MAX])
{
	struct sandbox *s = container_of(c, struct sandbox, call);
	bool gone = rep->err.code == 0 || rep->err.code == ESRCH;

	(void)fds;
	if (s->state == BOX_ENDING) { /* removed meanwhile */
		box_ask_kill(s);
		return;
	}
	if (rep->err.code == 0)
		meter_stop(s, &rep->last.use);
	/* The row says suspended: whoever reconciles kills it. */
	if (!gone)
		log_warn("sandbox=%s not ended: %s", s->id, rep->err.msg);
	if (!gone || !s->restart.held)
		now_suspended(s, gone ? NULL : &rep->err);
	else
		ask_launch(s);
}

static void ask_kill(struct sandbox *s)
{
	s->state = BOX_RESTARTING;
	pause_moved(s);
	warden_req_id(&s->call, WARDEN_KILL, s->id);
	warden_ask(&s->api->warden, &s->call, on_kill);
}

/* --- rollback --- */

static bool comes_from(const struct sandbox *s, const struct snapshot *to)
{
	const struct snapshot *snap = snapshot_by_id(s->api, s->base);

	if (strcmp(to->sandbox, s->id) == 0)
		return true;
	for (; snap; snap = snapshot_by_id(s->api, snap->base))
		if (snap == to)
			return true;
	return false;
}

int may_restart(const struct sandbox *s, struct err *e)
{
	if (s->restart.busy || s->call.busy)
		return err_set(e, EBUSY,
			       "sandbox %s is being paused, resumed, moved or "
			       "rolled back: try again",
			       s->id);
	if (!s->told)
		return err_set(e, EBUSY,
			       "sandbox %s is there for one run: make one with "
			       "'create'",
			       s->id);
	if (s->state != BOX_RUNNING && s->state != BOX_PAUSED &&
	    s->state != BOX_SUSPENDED)
		return err_set(e, EBUSY, "sandbox %s is %s", s->id,
			       box_state_name(s->state));
	return 0;
}

/* A disk of one tier is nothing to the other. */
static int same_tier(const struct sandbox *s, const struct snapshot *to,
		     struct err *e)
{
	AUTO(spec_done) struct spec spec = { 0 };

	if (snapshot_spec(to, &spec, e) < 0)
		return -e->code;
	if (spec_is_vm(&spec) != spec_is_vm(&s->spec))
		return err_set(e, EINVAL,
			       "snapshot %s was made in tier %s, sandbox %s is "
			       "in tier %s: move it there first, or fork the "
			       "snapshot",
			       to->id, spec.tier, s->id, s->spec.tier);
	return 0;
}

int may_rollback(const struct sandbox *s, const struct snapshot *to,
		 struct err *e)
{
	int r = may_restart(s, e);

	if (r == 0 &&
	    (!comes_from(s, to) || strcmp(s->image_id, to->image_id) != 0))
		r = err_set(e, EINVAL,
			    "snapshot %s is not one of sandbox %s: fork it "
			    "instead",
			    to->id, s->id);
	return r < 0 ? r : same_tier(s, to, e);
}

int box_rollback(struct sandbox *s, struct snapshot *to, struct box_waiter *w,
		 struct err *e)
{
	int r = may_rollback(s, to, e);

	if (r == 0)
		r = write_row(s, to->id, to->id, NULL, e);
	if (r < 0)
		return r;
	begin(s, w);
	if (s->state == BOX_SUSPENDED) {
		finish(s, NULL);
		return 0;
	}
	snapshot_hold(to);
	s->restart.held = to;
	cut_off(s, "the sandbox was rolled back");
	ask_kill(s);
	return 0;
}

/* --- suspend --- */

static void on_disk(struct snapshot_take *t, struct snapshot *disk,
		    const struct err *why)
{
	struct sandbox *s = container_of(t, struct sandbox, restart.take);
	struct err e = { 0 };

	if (!disk) {
		box_touch(s); /* who is idle is not asked again at once */
		finish(s, why);
		return;
	}
	/* It stands still since its snapshot: nothing is lost. */
	if (write_row(s, disk->id, s->base, disk, &e) < 0) {
		if (s->state == BOX_RUNNING)
			warden_chore(&s->api->warden, WARDEN_RESUME, s->id);
		snapshot_release(disk);
		finish(s, &e);
		return;
	}
	snapshot_release(disk);
	cut_off(s, s->restart.said);
	ask_kill(s);
}

int box_suspend(struct sandbox *s, bool disk_only, struct box_waiter *w,
		struct err *e)
{
	const struct snapshot_ask ask = { .kind = SNAPSHOT_DISK,
					  .stay = true,
					  .disk_only = disk_only };
	int r = may_restart(s, e);

	if (r == 0 && s->state == BOX_SUSPENDED)
		r = err_set(e, EBUSY, "sandbox %s is suspended already", s->id);
	if (r == 0)
		r = snapshot_take(&s->restart.take, s, &ask, on_disk, e);
	if (r < 0)
		return r;
	begin(s, w);
	s->restart.said = "the sandbox was suspended";
	return 0;
}

int box_keep_disk(struct sandbox *s, const char *why,
		  const struct sandbox_use *last, struct err *e)
{
	struct snapshot *disk = snapshot_by_id(s->api, s->id);
	char said[REASON_CAP + 32];
	int r;

	if (disk)
		snapshot_revive(disk);
	else
		disk = snapshot_new(s->api, s->id, SNAPSHOT_DISK);
	disk->seen = s->api->reconcile.round;
	snapshot_describe(disk, s);
	/* Without a row nothing refers to it: the hold keeps it from removal
	 * until one can be written. */
	if (!disk->rowless)
		snapshot_hold(disk);
	r = write_row(s, disk->id, s->base, disk, e);
	disk->rowless = r < 0;
	if (r == 0) {
		log_info("sandbox=%s %s, its disk is kept", s->id, why);
		audit_add(s->api,
			  &(struct audit){
				  .type = "sandbox.suspend",
				  .box = s,
				  .data = json_pack("{s:s}", "reason", why) });
		snprintf(said, sizeof(said), "the sandbox has ended: %s", why);
		cut_off(s, said);
		restart_abort(s);
		meter_stop(s, last);
		now_suspended(s, NULL);
		snapshot_release(disk);
	}
	return r;
}

/* --- resume --- */

static int room_for(struct sandbox *s, struct err *e)
{
	struct api *a = s->api;

	if (a->boxes.closing)
		return err_set(e, EAGAIN,
			       "all sandboxes are being removed: try again");
	if (volumes_allow(a, s->project, &s->spec, s, e) < 0)
		return -e->code;
	return admit(a, s->project, 1, e);
}

int box_resume(struct sandbox *s, struct box_waiter *w, struct err *e)
{
	struct snapshot *disk = snapshot_by_id(s->api, s->disk);
	int r = 0;

	if (s->restart.busy && s->restart.resuming) {
		if (w)
			list_add(&s->restart.waiters, &w->node);
		return 0;
	}
	r = may_restart(s, e);
	if (r == 0 && (s->state != BOX_SUSPENDED || !disk))
		r = err_set(e, EBUSY, "sandbox %s is not suspended", s->id);
	if (r == 0)
		r = room_for(s, e);
	if (r < 0)
		return r;
	begin(s, w);
	s->restart.resuming = true;
	box_count(s, true);
	snapshot_hold(disk);
	s->restart.held = disk;
	/* Something may be left of a life that nobody saw the end of. */
	ask_kill(s);
	return 0;
}

int box_resume_moved(struct sandbox *s, struct move *m, struct box_waiter *w,
		     struct err *e)
{
	int r = may_restart(s, e);

	if (r < 0)
		return r;
	s->restart.move = m;
	r = box_resume(s, w, e);
	if (r < 0)
		s->restart.move = NULL;
	return r;
}
