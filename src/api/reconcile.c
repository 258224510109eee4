/*
 * Four walks in the order of ids, sandboxes, snapshots, images and volumes, one
 * question at a time; nobody else's request passes before they are done. If the
 * connection breaks on the way, the next one starts from the beginning.
 */
#include "api/reconcile.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/build.h"

static void finish(struct api *a)
{
	if (a->reconcile.killed || a->reconcile.dropped)
		log_info("reconciled: %u unknown sandboxes killed, "
			 "%u ended ones forgotten",
			 a->reconcile.killed, a->reconcile.dropped);
	warden_ready(&a->warden);
	builds_settle(a);
	api_serve(a);
	spares_poke(a);
}

static void ask_next(struct api *a, enum warden_op op, const char *after,
		     warden_fn *fn)
{
	warden_req_id(&a->reconcile.call, op, after);
	a->reconcile.call.early = true;
	warden_ask(&a->warden, &a->reconcile.call, fn);
}

static void drop_images(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->images.all) {
		struct image *img = container_of(n, struct image, node);

		if (img->seen == a->reconcile.round || img->removing)
			continue;
		log_err("image=%s id=%s is not in the pool any more, "
			"forgetting it",
			img->name, img->id);
		image_drop(a, img);
	}
}

static void on_volume(struct warden_call *c, const struct warden_rep *rep,
		      int fds[FD_PASS_MAX])
{
	struct api *a = container_of(c, struct api, reconcile.call);
	char id[ID_CAP];

	(void)fds;
	if (rep->err.code == WARDEN_AWAY)
		return;
	if (rep->err.code == 0) {
		memcpy(id, rep->volume.id, ID_CAP);
		id[ID_LEN] = '\0';
		volume_found(a, id);
		ask_next(a, WARDEN_VOLUME_NEXT, id, on_volume);
		return;
	}
	if (rep->err.code == ENOENT)
		volumes_settle(a);
	else
		log_err("list the volumes: %s, keeping what we know",
			rep->err.msg);
	finish(a);
}

static void on_image(struct warden_call *c, const struct warden_rep *rep,
		     int fds[FD_PASS_MAX])
{
	struct api *a = container_of(c, struct api, reconcile.call);
	struct image *img;
	char id[ID_CAP];

	(void)fds;
	if (rep->err.code == WARDEN_AWAY)
		return;
	if (rep->err.code == ENOENT) {
		drop_images(a);
		ask_next(a, WARDEN_VOLUME_NEXT, "", on_volume);
		return;
	}
	if (rep->err.code) {
		log_err("list the images: %s, keeping what we know",
			rep->err.msg);
		finish(a);
		return;
	}
	memcpy(id, rep->id, ID_CAP);
	id[ID_LEN] = '\0';
	img = image_by_id(a, id);
	if (img)
		img->seen = a->reconcile.round;
	else
		image_retire(a, id);
	ask_next(a, WARDEN_IMAGE_NEXT, id, on_image);
}

/* Should the warden have it? */
static bool has_processes(const struct sandbox *s)
{
	if (s->restart.move) /* its row has a disk until it is done */
		return false;
	return s->state == BOX_FOUND || s->state == BOX_RUNNING ||
	       s->state == BOX_PAUSED;
}

/* Launches that wait for the warden were never there: they stay. */
static void drop_sandboxes(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (s->seen == a->reconcile.round)
			continue;
		/* What it moves to was up: whoever waits finds that it is not.
		 */
		if (s->restart.move && !s->call.busy)
			s->ended = true;
		if (!has_processes(s))
			continue;
		a->reconcile.dropped++;
		box_gone(s, "ended while the daemon was down", NULL);
	}
}

/* Those that are being taken were never there. */
static void drop_snapshots(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);

		if (snap->seen != a->reconcile.round && !snap->taking &&
		    !snap->removing)
			snapshot_lost(snap);
	}
}

/* Is it the disk of one that ended while nobody looked? */
static bool is_left_over(struct api *a, const char *id)
{
	struct sandbox *s = box_by_id(a, id);
	struct err e = { 0 };

	if (!s || !s->told || !s->spec.persist || !has_processes(s) ||
	    s->seen == a->reconcile.round)
		return false;
	s->seen = a->reconcile.round;
	if (box_keep_disk(s, "ended while the daemon was down", NULL, &e) < 0)
		log_err("sandbox=%s %s, trying again later", s->id, e.msg);
	return true;
}

static void on_snapshot(struct warden_call *c, const struct warden_rep *rep,
			int fds[FD_PASS_MAX])
{
	struct api *a = container_of(c, struct api, reconcile.call);
	struct snapshot *snap;
	char id[ID_CAP];

	(void)fds;
	if (rep->err.code == WARDEN_AWAY)
		return;
	if (rep->err.code == ENOENT) {
		drop_sandboxes(a);
		drop_snapshots(a);
		snapshots_settle(a);
		ask_next(a, WARDEN_IMAGE_NEXT, "", on_image);
		return;
	}
	if (rep->err.code) {
		log_err("list the snapshots: %s, keeping what we know",
			rep->err.msg);
		finish(a);
		return;
	}
	memcpy(id, rep->id, ID_CAP);
	id[ID_LEN] = '\0';
	if (!is_left_over(a, id)) {
		snap = snapshot_by_id(a, id);
		if (snap)
			snap->seen = a->reconcile.round;
		else
			snapshot_stray(a, id);
	}
	ask_next(a, WARDEN_SNAPSHOT_NEXT, id, on_snapshot);
}

/* A change of limits that we did not live to write down. */
static void take_limits(struct sandbox *s, const struct launch_spec *l)
{
	struct err e = { 0 };
	struct spec spec;

	if (l->mem_bytes == 0 ||
	    (l->mem_bytes == s->spec.mem_bytes && l->pids == s->spec.pids &&
	     l->cpus_milli == s->spec.cpus_milli))
		return;
	spec_copy(&spec, &s->spec);
	spec.mem_bytes = l->mem_bytes;
	spec.pids = l->pids;
	spec.cpus_milli = l->cpus_milli;
	box_respec(s, &spec);
	if (s->told && box_save(s, &e) < 0)
		log_err("sandbox=%s %s, ignoring", s->id, e.msg);
}

static void found(struct api *a, const struct launch_spec *l)
{
	struct sandbox *s = box_by_id(a, l->id);

	if (!s) {
		log_info("sandbox=%s is nobody's, killing it", l->id);
		a->reconcile.killed++;
		warden_chore(&a->warden, WARDEN_KILL, l->id);
		return;
	}
	s->seen = a->reconcile.round;
	s->kvm = l->flags & LAUNCH_KVM;
	/* Its row says what is to be left of it. */
	if (s->state == BOX_SUSPENDED)
		warden_chore(&a->warden, WARDEN_KILL, l->id);
	if (s->state == BOX_FOUND)
		box_adopt(s, l->flags & LAUNCH_PAUSED);
	else
		pause_found(s, l->flags & LAUNCH_PAUSED);
	if ((s->state == BOX_RUNNING || s->state == BOX_PAUSED) && !s->spare)
		take_limits(s, l);
}

static void on_sandbox(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX])
{
	struct api *a = container_of(c, struct api, reconcile.call);
	struct launch_spec l = rep->launch;

	(void)fds;
	if (rep->err.code == WARDEN_AWAY)
		return;
	if (rep->err.code && rep->err.code != ENOENT) {
		log_err("list the sandboxes: %s, keeping what we know",
			rep->err.msg);
		finish(a);
		return;
	}
	if (rep->err.code == ENOENT) {
		ask_next(a, WARDEN_SNAPSHOT_NEXT, "", on_snapshot);
		return;
	}
	l.id[ID_LEN] = '\0';
	found(a, &l);
	ask_next(a, WARDEN_NEXT, l.id, on_sandbox);
}

void reconcile_start(void *ctx)
{
	struct api *a = ctx;

	a->reconcile.round++;
	a->reconcile.killed = a->reconcile.dropped = 0;
	ask_next(a, WARDEN_NEXT, "", on_sandbox);
}

/* A machine's own last words are worth more than ours. */
static const char *why_ended(const struct sandbox *s, const struct err *e)
{
	if (e->code && spec_is_vm(&s->spec))
		return e->msg;
	return e->code ? "did not start" : "ended by itself";
}

/* One whose disk outlives it ended by itself. */
static bool keeps_disk(struct sandbox *s, const struct sandbox_use *last,
		       const char *why)
{
	struct err e = { 0 };

	if (!s->told || !s->spec.persist || !has_processes(s))
		return false;
	if (*s->reason) /* it was given up */
		why = s->reason;
	/* The row stays, and the next reconciliation finds the disk. */
	if (box_keep_disk(s, why, last, &e) < 0)
		log_err("sandbox=%s has ended, and that could not be written "
			"down: %s; its disk is kept, trying again later",
			s->id, e.msg);
	return true;
}

void reconcile_ended(void *ctx, const struct last_use *last,
		     const struct err *e)
{
	struct api *a = ctx;
	struct sandbox *s = box_by_id(a, last->id);

	if (!s || s->state == BOX_SUSPENDED)
		return;
	if (s->state == BOX_LAUNCHING || s->state == BOX_RESTARTING ||
	    (s->restart.move && s->state == BOX_RUNNING)) {
		s->ended = true;
	} else if (!keeps_disk(s, &last->use, why_ended(s, e)) &&
		   (s->state != BOX_ENDING || a->boxes.closing)) {
		if (e->code) /* a run is answered before the last step */
			agent_lost(&s->agent, EIO, e->msg);
		box_gone(s, why_ended(s, e), &last->use);
	}
}
