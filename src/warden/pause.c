/*
 * Pauses: everything inside stands still, the agent too, until a resume. The
 * freezer is asked from the loop, which takes no longer than the write itself;
 * a process that is deep in the kernel may take a moment more, and then the
 * kernel tells us.
 *
 * The memory of what is paused is reclaimed behind the answer, by a child, one
 * sandbox at a time: files that were read are dropped, changed ones written
 * out, and what else there is goes to swap where the host has some.
 *
 * A pause is on record before its answer, a resume behind it: who finds a
 * record of a pause asks the freezer, too (record.c). Who asked for a pause
 * has its freezer, and may thaw before it asks us to.
 *
 * With PAUSE_USER only the processes of users stand still, for who asked and
 * as long as that connection lives: it is a tool of the api's, not a state.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "warden/vm.h"

enum {
	RECLAIM_AFTER_MS = 200,
	STILL_SOON_US = 100,
	LOOK_MAX_MS = 16,
	THAW_AGAIN_MS = 500,
};

struct pause {
	struct turn turn;
	bool on, user;
	bool unrecorded; /* that it goes on */
	int group_fd, freezer_fd;
	struct io events;
	struct timer late, look;
	unsigned look_ms;
	struct deferred gone;
};

static void pause_free(struct deferred *d)
{
	free(container_of(d, struct pause, gone));
}

/*
 * Whatever is frozen next, for a snapshot, must not look like the old pause to
 * the next warden; so this comes before anything else is done to it.
 */
static void record_thaw(const struct box *b)
{
	struct err e = { 0 };

	if (record_write(b, &e) < 0)
		log_err("sandbox=%s goes on, but its record says it is paused: "
			"%s",
			b->spec.id, e.msg);
}

static void pause_over(struct turn *t, const struct err *e)
{
	struct pause *p = container_of(t, struct pause, turn);

	struct warden_rep rep = { .err = *e };
	int freezer_fd = -1;

	if (p->on && t->box && e->code == 0) {
		rep.use.mem_bytes = cgroup_mem_bytes(&t->w->cg, t->box->slot);
		if (!p->user && !box_is_vm(t->box))
			freezer_fd = t->box->freezer_fd;
	}
	answer_rep(t->wt, &rep, &freezer_fd, freezer_fd >= 0);
	if (p->unrecorded)
		record_thaw(t->box);
	io_close(&t->w->loop, &p->events);
	timer_del(&t->w->loop, &p->late);
	timer_del(&t->w->loop, &p->look);
	auto_close(&p->group_fd);
	auto_close(&p->freezer_fd);
	loop_defer(&t->w->loop, &p->gone, pause_free);
}

/* On record before the answer: the next warden keeps it as it is. */
static int keep(struct box *b, struct err *e)
{
	int r;

	b->paused = true;
	r = record_write(b, e);
	if (r < 0)
		b->paused = false;
	return r;
}

static void undo(struct pause *p)
{
	if (p->turn.box)
		box_thaw(p->turn.box, p->user);
}

/* It stands still. */
static void frozen(struct pause *p)
{
	struct box *b = p->turn.box;
	struct err e = { 0 };
	bool heard = !p->turn.wt->conn->dead;

	if (heard && p->user) {
		b->held_by = p->turn.wt->conn;
	} else if (heard && keep(b, &e) == 0) {
		b->freezer_fd = take_fd(&p->freezer_fd);
		reclaim_soon(b);
	} else {
		undo(p); /* of what nobody knows */
	}
	turn_end(&p->turn, &e);
}

static bool stands_still(const struct pause *p, int events_fd)
{
	const struct box *b = p->turn.box;

	return cgroup_frozen(events_fd) ||
	       (box_is_vm(b) &&
		cgroup_still_beside_kernel(p->group_fd, b->w->launch.proc_fd));
}

static void events(struct io *io, uint32_t what)
{
	struct pause *p = container_of(io, struct pause, events);

	(void)what;
	if (stands_still(p, io->fd))
		frozen(p);
}

/*
 * The kernel tells of the groups' events at most every 10 ms: whoever was
 * resumed a moment ago would wait for the next time. So we look, too.
 */
static void look(struct timer *t)
{
	struct pause *p = container_of(t, struct pause, look);

	if (stands_still(p, p->events.fd)) {
		frozen(p);
		return;
	}
	p->look_ms *= 2;
	if (p->look_ms <= LOOK_MAX_MS || box_is_vm(p->turn.box))
		timer_set(&p->turn.w->loop, t, p->look_ms, look);
}

/* Processes that sleep need no longer than it takes to wake them. */
static bool frozen_soon(int events_fd)
{
	uint64_t until = clock_boot_us() + STILL_SOON_US;

	while (!cgroup_frozen(events_fd)) {
		if (clock_boot_us() >= until)
			return false;
		sched_yield();
	}
	return true;
}

static void too_late(struct timer *t)
{
	struct pause *p = container_of(t, struct pause, late);
	struct err e = { 0 };

	undo(p);
	err_set(&e, ETIMEDOUT,
		"its processes did not stand still within %d s: one waits for "
		"the disk, try again",
		CGROUP_FREEZE_MS / 1000);
	turn_end(&p->turn, &e);
}

/* Its end came first: what is still waited for will not come. */
static void pause_cancel(struct turn *t, const struct err *e)
{
	pause_over(t, e);
}

static int freeze(struct pause *p, struct err *e)
{
	struct loop *l = &p->turn.w->loop;
	int fd = cgroup_events(p->group_fd, e);

	if (fd < 0)
		return fd;
	p->freezer_fd = cgroup_freeze_begin(p->group_fd, e);
	if (p->freezer_fd < 0) {
		close(fd);
		return -e->code;
	}
	if (frozen_soon(fd)) {
		close(fd);
		frozen(p);
		return 0;
	}
	if (io_add(l, &p->events, fd, EPOLLPRI, events) < 0) {
		close(fd);
		p->events.fd = -1;
		undo(p);
		return err_set(e, EIO, "watch the freezer");
	}
	timer_set(l, &p->late, CGROUP_FREEZE_MS, too_late);
	p->look_ms = 1;
	timer_set(l, &p->look, p->look_ms, look);
	return 0;
}

bool box_is_paused(struct box *b)
{
	if (!b->paused || b->turn || box_is_vm(b) ||
	    !cgroup_goes_on(&b->w->cg, b->slot))
		return b->paused;
	b->paused = false;
	auto_close(&b->freezer_fd);
	reclaim_stop(b);
	record_thaw(b);
	return false;
}

static int thaw(struct pause *p, struct err *e)
{
	struct box *b = p->turn.box;
	bool open = !p->user && b->freezer_fd >= 0;
	int r = open ? cgroup_freeze_end(b->freezer_fd, e)
		     : cgroup_thaw_slot(&b->w->cg, b->slot, p->user, e);

	if (r < 0)
		return r;
	if (open) /* closed behind the answer */
		p->freezer_fd = take_fd(&b->freezer_fd);
	if (p->user) {
		b->held_by = NULL;
		return 0;
	}
	b->paused = false;
	p->unrecorded = true;
	reclaim_stop(b);
	if (b->spec.flags & LAUNCH_MICROVM)
		vm_go_on(b);
	return 0;
}

static int pause_start(struct turn *t, struct err *e)
{
	struct pause *p = container_of(t, struct pause, turn);
	struct box *b = t->box;
	const struct err none = { 0 };
	int r;

	if (p->user && p->on && b->held_by)
		return err_set(e, EBUSY,
			       "the processes of sandbox %s stand still for "
			       "somebody else",
			       b->spec.id);
	if (p->on == (p->user ? b->held_by != NULL : b->paused)) {
		turn_end(t, &none);
		return 0;
	}
	if (!p->on) {
		r = thaw(p, e);
		if (r == 0)
			turn_end(t, &none);
		return r;
	}
	p->group_fd = p->user ? cgroup_open_user_group(&t->w->cg, b->slot, e)
			      : cgroup_open(&t->w->cg, b->slot, e);
	return p->group_fd < 0 ? p->group_fd : freeze(p, e);
}

void box_pause(struct box *b, bool on, bool user, struct waiter *wt)
{
	struct pause *p = xcalloc(1, sizeof(*p));

	p->on = on;
	p->user = user;
	p->group_fd = p->freezer_fd = p->events.fd = -1;
	p->turn.start = pause_start;
	p->turn.over = pause_over;
	p->turn.cancel = pause_cancel;
	turn_take(b, &p->turn, wt);
}

/*
 * Nobody asks for it a second time: what could not be thawed, for want of a
 * descriptor or of memory, would stand still for ever.
 */
static void thaw_again(struct timer *t)
{
	struct box *b = container_of(t, struct box, thaw);
	bool all = b->frozen, user = b->user_frozen;

	/* Somebody else may want it so by now. */
	if (b->turn) {
		timer_set(&b->w->loop, t, THAW_AGAIN_MS, thaw_again);
		return;
	}
	b->frozen = b->user_frozen = false;
	if (all && !b->paused)
		box_thaw(b, false);
	if (user && !b->held_by)
		box_thaw(b, true);
}

void box_thaw(struct box *b, bool user)
{
	struct err e = { 0 };

	if (b->state != BOX_RUNNING ||
	    cgroup_thaw_slot(&b->w->cg, b->slot, user, &e) == 0)
		return;
	log_err("sandbox=%s %s, trying again", b->spec.id, e.msg);
	if (user)
		b->user_frozen = true;
	else
		b->frozen = true;
	timer_set(&b->w->loop, &b->thaw, THAW_AGAIN_MS, thaw_again);
}

static void let_go(struct box *b)
{
	b->held_by = NULL;
	box_thaw(b, true);
}

void pauses_orphan(struct warden *w, const struct conn *owner)
{
	struct list *pos, *tmp;
	size_t i;

	for (i = 0; i < BOX_BUCKETS; i++)
		list_each (pos, tmp, &w->boxes[i]) {
			struct box *b = container_of(pos, struct box, node);

			if (b->held_by == owner && b->state == BOX_RUNNING)
				let_go(b);
		}
}

/* --- memory --- */

static int reclaim_work(struct job *j, struct err *e)
{
	(void)e;
	cgroup_reclaim(&j->w->reclaim_fds);
	return 0;
}

static void reclaim_next(struct warden *w);

static void reclaim_done(struct job *j, const struct err *e)
{
	struct warden *w = j->w;

	if (e->code != 0 && w->reclaiming)
		log_warn("reclaim: %s", e->msg);
	cgroup_fds_close(&w->reclaim_fds);
	w->reclaim_busy = false;
	w->reclaiming = NULL;
	reclaim_next(w);
}

static int reclaim_start(struct box *b, struct err *e)
{
	struct warden *w = b->w;
	int r = cgroup_fds_open(&w->reclaim_fds, &w->cg, b->slot, e);

	if (r < 0)
		return r;
	w->reclaim_job = (struct job){ .w = w,
				       .work = reclaim_work,
				       .done = reclaim_done,
				       .said.fd = -1,
				       .pid_fd = -1 };
	r = job_start(&w->reclaim_job, e);
	if (r < 0) {
		cgroup_fds_close(&w->reclaim_fds);
		return r;
	}
	w->reclaim_busy = true;
	w->reclaiming = b;
	return 0;
}

static void reclaim_next(struct warden *w)
{
	while (!w->reclaim_busy && !list_empty(&w->reclaims)) {
		struct box *b = container_of(w->reclaims.next, struct box,
					     reclaim_node);
		struct err e = { 0 };

		list_del(&b->reclaim_node);
		if (reclaim_start(b, &e) < 0)
			log_warn("sandbox=%s reclaim: %s", b->spec.id, e.msg);
	}
}

static void reclaim_now(struct timer *t)
{
	reclaim_next(container_of(t, struct warden, reclaim_timer));
}

/* Not at once: one that is used again in a moment needs what it has, and the
 * answer does not wait for a child. */
void reclaim_soon(struct box *b)
{
	struct warden *w = b->w;

	list_del(&b->reclaim_node);
	list_add(&w->reclaims, &b->reclaim_node);
	if (w->reclaim_timer.slot == 0)
		timer_set(&w->loop, &w->reclaim_timer, RECLAIM_AFTER_MS,
			  reclaim_now);
}

void reclaim_stop(struct box *b)
{
	struct warden *w = b->w;

	list_del(&b->reclaim_node);
	if (w->reclaiming == b) {
		w->reclaiming = NULL;
		job_kill(&w->reclaim_job);
	}
}
