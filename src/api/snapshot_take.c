/*
 * Taking snapshots. The warden makes one, then it gets its row, then whoever
 * asked hears of it. What users asked for is finished when they leave; what
 * only somebody of ours wanted goes again then.
 *
 * A sandbox is frozen for each, so those of one sandbox stand in line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/audit.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"

static void start_next(struct sandbox *s);

/* What is said to users about a failure inside of the warden. */
static int take_code(int code)
{
	switch (code) {
	case ENOSPC:
	case EDQUOT:
	case ENOTSUP:
	case EBUSY:
	case EAGAIN:
	case ESRCH:
	case ETIMEDOUT:
	case WARDEN_AWAY:
		return code;
	default:
		return EIO;
	}
}

static void leave_line(struct snapshot *snap)
{
	struct sandbox *s = snap->box;

	list_del(&snap->in_line);
	snap->box = NULL;
	snap->taking = false;
	if (s)
		start_next(s);
}

/* There is none: it was not made, or nobody could write it down. */
static void failed(struct snapshot *snap, const struct err *e)
{
	struct snapshot_take *t = snap->taker;

	snap->taker = NULL;
	snap->kind = SNAPSHOT_TEMP;
	leave_line(snap);
	snapshot_settle(snap);
	if (t) {
		t->snap = NULL;
		t->done(t, NULL, e);
	}
}

/*
 * A snapshot that a user was told about survives a loss of power; where forks
 * start gets its row with theirs.
 */
static int write_row(struct snapshot *snap, struct err *e)
{
	struct registry *r = &snap->api->registry;
	int rc;

	if (snap->kind == SNAPSHOT_TEMP || snap->kind == SNAPSHOT_DISK ||
	    snap->kind == SNAPSHOT_FORK)
		return 0;
	if (snapshot_save_base(snap, e) < 0)
		return -e->code;
	if (snap->kind == SNAPSHOT_AUTO)
		return snapshot_save(snap, e);
	rc = registry_begin_durable(r, e);
	if (rc < 0)
		return rc;
	rc = registry_end(r, snapshot_save(snap, e), e);
	snap->has_row = rc == 0;
	return rc;
}

static void taken(struct snapshot *snap)
{
	struct snapshot_take *t = snap->taker;

	snap->taker = NULL;
	snap->holds++;
	leave_line(snap);
	if (!t) {
		snapshot_release(snap);
		return;
	}
	t->snap = NULL;
	t->done(t, snap, NULL);
}

static void on_taken(struct warden_call *c, const struct warden_rep *rep,
		     int fds[FD_PASS_MAX])
{
	struct snapshot *snap = container_of(c, struct snapshot, call);
	struct err e = { 0 };

	(void)fds;
	if (rep->err.code) {
		e = rep->err;
		e.code = take_code(e.code);
		failed(snap, &e);
		return;
	}
	snap->bytes = rep->snapshot.bytes;
	snap->pause_us = rep->snapshot.pause_us;
	snap->created_ms = clock_wall_ms();
	if (write_row(snap, &e) < 0)
		failed(snap, &e);
	else
		taken(snap);
}

static void start(struct snapshot *snap)
{
	struct sandbox *s = snap->box;

	/* As it is when its turn has come. */
	snapshot_describe(snap, s);
	snap->event = audit_next(s->api);
	warden_ask(&s->api->warden, &snap->call, on_taken);
}

static void start_next(struct sandbox *s)
{
	struct snapshot *snap;

	if (list_empty(&s->takes))
		return;
	snap = container_of(s->takes.next, struct snapshot, in_line);
	if (!snap->call.busy)
		start(snap);
}

void snapshot_describe(struct snapshot *snap, const struct sandbox *s)
{
	struct snapshot *base = snapshot_by_id(s->api, s->base);

	memcpy(snap->project, s->project, sizeof(snap->project));
	memcpy(snap->sandbox, s->id, sizeof(snap->sandbox));
	memcpy(snap->image_id, s->image_id, sizeof(snap->image_id));
	snprintf(snap->image, sizeof(snap->image), "%s", s->spec.image);
	account_release(snap->account);
	snap->account = account_hold(s->api, s->account->id, s->project);
	free(snap->spec);
	snap->spec = box_spec_text(s);
	snap->created_ms = clock_wall_ms();
	if (base && *snap->base == '\0') {
		memcpy(snap->base, base->id, sizeof(snap->base));
		base->n_snapshots++;
	}
}

static int check_name(struct api *a, const char *project, const char *name,
		      struct err *e)
{
	struct list *n, *next;

	if (!name_valid(name))
		return err_set(e, EINVAL,
			       "name: '%.64s' is not 1 to 63 of a-z, 0-9 and -",
			       name);
	list_each (n, next, &a->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);

		if (strcmp(snap->name, name) == 0 && !snap->removing &&
		    strcmp(snap->project, project) == 0)
			return err_set(e, EEXIST,
				       "the name '%s' is taken by a snapshot",
				       name);
	}
	return 0;
}

static int check_room(struct api *a, const char *project, struct err *e)
{
	struct list *n, *next;
	unsigned mine = 0;

	list_each (n, next, &a->snapshots.all)
		mine += strcmp(container_of(n, struct snapshot, node)->project,
			       project) == 0;
	if (mine >= SNAPSHOTS_PROJECT_MAX || a->snapshots.n >= SNAPSHOTS_MAX)
		return err_set(e, EMFILE,
			       "there are %u snapshots already: remove some",
			       mine);
	return 0;
}

static int check(struct sandbox *s, const char *name, struct err *e)
{
	if (s->state != BOX_RUNNING && s->state != BOX_PAUSED)
		return err_set(e, EBUSY,
			       "sandbox %s is %s: there is nothing to take a "
			       "snapshot of",
			       s->id, box_state_name(s->state));
	/* What runs is of the other tier than what is written down. */
	if (s->restart.move)
		return err_set(e, EBUSY, "sandbox %s is being moved: try again",
			       s->id);
	if (check_room(s->api, s->project, e) < 0)
		return -e->code;
	return *name ? check_name(s->api, s->project, name, e) : 0;
}

int snapshot_take(struct snapshot_take *t, struct sandbox *s,
		  const struct snapshot_ask *ask,
		  void (*done)(struct snapshot_take *t, struct snapshot *snap,
			       const struct err *e),
		  struct err *e)
{
	const char *name = ask->name ? ask->name : "";
	struct snapshot *snap;
	char id[ID_CAP];
	int r = check(s, name, e);

	/* The others go again, or take the place of what is there. */
	if (r == 0 && ask->kind < SNAPSHOT_DISK)
		r = project_disk_check(s->api, s->project, e);
	if (r < 0)
		return r;
	r = id_make(id);
	if (r < 0)
		return err_set(e, -r, "no random numbers");
	snap = snapshot_new(s->api, id, ask->kind);
	snap->taking = true;
	snprintf(snap->name, sizeof(snap->name), "%s", name);
	memcpy(snap->project, s->project, sizeof(snap->project));
	snap->box = s;
	snap->taker = t;
	t->snap = snap;
	t->done = done;
	warden_req_id(&snap->call, WARDEN_SNAPSHOT, "");
	memcpy(snap->call.req.snapshot.id, s->id, ID_LEN);
	memcpy(snap->call.req.snapshot.snap, snap->id, ID_LEN);
	snap->call.req.snapshot.flags =
		(ask->stay ? SNAPSHOT_STAY : 0u) |
		(ask->disk_only ? SNAPSHOT_DISK_ONLY : 0u);
	snap->call.req.snapshot.copies = ask->copies;
	list_add(&s->takes, &snap->in_line);
	if (s->takes.next == &snap->in_line)
		start(snap);
	return 0;
}

struct snapshot *snapshot_promote(struct sandbox *s, const char *name,
				  struct err *e)
{
	struct snapshot *disk = snapshot_by_id(s->api, s->disk);

	/* That of a persistent one is replaced when it ends once more. */
	if (s->restart.busy || !disk || disk->kind != SNAPSHOT_DISK ||
	    strcmp(disk->id, s->id) == 0) {
		err_set(e, EBUSY, "sandbox %s is %s: resume it first", s->id,
			box_state_name(s->state));
		return NULL;
	}
	if (*name && check_name(s->api, s->project, name, e) < 0)
		return NULL;
	disk->kind = SNAPSHOT_USER;
	disk->event = audit_next(s->api);
	snprintf(disk->name, sizeof(disk->name), "%s", name);
	if (write_row(disk, e) == 0)
		return disk;
	disk->kind = SNAPSHOT_DISK;
	*disk->name = '\0';
	disk->has_row = true;
	return NULL;
}

void snapshot_leave(struct snapshot_take *t)
{
	if (t->snap)
		t->snap->taker = NULL;
	t->snap = NULL;
}

void snapshots_orphan(struct sandbox *s)
{
	struct list *n, *next;
	struct err e = { 0 };

	err_set(&e, ESRCH, "sandbox %s has ended", s->id);
	list_each (n, next, &s->takes) {
		struct snapshot *snap =
			container_of(n, struct snapshot, in_line);

		snap->box = NULL;
		list_del(&snap->in_line);
		if (!snap->call.busy)
			failed(snap, &e);
	}
}
