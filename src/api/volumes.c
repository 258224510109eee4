#include "api/volumes.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "registry/volumes.h"
#include "spec/mount.h"

static_assert((int)MOUNT_PATH_CAP <= (int)LAUNCH_PATH_CAP, "paths fit");
static_assert((int)SPEC_VOLUMES_MAX <= (int)LAUNCH_VOLUMES_MAX, "rows fit");

/* --- the table --- */

static struct volume *add(struct api *a, const char *id, const char *project,
			  const char *name)
{
	struct volume *v = xcalloc(1, sizeof(*v));

	snprintf(v->id, sizeof(v->id), "%s", id);
	snprintf(v->project, sizeof(v->project), "%s", project);
	snprintf(v->name, sizeof(v->name), "%s", name);
	list_add(&a->volumes.all, &v->node);
	a->volumes.n++;
	return v;
}

static int load_row(void *arg, const struct volume_row *row)
{
	struct volume *v;

	if (!id_valid(row->id) || !name_valid(row->project) ||
	    !name_valid(row->name)) {
		log_err("volume=%.64s bad row in the registry, ignoring",
			row->id);
		((struct api *)arg)->pool_id.bad_rows = true;
		return 0;
	}
	v = add(arg, row->id, row->project, row->name);
	v->bytes = row->bytes;
	v->created_ms = row->created_ms;
	return 0;
}

int volumes_load(struct api *a, struct err *e)
{
	list_init(&a->volumes.all);
	return registry_volume_each(&a->registry, load_row, a, e);
}

struct volume *volume_by_id(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->volumes.all) {
		struct volume *v = container_of(n, struct volume, node);

		if (strcmp(v->id, id) == 0)
			return v;
	}
	return NULL;
}

static struct volume *by_name(struct api *a, const char *project,
			      const char *name)
{
	struct list *n, *next;

	list_each (n, next, &a->volumes.all) {
		struct volume *v = container_of(n, struct volume, node);

		if (strcmp(v->name, name) == 0 &&
		    strcmp(v->project, project) == 0)
			return v;
	}
	return NULL;
}

bool volume_ready(const struct volume *v)
{
	return v->bytes != 0 && !v->making && !v->removing;
}

struct volume *volume_find(struct api *a, const struct identity *who,
			   const char *ref, struct err *e)
{
	struct volume *v = volume_by_id(a, ref), *found = NULL;
	struct list *n, *next;

	if (v && who_sees(who, v->project))
		return v;
	v = by_name(a, who_project(who), ref);
	if (v)
		return v;
	list_each (n, next, &a->volumes.all) {
		v = container_of(n, struct volume, node);
		if (strcmp(v->name, ref) != 0 || !who_sees(who, v->project))
			continue;
		if (found) {
			err_set(e, EEXIST,
				"several projects have a volume '%.64s': say "
				"its id",
				ref);
			return NULL;
		}
		found = v;
	}
	if (!found)
		err_set(e, ENOENT, "no volume '%.64s'", ref);
	return found;
}

/* The rule of share.h, for what is stored: volumes have no end to wait for. */
static int check_volumes(const struct api *a, const char *project,
			 struct err *e)
{
	const struct list *n;
	unsigned own = 0;

	for (n = a->volumes.all.next; n != &a->volumes.all; n = n->next)
		own += strcmp(container_of(n, struct volume, node)->project,
			      project) == 0;
	if (a->volumes.n >= VOLUMES_MAX)
		return err_set(e, EMFILE, "there are %d volumes: remove some",
			       VOLUMES_MAX);
	if (own > 0 && own >= VOLUMES_MAX - a->volumes.n)
		return err_set(e, EUSERS,
			       "project %s has its share of all volumes, %u of "
			       "%d: remove some",
			       project, own, VOLUMES_MAX);
	return 0;
}

struct volume *volume_add(struct api *a, const char *project, const char *name,
			  struct err *e)
{
	char id[ID_CAP];
	const struct volume_row row = { .id = id,
					.project = project,
					.name = name,
					.created_ms = clock_wall_ms() };
	struct volume *v;

	if (check_volumes(a, project, e) < 0)
		return NULL;
	v = by_name(a, project, name);
	if (v) {
		err_set(e, EEXIST,
			volume_ready(v) ? "the name '%s' is taken"
					: "volume '%s' is being made or "
					  "removed: try again",
			name);
		return NULL;
	}
	if (id_make(id) < 0) {
		err_set(e, EIO, "no random numbers");
		return NULL;
	}
	if (registry_volume_add(&a->registry, &row, e) < 0)
		return NULL;
	v = add(a, id, project, name);
	v->created_ms = row.created_ms;
	v->making = true;
	api_registry_touched(a);
	pool_id_touch(a);
	return v;
}

int volume_take_over(struct api *a, const struct volume_row *row, struct err *e)
{
	struct volume *v;

	if (by_name(a, row->project, row->name))
		return err_set(e, EEXIST, "the name '%s' is taken by a volume",
			       row->name);
	if (registry_volume_add(&a->registry, row, e) < 0)
		return -e->code;
	v = add(a, row->id, row->project, row->name);
	v->bytes = row->bytes;
	v->created_ms = row->created_ms;
	v->seen = a->reconcile.round;
	pool_id_touch(a);
	return 0;
}

void volume_drop(struct api *a, struct volume *v)
{
	struct err e = { 0 };

	if (registry_volume_remove(&a->registry, v->id, &e) < 0)
		log_err("volume=%s %s, ignoring", v->name, e.msg);
	list_del(&v->node);
	a->volumes.n--;
	free(v);
}

/* --- a volume that was made by half --- */

struct discard {
	struct warden_call call;
	struct api *api;
	char id[ID_CAP];
};

static void on_discarded(struct warden_call *c, const struct warden_rep *rep,
			 int fds[FD_PASS_MAX])
{
	struct discard *d = container_of(c, struct discard, call);
	struct volume *v = volume_by_id(d->api, d->id);

	(void)fds;
	if (v && (rep->err.code == 0 || rep->err.code == ENOENT)) {
		volume_drop(d->api, v);
	} else if (v) {
		v->removing = false;
		log_warn("volume=%s id=%s was made by half and is not removed "
			 "yet: %s",
			 v->name, v->id, rep->err.msg);
	}
	free(d);
}

void volume_discard(struct api *a, struct volume *v)
{
	struct discard *d = xcalloc(1, sizeof(*d));

	v->making = false;
	v->removing = true;
	d->api = a;
	memcpy(d->id, v->id, ID_CAP);
	warden_req_id(&d->call, WARDEN_VOLUME_REMOVE, v->id);
	warden_ask(&a->warden, &d->call, on_discarded);
}

/* --- who has which --- */

/* Is it one of this spec's? */
static bool wants(const struct spec *spec, const char *name,
		  struct volume_mount *m)
{
	const json_t *one;
	size_t i;

	json_array_foreach (spec->volumes, i, one) {
		if (volume_mount_parse(json_string_value(one), m) == 0 &&
		    strcmp(m->name, name) == 0)
			return true;
	}
	return false;
}

bool volume_has(const struct sandbox *s, const struct volume *v)
{
	struct volume_mount m;

	return strcmp(s->project, v->project) == 0 &&
	       wants(&s->spec, v->name, &m);
}

struct sandbox *volume_user(struct api *a, const struct volume *v)
{
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (volume_has(s, v))
			return s;
	}
	return NULL;
}

/* One that could not be together with this use of it. */
static const struct sandbox *rival(struct api *a, const struct volume *v,
				   const struct volume_mount *use,
				   const struct sandbox *self)
{
	struct volume_mount m;
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		const struct sandbox *s = container_of(n, struct sandbox, all);

		if (s != self && s->state != BOX_SUSPENDED &&
		    strcmp(s->project, v->project) == 0 &&
		    wants(&s->spec, v->name, &m) &&
		    !(m.read_only && use->read_only) &&
		    !(m.shared && use->shared))
			return s;
	}
	return NULL;
}

int volumes_allow(struct api *a, const char *project, const struct spec *spec,
		  const struct sandbox *self, struct err *e)
{
	const struct sandbox *other;
	struct volume_mount m;
	const json_t *one;
	size_t i;

	if (spec_is_vm(spec) && json_array_size(spec->volumes) > 0)
		return err_set(e, ENOTSUP,
			       "volumes: a sandbox of tier microvm can have "
			       "none; use the drive");
	json_array_foreach (spec->volumes, i, one) {
		const struct volume *v;

		if (volume_mount_parse(json_string_value(one), &m) < 0)
			return err_set(e, EINVAL, "volumes: not valid");
		v = by_name(a, project, m.name);
		if (!v || !volume_ready(v))
			return err_set(e, ENOENT,
				       "project %s has no volume '%s': see "
				       "'volume create'",
				       project, m.name);
		if (v->missing)
			return err_set(e, EBUSY,
				       "volume '%s' is not in the pool: is it "
				       "the right one?",
				       m.name);
		other = rival(a, v, &m, self);
		if (other)
			return err_set(e, EBUSY,
				       "sandbox %s has volume '%s'%s: one that "
				       "may be written is for one sandbox, or "
				       "for those who all say ':shared'",
				       other->id, m.name,
				       m.read_only ? " to write" : "");
	}
	return 0;
}

void volumes_fill(const struct sandbox *s, struct launch_spec *l)
{
	struct volume_mount m;
	const json_t *one;
	size_t i, n = 0;

	json_array_foreach (s->spec.volumes, i, one) {
		const struct volume *v;

		if (volume_mount_parse(json_string_value(one), &m) < 0)
			continue;
		v = by_name(s->api, s->project, m.name);
		if (!v) /* was checked; the warden refuses a part of a row */
			continue;
		memcpy(l->volumes[n].id, v->id, ID_LEN);
		snprintf(l->volumes[n].path, sizeof(l->volumes[n].path), "%s",
			 m.path);
		l->volumes[n++].read_only = m.read_only;
	}
}

static void note(struct sandbox *s, const char *type)
{
	struct volume_mount m;
	const json_t *one;
	size_t i;

	json_array_foreach (s->spec.volumes, i, one) {
		if (volume_mount_parse(json_string_value(one), &m) < 0)
			continue;
		audit_add(s->api,
			  &(struct audit){
				  .type = type,
				  .box = s,
				  .data = json_pack("{s:s, s:s, s:b}", "volume",
						    m.name, "path", m.path,
						    "read_only", m.read_only),
			  });
	}
}

void volumes_attached(struct sandbox *s)
{
	if (!s->has_volumes)
		note(s, "volume.attach");
	s->has_volumes = true;
}

void volumes_detached(struct sandbox *s)
{
	if (s->has_volumes)
		note(s, "volume.detach");
	s->has_volumes = false;
}

/* --- reconciliation --- */

/* A database that is older may have seen only the beginning of it. */
static void take_size(struct api *a, struct volume *v, uint64_t bytes)
{
	struct err e = { 0 };

	if (v->bytes || v->making || v->removing || a->pool_id.current)
		return;
	v->bytes = bytes;
	if (registry_volume_made(&a->registry, v->id, bytes, &e) < 0)
		log_err("volume=%s %s, ignoring", v->name, e.msg);
}

void volume_found(struct api *a, const char *id, uint64_t bytes)
{
	struct volume *v = volume_by_id(a, id);

	if (v) {
		v->seen = a->reconcile.round;
		take_size(a, v, bytes);
		stray_found(a, id);
	} else {
		stray_keep(a, STRAY_VOLUME, id)->bytes = bytes;
	}
}

void volumes_settle(struct api *a)
{
	struct list *n, *next;

	list_each (n, next, &a->volumes.all) {
		struct volume *v = container_of(n, struct volume, node);
		bool there = v->seen == a->reconcile.round;

		if (v->making || v->removing)
			continue; /* somebody waits for it */
		if (v->bytes == 0) {
			/* Nobody was told that it was made. */
			if (there)
				volume_discard(a, v);
			else
				volume_drop(a, v);
			continue;
		}
		if (!there && !v->missing)
			log_err("volume=%s id=%s is not in the pool any more",
				v->name, v->id);
		v->missing = !there;
	}
}
