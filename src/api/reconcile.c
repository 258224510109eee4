/*
 * Four walks in the order of ids, sandboxes, snapshots, images and volumes, one
 * question at a time; nobody else's request passes before they are done. If the
 * connection breaks on the way, the next one starts from the beginning.
 *
 * Before them pool_id_check() decides whether the database and the pool belong
 * together. Only when both are of one generation is an object without a row a
 * leftover, to be removed; otherwise stray_keep() puts it aside.
 */
#include "api/reconcile.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/build.h"

/* Runs once, before clients can upload files. */
static void sweep_drive(struct api *a)
{
	struct err e = { 0 };

	if (!a->reconciled && drive_sweep(a, &e) < 0)
		log_err("%s, ignoring", e.msg);
}

static void finish(struct api *a, bool complete)
{
	sweep_drive(a);
	if (complete)
		strays_settle(a);
	pool_id_walked(a, complete);
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

		if (img->seen == a->reconcile.round || img->removing ||
		    stray_missing(a, img->id))
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
		volume_found(a, id, rep->volume.bytes);
		ask_next(a, WARDEN_VOLUME_NEXT, id, on_volume);
		return;
	}
	if (rep->err.code == ENOENT)
		volumes_settle(a);
	else
		log_err("list the volumes: %s, keeping what we know",
			rep->err.msg);
	finish(a, rep->err.code == ENOENT);
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
		finish(a, false);
		return;
	}
	memcpy(id, rep->id, ID_CAP);
	id[ID_LEN] = '\0';
	img = image_by_id(a, id);
	if (img) {
		img->seen = a->reconcile.round;
		stray_found(a, id);
	} else if (image_in_use(a, id, true) ||
		   !stray_keep(a, STRAY_IMAGE, id)) {
		image_retire(a, id);
	}
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

/*
 * A persistent one whose disk the pool does not have, and one of the two is
 * older than the other: it is suspended, with a disk that is missing.
 */
static bool keeps_row(struct sandbox *s)
{
	struct err e = { 0 };

	if (!s->told || !s->spec.persist || !stray_missing(s->api, s->id))
		return false;
	if (box_keep_disk(s, "the disk is not in the pool", NULL, &e) < 0)
		log_err("sandbox=%s %s, trying again later", s->id, e.msg);
	return true;
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
		if (!has_processes(s) || keeps_row(s))
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
		    !snap->removing &&
		    (snap->replaced || !stray_missing(a, snap->id)))
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

/* Of another process: every text has an end. */
static void end_texts(struct launch_spec *l)
{
	size_t i;

	l->id[ID_LEN] = l->image[ID_LEN] = l->from[ID_LEN] = '\0';
	l->hostname[NAME_CAP - 1] = '\0';
	for (i = 0; i < LAUNCH_VOLUMES_MAX; i++) {
		l->volumes[i].id[ID_LEN] = '\0';
		l->volumes[i].path[LAUNCH_PATH_CAP - 1] = '\0';
	}
}

static void found_snapshot(struct api *a, const char *id,
			   const struct launch_spec *l)
{
	struct snapshot *snap = snapshot_by_id(a, id);
	struct stray *stray;

	if (snap) {
		snap->seen = a->reconcile.round;
		stray_found(a, id);
		return;
	}
	stray = stray_keep(a, STRAY_SNAPSHOT, id);
	if (!stray) {
		snapshot_stray(a, id);
		return;
	}
	stray->launch = *l;
	end_texts(&stray->launch);
}

static void on_snapshot(struct warden_call *c, const struct warden_rep *rep,
			int fds[FD_PASS_MAX])
{
	struct api *a = container_of(c, struct api, reconcile.call);
	struct launch_spec l = rep->launch;
	char id[ID_CAP];

	(void)fds;
	if (rep->err.code == WARDEN_AWAY)
		return;
	if (rep->err.code == ENOENT) {
		drop_sandboxes(a);
		drop_snapshots(a);
		if (a->pool_id.current)
			snapshots_settle(a);
		ask_next(a, WARDEN_IMAGE_NEXT, "", on_image);
		return;
	}
	if (rep->err.code) {
		log_err("list the snapshots: %s, keeping what we know",
			rep->err.msg);
		finish(a, false);
		return;
	}
	memcpy(id, rep->id, ID_CAP);
	id[ID_LEN] = '\0';
	if (!is_left_over(a, id))
		found_snapshot(a, id, &l);
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

/* A spare, the sandbox of a run, a create that was cut off: or its row is
 * lost. */
static void found_nobodys(struct api *a, const struct launch_spec *l)
{
	/* The sandbox of a run, and one that looks at a disk, never have a
	 * row. */
	bool never = l->flags & (LAUNCH_EARLY | LAUNCH_LOOK);
	struct stray *stray =
		never ? NULL : stray_keep(a, STRAY_SANDBOX, l->id);

	if (stray) {
		stray->launch = *l;
		end_texts(&stray->launch);
		return;
	}
	log_info("sandbox=%s has no row, killing it", l->id);
	a->reconcile.killed++;
	warden_chore(&a->warden, WARDEN_KILL, l->id);
}

/* A database that is older than the pool has not seen it resumed. */
static void box_runs_again(struct sandbox *s)
{
	struct snapshot *disk = snapshot_by_id(s->api, s->disk);
	struct err e = { 0 };

	/* A resume removes the disk. If it still exists, keep it as a user
	 * snapshot: a client may have asked to keep it. */
	if (disk) {
		disk->kind = SNAPSHOT_USER;
		disk->replaced = true;
	}
	s->state = BOX_FOUND;
	box_set_disk(s, "");
	box_count(s, true);
	meter_start(s);
	if ((disk && snapshot_save(disk, &e) < 0) || box_save(s, &e) < 0)
		log_err("sandbox=%s %s, ignoring", s->id, e.msg);
}

static void found(struct api *a, const struct launch_spec *l)
{
	struct sandbox *s = box_by_id(a, l->id);

	if (!s) {
		found_nobodys(a, l);
		return;
	}
	s->seen = a->reconcile.round;
	s->kvm = l->flags & LAUNCH_KVM;
	stray_found(a, l->id);
	if (s->state == BOX_SUSPENDED && !a->pool_id.current)
		box_runs_again(s);
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
		finish(a, false);
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

	warden_cancel(&a->reconcile.call);
	pool_id_check(a);
}

void reconcile_walk(struct api *a)
{
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
