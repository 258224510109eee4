#include "api/strays.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "registry/pool.h"

enum { HOUR_MS = 3600 * 1000, AGAIN_MS = 200 };

static const char *const kind_names[] = {
	[STRAY_IMAGE] = "image",       [STRAY_VOLUME] = "volume",
	[STRAY_SNAPSHOT] = "snapshot", [STRAY_SANDBOX] = "sandbox",
	[STRAY_DRIVE] = "drive",       [STRAY_MISSING] = "missing",
};
static_assert(ARRAY_LEN(kind_names) == STRAY_KINDS, "a name for each");

const char *stray_kind_name(enum stray_kind k)
{
	return kind_names[k];
}

/* --- the table --- */

static struct stray *add(struct api *a, enum stray_kind kind, const char *id)
{
	struct stray *s = xcalloc(1, sizeof(*s));

	s->api = a;
	s->kind = kind;
	snprintf(s->id, sizeof(s->id), "%s", id);
	list_add(&a->strays.all, &s->node);
	a->strays.n++;
	return s;
}

static int load_row(void *arg, const struct stray_row *row)
{
	struct stray *s;
	size_t k;

	for (k = 0; k < STRAY_KINDS; k++)
		if (strcmp(kind_names[k], row->kind) == 0)
			break;
	if (k == STRAY_KINDS || strlen(row->id) >= STRAY_ID_CAP)
		return 0;
	s = add(arg, (enum stray_kind)k, row->id);
	s->since_ms = row->since_ms;
	s->hours = row->hours;
	return 0;
}

struct stray *stray_find(struct api *a, enum stray_kind kind, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->strays.all) {
		struct stray *s = container_of(n, struct stray, node);

		if (s->kind == kind && strcmp(s->id, id) == 0)
			return s;
	}
	return NULL;
}

void stray_forget(struct api *a, struct stray *s)
{
	struct err e = { 0 };

	if (registry_stray_remove(&a->registry, kind_names[s->kind], s->id,
				  &e) < 0)
		log_err("%s=%s %s, ignoring", kind_names[s->kind], s->id,
			e.msg);
	warden_cancel(&s->call);
	timer_del(&a->loop, &s->again);
	list_del(&s->node);
	a->strays.n--;
	free(s);
}

/* Writes the row first, so that the stray is still one after a crash. */
static struct stray *put_aside(struct api *a, enum stray_kind kind,
			       const char *id)
{
	const struct stray_row row = { .kind = kind_names[kind],
				       .id = id,
				       .since_ms = clock_wall_ms() };
	struct err e = { 0 };
	struct stray *s;

	if (registry_stray_add(&a->registry, &row, &e) < 0)
		log_err("%s=%s %s", row.kind, id, e.msg);
	s = add(a, kind, id);
	s->since_ms = row.since_ms;
	return s;
}

/* --- reconciliation --- */

struct stray *stray_keep(struct api *a, enum stray_kind kind, const char *id)
{
	struct stray *s = stray_find(a, kind, id);

	/* Volumes have their row before they are made: one without is never a
	 * leftover. */
	if (!s && a->pool_id.current && kind != STRAY_VOLUME)
		return NULL;
	if (!s) {
		log_warn("%s=%s has no row in the database: kept as a stray",
			 kind_names[kind], id);
		s = put_aside(a, kind, id);
	}
	s->seen = a->reconcile.round;
	return s;
}

bool stray_missing(struct api *a, const char *id)
{
	if (stray_find(a, STRAY_MISSING, id))
		return true;
	if (a->pool_id.current)
		return false;
	put_aside(a, STRAY_MISSING, id);
	return true;
}

static void forget_kind(struct api *a, enum stray_kind kind, const char *id)
{
	struct stray *s = stray_find(a, kind, id);

	if (s)
		stray_forget(a, s);
}

void stray_found(struct api *a, const char *id)
{
	size_t k;

	if (a->strays.n == 0)
		return;
	for (k = 0; k < STRAY_KINDS; k++)
		forget_kind(a, (enum stray_kind)k, id);
}

/* Has the user removed the row? */
static bool has_row(struct api *a, const char *id)
{
	return image_by_id(a, id) || snapshot_by_id(a, id) || box_by_id(a, id);
}

void strays_settle(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->strays.all) {
		struct stray *s = container_of(n, struct stray, node);

		if (s->kind == STRAY_MISSING ? !has_row(a, s->id)
					     : s->seen != a->reconcile.round)
			stray_forget(a, s);
	}
}

/* --- removing them --- */

static bool has_volume(const struct launch_spec *l, const char *id)
{
	size_t i;

	for (i = 0; i < LAUNCH_VOLUMES_MAX; i++)
		if (strcmp(l->volumes[i].id, id) == 0)
			return true;
	return false;
}

/* Do other strays need it, or what has a row? */
static int may_remove(struct api *a, const struct stray *s, struct err *e)
{
	const struct list *n;

	if (s->kind != STRAY_IMAGE && s->kind != STRAY_VOLUME)
		return 0;
	for (n = a->strays.all.next; n != &a->strays.all; n = n->next) {
		const struct stray *o = container_of(n, struct stray, node);

		if (strcmp(o->launch.image, s->id) == 0 ||
		    has_volume(&o->launch, s->id))
			return err_set(e, EBUSY, "the stray %s %s needs it",
				       kind_names[o->kind], o->id);
	}
	if (image_in_use(a, s->id, true))
		return err_set(e, EBUSY, "a sandbox or snapshot needs it");
	return 0;
}

static void remove_volume(struct timer *t);

static void on_volume_removed(struct warden_call *c,
			      const struct warden_rep *rep,
			      int fds[FD_PASS_MAX])
{
	struct stray *s = container_of(c, struct stray, call);

	(void)fds;
	/* The sandbox that mounts the volume is still exiting: retry. */
	if (rep->err.code == EBUSY) {
		timer_set(&s->api->loop, &s->again, AGAIN_MS, remove_volume);
		return;
	}
	if (rep->err.code && rep->err.code != ENOENT)
		log_warn("volume=%s not removed: %s", s->id, rep->err.msg);
	else
		stray_forget(s->api, s);
}

static void remove_volume(struct timer *t)
{
	struct stray *s = container_of(t, struct stray, again);

	warden_req_id(&s->call, WARDEN_VOLUME_REMOVE, s->id);
	warden_ask(&s->api->warden, &s->call, on_volume_removed);
}

int stray_remove(struct api *a, struct stray *s, struct err *e)
{
	if (may_remove(a, s, e) < 0)
		return -e->code;
	log_info("%s=%s was a stray, removing it", kind_names[s->kind], s->id);
	switch (s->kind) {
	case STRAY_IMAGE:
		image_retire(a, s->id);
		break;
	case STRAY_VOLUME:
		if (!s->call.busy)
			remove_volume(&s->again);
		return 0;
	case STRAY_SNAPSHOT:
		snapshot_stray(a, s->id);
		break;
	case STRAY_SANDBOX:
		warden_chore(&a->warden, WARDEN_KILL, s->id);
		break;
	case STRAY_DRIVE:
		if (unlinkat(a->drive.dir_fd, s->id, 0) < 0 && errno != ENOENT)
			return err_sys(e, "remove %s of the drive", s->id);
		break;
	case STRAY_MISSING:
	case STRAY_KINDS:
		return err_set(e, EINVAL, "remove the row of %s instead",
			       s->id);
	}
	stray_forget(a, s);
	return 0;
}

/* Strays that others need go after them. */
static void remove_old(struct api *a)
{
	uint64_t hours = a->conf.stray_days * 24;
	struct list *n, *next;
	struct err e = { 0 };

	list_each (n, next, &a->strays.all) {
		struct stray *s = container_of(n, struct stray, node);

		if (s->kind == STRAY_MISSING || s->hours < hours)
			continue;
		if (stray_remove(a, s, &e) < 0)
			err_clear(&e);
	}
}

/* Hours of ours, not of the clock: a clock that jumps removes nothing. */
static void on_hour(struct timer *t)
{
	struct api *a = container_of(t, struct api, strays.hourly);
	struct list *n, *next;
	struct err e = { 0 };

	timer_set(&a->loop, t, HOUR_MS, on_hour);
	if (a->strays.n == 0 || !a->reconciled)
		return;
	if (registry_strays_age(&a->registry, &e) < 0)
		log_err("%s", e.msg);
	list_each (n, next, &a->strays.all)
		container_of(n, struct stray, node)->hours++;
	if (a->conf.stray_days > 0)
		remove_old(a);
}

int strays_load(struct api *a, struct err *e)
{
	list_init(&a->strays.all);
	timer_set(&a->loop, &a->strays.hourly, HOUR_MS, on_hour);
	return registry_stray_each(&a->registry, load_row, a, e);
}

/* --- as people see them --- */

json_t *stray_json(const struct stray *s)
{
	const struct launch_spec *l = &s->launch;

	return json_pack(
		"{s:s, s:s, s:o, s:o, s:o, s:o}", "kind", kind_names[s->kind],
		"id", s->id, "since", json_time(s->since_ms), "bytes",
		s->bytes ? json_integer((json_int_t)s->bytes) : json_null(),
		"image", *l->image ? json_string(l->image) : json_null(),
		"sandbox",
		s->kind == STRAY_SNAPSHOT && *l->from ? json_string(l->from)
						      : json_null());
}

json_t *strays_summary(struct api *a)
{
	const struct pool_id *p = &a->pool_id;
	struct list *n, *next;
	int missing = 0, volumes = 0;

	list_each (n, next, &a->strays.all)
		missing += container_of(n, struct stray, node)->kind ==
			   STRAY_MISSING;
	list_each (n, next, &a->volumes.all)
		volumes += container_of(n, struct volume, node)->missing;
	return json_pack("{s:s?, s:I, s:s?, s:i, s:i}", "pool",
			 *p->row.id ? p->row.id : NULL, "generation",
			 (json_int_t)p->row.generation, "held",
			 p->held ? p->why.msg : NULL, "strays",
			 (int)a->strays.n - missing, "missing",
			 missing + volumes);
}
