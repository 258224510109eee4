/*
 * The table of snapshots, and when one goes.
 *
 * A row goes before its snapshot does, and comes after it: what the pool has
 * without a row is a leftover, which the next reconciliation removes.
 */
#include "api/snapshots.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/buf.h"

enum { AGAIN_MS = 200 };

static const char *const kind_names[] = {
	[SNAPSHOT_USER] = "user", [SNAPSHOT_AUTO] = "auto",
	[SNAPSHOT_OWN] = "own",   [SNAPSHOT_FORK] = "fork",
	[SNAPSHOT_DISK] = "disk", [SNAPSHOT_TEMP] = "temp",
};
static_assert(ARRAY_LEN(kind_names) == SNAPSHOT_KINDS, "a name for each");

const char *snapshot_kind_name(enum snapshot_kind k)
{
	return kind_names[k];
}

static struct list *bucket(struct snapshots *t, const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619u;
	return &t->ids[h % SNAPSHOT_BUCKETS];
}

void snapshots_init(struct api *a)
{
	size_t i;

	list_init(&a->snapshots.all);
	for (i = 0; i < SNAPSHOT_BUCKETS; i++)
		list_init(&a->snapshots.ids[i]);
}

struct snapshot *snapshot_new(struct api *a, const char *id,
			      enum snapshot_kind kind)
{
	struct snapshot *snap = xcalloc(1, sizeof(*snap));

	snap->api = a;
	snprintf(snap->id, sizeof(snap->id), "%s", id);
	snap->kind = kind;
	snap->seen = a->reconcile.round;
	list_init(&snap->in_line);
	list_add(&a->snapshots.all, &snap->node);
	list_add(bucket(&a->snapshots, snap->id), &snap->by_id);
	a->snapshots.n++;
	return snap;
}

struct snapshot *snapshot_by_id(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, bucket(&a->snapshots, id)) {
		struct snapshot *snap = container_of(n, struct snapshot, by_id);

		if (strcmp(snap->id, id) == 0)
			return snap;
	}
	return NULL;
}

bool snapshot_visible(const struct snapshot *snap)
{
	return !snap->taking && !snap->removing &&
	       (snap->kind == SNAPSHOT_USER || snapshot_is_own(snap));
}

/* By name; or, `part`, by the start of an id, or a name in any project. */
static struct snapshot *search(struct api *a, const struct identity *who,
			       const char *ref, bool part, struct err *e)
{
	enum { PREFIX_MIN = 4 };
	bool prefix = strlen(ref) >= PREFIX_MIN, name = *who->project == '\0';
	struct snapshot *found = NULL;
	struct list *n, *next;

	list_each (n, next, &a->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);
		bool named = strcmp(snap->name, ref) == 0;
		bool fits = part ? (prefix && str_starts(snap->id, ref)) ||
					    (name && named)
				 : named && strcmp(snap->project,
						   who_project(who)) == 0;

		if (!fits || !snapshot_visible(snap) ||
		    !who_sees(who, snap->project))
			continue;
		if (found) {
			err_set(e, EEXIST,
				"'%.64s' could be several snapshots: give more "
				"of an id",
				ref);
			return NULL;
		}
		found = snap;
	}
	return found;
}

struct snapshot *snapshot_find(struct api *a, const struct identity *who,
			       const char *ref, struct err *e)
{
	struct snapshot *snap = snapshot_by_id(a, ref);

	if (snap && (!snapshot_visible(snap) || !who_sees(who, snap->project)))
		snap = NULL;
	if (!snap && *ref)
		snap = search(a, who, ref, false, e);
	if (!snap && *ref && e->code == 0)
		snap = search(a, who, ref, true, e);
	if (!snap && e->code == 0)
		err_set(e, ENOENT, "no snapshot '%.64s'", ref);
	return snap;
}

struct snapshot *snapshot_at(struct api *a, const char *sandbox, uint64_t event)
{
	struct snapshot *found = NULL;
	struct list *n, *next;

	/* Of two of the same entry, the one that was made later. */
	list_each (n, next, &a->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);

		if (snapshot_visible(snap) && snap->event <= event &&
		    strcmp(snap->sandbox, sandbox) == 0 &&
		    (!found || snap->event >= found->event))
			found = snap;
	}
	return found;
}

bool snapshot_uses_image(struct api *a, const char *image_id)
{
	struct list *n, *next;

	list_each (n, next, &a->snapshots.all)
		if (strcmp(container_of(n, struct snapshot, node)->image_id,
			   image_id) == 0)
			return true;
	return false;
}

json_t *snapshot_json(const struct snapshot *snap)
{
	return json_pack(
		"{s:s, s:s?, s:s, s:s, s:s, s:s, s:s?, s:s, s:I, s:I,"
		" s:I, s:o}",
		"id", snap->id, "name", *snap->name ? snap->name : NULL,
		"sandbox", snap->sandbox, "project", snap->project, "image",
		snap->image, "image_id", snap->image_id, "base",
		*snap->base ? snap->base : NULL, "kind", kind_names[snap->kind],
		"bytes", (json_int_t)snap->bytes, "pause_us",
		(json_int_t)snap->pause_us, "event", (json_int_t)snap->event,
		"created_at", json_time(snap->created_ms));
}

int snapshot_spec(const struct snapshot *snap, struct spec *out, struct err *e)
{
	json_t *j = snap->spec ? json_loads(snap->spec, 0, NULL) : NULL;
	int r;

	spec_kept(out, &snap->api->conf);
	r = spec_from_json(out, j, e);
	json_decref(j);
	*out->name = '\0';
	return r < 0 ? err_wrap(e, "spec of snapshot %s", snap->id) : 0;
}

/* --- rows --- */

int snapshot_save(struct snapshot *snap, struct err *e)
{
	const struct snapshot_row row = {
		.id = snap->id,
		.project = snap->project,
		.name = snap->name,
		.kind = kind_names[snap->kind],
		.sandbox = snap->sandbox,
		.base = snap->base,
		.account = snap->account ? snap->account->id : "",
		.image_id = snap->image_id,
		.image = snap->image,
		.spec = snap->spec ? snap->spec : "{}",
		.bytes = snap->bytes,
		.pause_us = snap->pause_us,
		.event = snap->event,
		.created_ms = snap->created_ms,
	};
	int r = registry_snapshot_put(&snap->api->registry, &row, e);

	snap->has_row |= r == 0;
	api_registry_touched(snap->api);
	pool_id_touch(snap->api);
	return r;
}

int snapshot_save_base(const struct snapshot *snap, struct err *e)
{
	struct snapshot *base = snapshot_by_id(snap->api, snap->base);

	if (!base || base->kind != SNAPSHOT_FORK || base->has_row)
		return 0;
	if (snapshot_save_base(base, e) < 0)
		return -e->code;
	return snapshot_save(base, e);
}

static void forget_row(struct snapshot *snap)
{
	struct err e = { 0 };

	if (!snap->has_row)
		return;
	if (registry_snapshot_remove(&snap->api->registry, snap->id, &e) < 0)
		log_err("snapshot=%s %s, ignoring", snap->id, e.msg);
	snap->has_row = false;
	api_registry_touched(snap->api);
}

static int kind_of(const char *name)
{
	size_t i;

	for (i = 0; i < SNAPSHOT_TEMP; i++)
		if (strcmp(kind_names[i], name) == 0)
			return (int)i;
	return -EINVAL;
}

static int load_row(void *arg, const struct snapshot_row *row)
{
	struct api *a = arg;
	int kind = kind_of(row->kind);
	struct snapshot *snap;

	if (!id_valid(row->id) || !id_valid(row->image_id) ||
	    !id_valid(row->sandbox) || !name_valid(row->project) || kind < 0 ||
	    (*row->name && !name_valid(row->name)) ||
	    (*row->base && !id_valid(row->base))) {
		log_err("snapshot=%.64s bad row in the registry, ignoring",
			row->id);
		a->pool_id.bad_rows = true;
		return 0;
	}
	snap = snapshot_new(a, row->id, (enum snapshot_kind)kind);
	snprintf(snap->project, sizeof(snap->project), "%s", row->project);
	snprintf(snap->name, sizeof(snap->name), "%s", row->name);
	snprintf(snap->sandbox, sizeof(snap->sandbox), "%s", row->sandbox);
	snprintf(snap->base, sizeof(snap->base), "%s", row->base);
	snprintf(snap->image_id, sizeof(snap->image_id), "%s", row->image_id);
	snprintf(snap->image, sizeof(snap->image), "%s", row->image);
	snap->account = account_hold(
		a, id_valid(row->account) ? row->account : row->sandbox,
		row->project);
	/* Its sandbox may have ended before this process began. */
	snap->account->kept = true;
	snap->spec = xstrdup(row->spec);
	snap->bytes = row->bytes;
	snap->pause_us = row->pause_us;
	snap->event = row->event;
	snap->created_ms = row->created_ms;
	snap->has_row = true;
	return 0;
}

int snapshots_load(struct api *a, struct err *e)
{
	int r = registry_snapshot_each(&a->registry, load_row, a, e);
	struct list *n, *next;

	list_each (n, next, &a->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);
		struct snapshot *base = snapshot_by_id(a, snap->base);

		if (base)
			base->n_snapshots++;
		else
			*snap->base = '\0';
	}
	return r;
}

/* --- how one goes --- */

static void ask_remove(struct snapshot *snap);

static void snapshot_free(struct deferred *d)
{
	struct snapshot *snap = container_of(d, struct snapshot, gone);

	account_release(snap->account);
	free(snap->spec);
	free(snap);
}

static struct snapshot *leave_base(struct snapshot *snap)
{
	struct snapshot *base = snapshot_by_id(snap->api, snap->base);

	*snap->base = '\0';
	if (base)
		base->n_snapshots--;
	return base;
}

/* Out of the table; the memory stays until the end of the turn. */
static void forget(struct snapshot *snap)
{
	struct api *a = snap->api;
	struct snapshot *base = leave_base(snap);

	forget_row(snap);
	timer_del(&a->loop, &snap->again);
	warden_cancel(&snap->call);
	list_del(&snap->node);
	list_del(&snap->by_id);
	list_del(&snap->in_line);
	a->snapshots.n--;
	loop_defer(&a->loop, &snap->gone, snapshot_free);
	if (*snap->image_id)
		images_unused(a, snap->image_id);
	if (base)
		snapshot_settle(base);
}

void snapshot_unlist(struct snapshot *snap)
{
	snap->removing = true;
	forget(snap);
}

static void remove_again(struct timer *t)
{
	ask_remove(container_of(t, struct snapshot, again));
}

static void on_removed(struct warden_call *c, const struct warden_rep *rep,
		       int fds[FD_PASS_MAX])
{
	struct snapshot *snap = container_of(c, struct snapshot, call);

	(void)fds;
	/* Somebody looks at it. */
	if (rep->err.code == EBUSY) {
		timer_set(&snap->api->loop, &snap->again, AGAIN_MS,
			  remove_again);
		return;
	}
	/* Nobody to ask: the next reconciliation tries again. */
	if (rep->err.code && rep->err.code != ENOENT)
		log_warn("snapshot=%s not removed: %s", snap->id, rep->err.msg);
	forget(snap);
}

static void ask_remove(struct snapshot *snap)
{
	warden_req_id(&snap->call, WARDEN_SNAPSHOT_REMOVE, snap->id);
	warden_ask(&snap->api->warden, &snap->call, on_removed);
}

static void remove_now(struct snapshot *snap)
{
	snap->removing = true;
	forget_row(snap);
	ask_remove(snap);
}

/* The one that has `base` as its base. */
static struct snapshot *child_of(const struct snapshot *base)
{
	struct list *n, *next;

	list_each (n, next, &base->api->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);

		if (strcmp(snap->base, base->id) == 0)
			return snap;
	}
	return NULL;
}

/*
 * An ancestor is needed where ways part. One that has a single child left
 * hands it to its own base: whoever forks or rolls back again and again does
 * not leave a chain behind.
 */
static void hand_over_child(struct snapshot *snap)
{
	struct snapshot *child = child_of(snap);
	struct snapshot *base = snapshot_by_id(snap->api, snap->base);
	struct err e = { 0 };

	assert(child);
	snprintf(child->base, sizeof(child->base), "%s", snap->base);
	snap->n_snapshots--;
	if (base)
		base->n_snapshots++;
	if (child->has_row && snapshot_save(child, &e) < 0)
		log_err("snapshot=%s %s, ignoring", child->id, e.msg);
}

static bool is_needed(const struct snapshot *snap)
{
	const struct snapshot *child;

	if (snap->holds > 0 || snap->taking || snap->n_boxes > 0 ||
	    snapshot_visible(snap) || snap->n_snapshots > 1)
		return true;
	/* Where the snapshot of a fork and its parent parted. */
	child = snap->n_snapshots == 1 ? child_of(snap) : NULL;
	return child && strcmp(child->sandbox, snap->sandbox) != 0 &&
	       box_by_id(snap->api, snap->sandbox);
}

void snapshot_settle(struct snapshot *snap)
{
	if (snap->removing || is_needed(snap))
		return;
	if (snap->n_snapshots == 1)
		hand_over_child(snap);
	remove_now(snap);
}

void snapshots_settle(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->snapshots.all)
		snapshot_settle(container_of(n, struct snapshot, node));
}

void snapshot_hold(struct snapshot *snap)
{
	snap->holds++;
}

void snapshot_release(struct snapshot *snap)
{
	assert(snap->holds > 0);
	snap->holds--;
	snapshot_settle(snap);
}

void snapshot_ref(struct api *a, const char *id)
{
	struct snapshot *snap = snapshot_by_id(a, id);

	if (snap)
		snap->n_boxes++;
}

void snapshot_unref(struct api *a, const char *id)
{
	struct snapshot *snap = snapshot_by_id(a, id);

	if (!snap)
		return;
	snap->n_boxes--;
	snapshot_settle(snap);
}

/* Without its name and as nobody's, it is needed only if it is. */
int snapshot_drop(struct snapshot *snap, struct err *e)
{
	enum snapshot_kind kind = snap->kind;
	char name[NAME_CAP];
	int r = 0;

	memcpy(name, snap->name, sizeof(name));
	*snap->name = '\0';
	snap->kind = SNAPSHOT_FORK;
	if (is_needed(snap) && snap->has_row)
		r = snapshot_save(snap, e);
	if (r < 0) {
		memcpy(snap->name, name, sizeof(name));
		snap->kind = kind;
		return r;
	}
	snapshot_settle(snap);
	return 0;
}

void snapshots_of_removed(struct api *a, const char *sandbox, bool all)
{
	struct list *n, *next;
	struct err e = { 0 };

	list_each (n, next, &a->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);

		if (!snapshot_visible(snap) ||
		    strcmp(snap->sandbox, sandbox) != 0 ||
		    (!all && !snapshot_is_own(snap)))
			continue;
		audit_add(a, &(struct audit){ .type = "snapshot.remove",
					      .data = snapshot_json(snap) });
		if (snapshot_drop(snap, &e) < 0) {
			log_err("snapshot=%s %s, ignoring", snap->id, e.msg);
			err_clear(&e);
		}
	}
}

void snapshot_revive(struct snapshot *snap)
{
	if (!snap->removing)
		return;
	snap->removing = false;
	snap->kind = SNAPSHOT_DISK;
	timer_del(&snap->api->loop, &snap->again);
	warden_cancel(&snap->call);
}

/* --- what the pool has --- */

void snapshot_stray(struct api *a, const char *id)
{
	struct snapshot *snap = snapshot_new(a, id, SNAPSHOT_TEMP);

	log_info("snapshot=%s has no row, removing it", id);
	remove_now(snap);
}

static void forget_as_base(struct snapshot *lost)
{
	struct api *a = lost->api;
	struct list *n, *next;
	struct err e = { 0 };

	list_each (n, next, &a->snapshots.all) {
		struct snapshot *snap = container_of(n, struct snapshot, node);

		if (strcmp(snap->base, lost->id) != 0)
			continue;
		leave_base(snap);
		if (snap->has_row && snapshot_save(snap, &e) < 0) {
			log_err("snapshot=%s %s, ignoring", snap->id, e.msg);
			err_clear(&e);
		}
	}
}

void snapshot_lost(struct snapshot *snap)
{
	log_err("snapshot=%s name=%s is not in the pool any more, forgetting "
		"it",
		snap->id, *snap->name ? snap->name : "-");
	snap->removing = true;
	forget_as_base(snap);
	boxes_lost_disk(snap->api, snap->id);
	forget(snap);
}
