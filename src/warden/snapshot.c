/*
 * Snapshots of sandboxes, and disks that start as one. The work is a child's:
 * to write out what is dirty and to make a copy of a disk is to wait for the
 * pool, and the loop waits for nothing.
 *
 * A snapshot: what is dirty is written while the sandbox runs, then it stands
 * still, the copy is made, it goes on. The child does that alone, so that the
 * pause does not depend on how busy we are; when it dies half-way we thaw, and
 * when we die with it, the next warden does.
 *
 * When a sandbox ends under its snapshot, the snapshot is made or not, and
 * nobody gets it: it is discarded.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "sandbox/vm/shape.h"
#include "sandbox/vm/state.h"
#include "sandbox/walls.h"
#include "warden/vm.h"

/* So much is written in a moment: while it stands still. */
enum { DIRTY_MAX = 1 << 20 };

/* --- snapshots that somebody looks at --- */

struct hold {
	struct list node;
	char id[ID_CAP];
	unsigned n;
	bool making; /* not there yet, as far as anybody knows */
};

static struct hold *hold_find(struct warden *w, const char *id)
{
	struct list *pos, *tmp;

	list_each (pos, tmp, &w->holds) {
		struct hold *h = container_of(pos, struct hold, node);

		if (strcmp(h->id, id) == 0)
			return h;
	}
	return NULL;
}

static struct hold *hold_add(struct warden *w, const char *id)
{
	struct hold *h = hold_find(w, id);

	if (!h) {
		h = xcalloc(1, sizeof(*h));
		memcpy(h->id, id, ID_CAP);
		list_add(&w->holds, &h->node);
	}
	h->n++;
	return h;
}

int snapshot_hold(struct warden *w, const char *id, struct err *e)
{
	const struct hold *h = hold_find(w, id);
	int fd;

	if (h && h->making)
		return err_set(e, ENOENT, "snapshot %s is not there yet", id);
	fd = store_snapshot_open(&w->store, id, e);
	if (fd < 0)
		return fd;
	close(fd);
	hold_add(w, id);
	return 0;
}

void snapshot_release(struct warden *w, const char *id)
{
	struct hold *h = hold_find(w, id);

	if (h && --h->n == 0) {
		list_del(&h->node);
		free(h);
	}
}

void snapshot_remove(struct warden *w, const char *id, struct waiter *wt)
{
	struct err e = { 0 };

	if (hold_find(w, id))
		err_set(&e, EBUSY, "snapshot %s is in use", id);
	else if (store_snapshot_discard(&w->store, id, &e) == 0) {
		copies_drop(w, id);
		sweep_soon(w);
	}
	answer(wt, &e);
}

/* One that is being made is none yet. */
int snapshot_next(struct warden *w, const char *after, char id[ID_CAP])
{
	const struct hold *h;
	int r;

	do {
		r = store_snapshot_next(&w->store, after, id);
		h = r == 0 ? hold_find(w, id) : NULL;
		after = id;
	} while (h && h->making);
	return r;
}

/* --- making one --- */

struct snap {
	struct turn turn;
	struct job job;
	struct snapshot_spec spec;
	struct {
		struct snapshot_done done;
		uint8_t copied[SNAPSHOT_COPIES_MAX];
	} out;           /* of the child */
	uint64_t family; /* of copies, reserved */
	int group_fd, tree_fd;
	unsigned slot;
	bool thaw; /* it ran before */
	bool vm;
	struct state_of of; /* of one */
	char key[ID_CAP];
	struct state_save state;
	struct deferred gone;
};

static void snap_free(struct deferred *d)
{
	struct snap *t = container_of(d, struct snap, gone);

	auto_close(&t->group_fd);
	auto_close(&t->tree_fd);
	auto_close(&t->of.template_fd);
	auto_close(&t->of.process_fd);
	auto_close(&t->of.run_fd);
	free(t);
}

static void snap_over(struct turn *turn, const struct err *e)
{
	struct snap *t = container_of(turn, struct snap, turn);
	struct warden_rep rep = { .err = *e, .snapshot = t->out.done };

	answer_rep(turn->wt, &rep, NULL, 0);
	loop_defer(&turn->w->loop, &t->gone, snap_free);
}

static int stand_still(struct snap *t, struct err *e)
{
	if (t->vm)
		return state_save_end(&t->state, e);
	return t->thaw ? cgroup_freeze(t->group_fd, -1, e) : 0;
}

/* Where it can before the copies are made: they wait for the pool. */
static int go_on_soon(struct snap *t, struct err *e)
{
	return t->vm && !(t->spec.flags & SNAPSHOT_STAY) &&
			       store_copies_pay(&t->job.w->store)
		       ? state_save_go_on(&t->state, e)
		       : 0;
}

/* A machine that stays is stopped, and frozen for who looks from outside. */
static int let_go(struct snap *t, bool stay, struct err *e)
{
	if (!t->vm)
		return t->thaw && !stay ? cgroup_thaw(t->group_fd, e) : 0;
	if (state_save_close(&t->state, stay, e) < 0)
		return -e->code;
	return stay ? cgroup_freeze(t->group_fd, t->job.w->launch.proc_fd, e)
		    : 0;
}

static int take(struct snap *t, struct copies *c, struct err *e)
{
	struct store *s = &t->job.w->store;
	uint64_t from = clock_boot_us(), until = 0;
	struct err later = { 0 };
	int r = stand_still(t, e);

	if (r == 0)
		r = go_on_soon(t, e);
	if (r == 0 && t->vm && !t->state.held)
		until = clock_boot_us();
	if (r == 0) {
		copies_go(c);
		r = store_snapshot_new(s, t->spec.snap, t->spec.id, t->tree_fd,
				       e);
	}
	if (r == 0)
		copies_made(c);
	if (let_go(t, r == 0 && t->spec.flags & SNAPSHOT_STAY, &later) < 0 &&
	    r == 0) {
		*e = later;
		r = -later.code;
	}
	if (!until)
		until = clock_boot_us();
	t->out.done.pause_us = t->thaw ? until - from : 0;
	return r;
}

/* What takes long and can be done while it runs. */
static int prepare(struct snap *t, struct err *e)
{
	struct err later = { 0 };

	if (cgroup_dirty_bytes(&t->job.w->cg, t->slot) > DIRTY_MAX &&
	    syncfs(t->tree_fd) < 0)
		return err_sys(e, "write out what is dirty");
	if (!t->vm || state_save_begin(&t->state, &t->of, e) == 0)
		return 0;
	if (state_save_close(&t->state, false, &later) < 0)
		log_warn("sandbox=%s %s", t->spec.id, later.msg);
	return -e->code;
}

/* Needed only after a loss of the api's database: errors are only logged. */
static void describe(const struct snap *t)
{
	char about[STORE_ABOUT_CAP];
	struct err e = { 0 };

	about_text(&t->turn.box->spec, t->spec.flags & SNAPSHOT_STAY, about);
	if (store_snapshot_describe(&t->job.w->store, t->spec.snap, about, &e) <
	    0)
		log_warn("snapshot=%s %s", t->spec.snap, e.msg);
}

static int snap_work(struct job *j, struct err *e)
{
	struct snap *t = container_of(j, struct snap, job);
	struct store *s = &j->w->store;
	struct copies c = { .n = t->spec.copies,
			    .snap = t->spec.snap,
			    .family = t->family,
			    .tree_fd = t->tree_fd };
	struct err none = { 0 };
	int r;

	if (prepare(t, e) < 0)
		return -e->code;
	copies_prepare(s, &c);
	r = take(t, &c, e);
	copies_end(&c, r == 0, t->out.copied);
	if (r == 0)
		describe(t);
	/* What is not known is not told. */
	if (r == 0 &&
	    store_volume_usage(s, t->spec.id, &t->out.done.bytes, &none) < 0)
		t->out.done.bytes = 0;
	return r;
}

/* It is nobody's: the sandbox or the one who asked is gone, or it failed. */
static void drop(struct snap *t)
{
	struct err e = { 0 };

	copies_drop(t->job.w, t->spec.snap);
	if (store_snapshot_discard(&t->job.w->store, t->spec.snap, &e) == 0)
		sweep_soon(t->job.w);
	else if (e.code != ENOENT)
		log_warn("snapshot=%s %s, left for the next start",
			 t->spec.snap, e.msg);
}

/* So does what the child left beside the disk: it may have died. */
static void drop_state(const struct snap *t)
{
	struct err e = { 0 };

	if (t->vm && state_drop(t->tree_fd, &e) < 0)
		log_warn("sandbox=%s %s", t->spec.id, e.msg);
}

/* The child thaws; when it could not say so, or shall not have, we do. */
static void go_on(struct snap *t, bool stay)
{
	struct err e = { 0 };

	if (!stay && t->thaw && t->turn.box)
		box_thaw(t->turn.box, false);
	if (!stay && t->vm && t->turn.box)
		vm_go_on(t->turn.box);
	if (!stay)
		return;
	t->turn.box->paused = true;
	if (record_write(t->turn.box, &e) < 0)
		log_err("sandbox=%s %s", t->spec.id, e.msg);
}

static void snap_done(struct job *j, const struct err *result)
{
	struct snap *t = container_of(j, struct snap, job);
	const struct box *b = t->turn.box;
	bool wanted = b && !t->turn.wt->conn->dead;
	bool stay = t->spec.flags & SNAPSHOT_STAY;
	struct err e = *result;

	snapshot_release(j->w, t->spec.snap);
	if (e.code != 0)
		memset(t->out.copied, 0, sizeof(t->out.copied));
	if (t->spec.copies > 0) {
		store_release(&j->w->store);
		copies_ready(j->w, &t->spec, t->out.copied);
	}
	if (e.code != 0)
		drop_state(t);
	if (e.code != 0 || !wanted)
		drop(t);
	if (e.code != 0 || stay)
		go_on(t, stay && e.code == 0 && wanted);
	if (!b && e.code == 0)
		err_set(&e, ESRCH, "sandbox %s has ended", t->spec.id);
	/* Classic quotas may have to be counted anew. */
	if (!j->w->store.simple_quota)
		sweep_soon(j->w);
	turn_end(&t->turn, &e);
}

/* The child speaks to the machine, so it has to run. */
static int start_vm(struct snap *t, struct err *e)
{
	const struct box *b = t->turn.box;
	struct err none = { 0 };

	if (b->paused)
		return err_set(e, EBUSY,
			       "sandbox %s is a microvm that stands still: "
			       "resume it first",
			       b->spec.id);
	t->vm = true;
	t->of = vm_state_of(b, t->tree_fd);
	t->of.process_fd = vm_process_open(b, e);
	if (t->of.process_fd < 0)
		return t->of.process_fd;
	t->of.run_fd = vm_run_open(b, e);
	if (t->of.run_fd < 0)
		return t->of.run_fd;
	/* The child's own: it has a copy of all that is open. */
	t->of.pid_fd = b->pid_io.fd;
	t->of.disk_only = t->spec.flags & SNAPSHOT_DISK_ONLY;
	vm_shape_of(b, t->of.run_fd, t->key);
	t->of.key = t->key;
	/* Without it the memory is read from QEMU. */
	if (*b->template && !t->of.disk_only)
		t->of.template_fd = template_memory(b->w, b->template, &none);
	return 0;
}

/* Everything that the child needs is open before it starts: what ends
 * meanwhile leads nowhere. */
static int snap_start(struct turn *turn, struct err *e)
{
	struct snap *t = container_of(turn, struct snap, turn);
	struct warden *w = turn->w;
	const struct box *b = turn->box;
	int fd = store_snapshot_open(&w->store, t->spec.snap, e);

	if (fd >= 0) {
		close(fd);
		return err_set(e, EEXIST, "snapshot %s exists", t->spec.snap);
	}
	err_clear(e);
	if (hold_find(w, t->spec.snap))
		return err_set(e, EEXIST, "snapshot %s exists", t->spec.snap);
	t->tree_fd = store_volume_read(&w->store, b->spec.id, e);
	if (t->tree_fd < 0)
		return t->tree_fd;
	t->group_fd = cgroup_open(&w->cg, b->slot, e);
	if (t->group_fd < 0)
		return t->group_fd;
	t->thaw = !b->paused;
	t->slot = b->slot;
	if (b->spec.flags & LAUNCH_MICROVM && start_vm(t, e) < 0)
		return -e->code;
	/* Where a copy is the work of copying, each launch does its own. */
	if (!store_copies_pay(&w->store))
		t->spec.copies = 0;
	if (t->spec.copies > 0)
		t->family = store_reserve(&w->store, t->spec.copies);
	if (job_start(&t->job, e) < 0) {
		if (t->spec.copies > 0)
			store_release(&w->store);
		return -e->code;
	}
	hold_add(w, t->spec.snap)->making = true;
	return 0;
}

void box_snapshot(struct box *b, const struct snapshot_spec *s,
		  struct waiter *wt)
{
	struct snap *t = xcalloc(1, sizeof(*t));

	t->job = (struct job){ .w = b->w,
			       .work = snap_work,
			       .done = snap_done,
			       .answer = &t->out,
			       .answer_len = sizeof(t->out),
			       .urgent = true,
			       .said.fd = -1,
			       .pid_fd = -1 };
	t->spec = *s;
	t->group_fd = t->tree_fd = -1;
	t->of.template_fd = t->of.process_fd = t->of.run_fd = -1;
	t->turn.start = snap_start;
	t->turn.over = snap_over;
	turn_take(b, &t->turn, wt);
}

/* --- disks that start as a snapshot --- */

struct clone {
	struct job job;
	struct box *box; /* waits for us */
	uint64_t family;
	struct deferred gone;
};

static void clone_free(struct deferred *d)
{
	free(container_of(d, struct clone, gone));
}

struct disk_spec disk_of(const struct launch_spec *s)
{
	uint64_t bytes =
		s->flags & LAUNCH_MICROVM ? vm_volume_bytes(s) : s->disk_bytes;

	return (struct disk_spec){
		.id = s->id,
		.bytes = WALL(QUOTA) ? bytes : 1ULL << 50,
		.allow_unlimited = s->flags & LAUNCH_ALLOW_MISSING_DISK,
	};
}

static int clone_work(struct job *j, struct err *e)
{
	const struct clone *c = container_of(j, struct clone, job);
	const struct disk_spec disk = disk_of(&c->box->spec);

	return store_volume_from(&j->w->store, &disk, c->box->spec.from,
				 c->family, e);
}

static void clone_done(struct job *j, const struct err *e)
{
	struct clone *c = container_of(j, struct clone, job);
	struct box *b = c->box;

	store_release(&j->w->store);
	snapshot_release(j->w, b->spec.from);
	if (!j->w->store.simple_quota)
		sweep_soon(j->w);
	b->disk = NULL;
	box_disk_made(b, e);
	loop_defer(&j->w->loop, &c->gone, clone_free);
}

int disk_start(struct box *b, struct err *e)
{
	struct warden *w = b->w;
	struct clone *c;
	int r;

	if (copy_take(w, &b->spec))
		return 0;
	r = snapshot_hold(w, b->spec.from, e);
	if (r < 0)
		return r;
	c = xcalloc(1, sizeof(*c));
	c->job = (struct job){ .w = w,
			       .work = clone_work,
			       .done = clone_done,
			       .urgent = true,
			       .said.fd = -1,
			       .pid_fd = -1 };
	c->box = b;
	c->family = store_reserve(&w->store, 1);
	r = job_start(&c->job, e);
	if (r < 0) {
		store_release(&w->store);
		snapshot_release(w, b->spec.from);
		free(c);
		return r;
	}
	b->disk = c;
	return 0;
}
