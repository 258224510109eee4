/* The table of sandboxes: by id, by name, by the start of an id. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"

static const char *const state_names[] = {
	[BOX_LAUNCHING] = "starting",  [BOX_FOUND] = "unknown",
	[BOX_RUNNING] = "running",     [BOX_PAUSED] = "paused",
	[BOX_SUSPENDED] = "suspended", [BOX_RESTARTING] = "restarting",
	[BOX_ENDING] = "removing",
};
static_assert(ARRAY_LEN(state_names) == BOX_STATES, "a name for each state");

const char *box_state_name(enum box_state s)
{
	return state_names[s];
}

static uint32_t mix(uint32_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h;
}

static struct list *ids_of(struct boxes *b, const char *id)
{
	return &b->ids[mix(2166136261u, id) % BOX_BUCKETS];
}

static struct list *names_of(struct boxes *b, const char *project,
			     const char *name)
{
	return &b->names[mix(mix(2166136261u, project), name) % BOX_BUCKETS];
}

void boxes_init(struct api *a)
{
	struct boxes *b = &a->boxes;
	size_t i;

	list_init(&b->all);
	list_init(&b->spares);
	accounts_init(a);
	for (i = 0; i < BOX_BUCKETS; i++) {
		list_init(&b->ids[i]);
		list_init(&b->names[i]);
	}
}

struct sandbox *box_new(struct api *a, const char *id, const char *project,
			struct spec *spec, const char *image_id)
{
	struct sandbox *s = xcalloc(1, sizeof(*s));

	s->api = a;
	memcpy(s->id, id, ID_CAP);
	memcpy(s->image_id, image_id, ID_CAP);
	snprintf(s->project, sizeof(s->project), "%s", project);
	spec_move(&s->spec, spec);
	list_init(&s->by_name);
	list_init(&s->in_spares);
	list_init(&s->waiters);
	list_init(&s->takes);
	restart_init(&s->restart);
	box_set_account(s, s->id);
	agent_init(&s->agent);
	pause_init(s);
	box_touch(s);
	list_add(&a->boxes.all, &s->all);
	list_add(ids_of(&a->boxes, s->id), &s->by_id);
	if (*s->spec.name)
		list_add(names_of(&a->boxes, project, s->spec.name),
			 &s->by_name);
	return s;
}

/* The new one first: they may be the same. */
static void point(struct sandbox *s, char at[ID_CAP], const char *snapshot)
{
	char old[ID_CAP], new[ID_CAP];

	snprintf(new, sizeof(new), "%s", snapshot);
	memcpy(old, at, ID_CAP);
	snapshot_ref(s->api, new);
	memcpy(at, new, ID_CAP);
	snapshot_unref(s->api, old);
}

void box_set_base(struct sandbox *s, const char *snapshot)
{
	point(s, s->base, snapshot);
}

void box_set_disk(struct sandbox *s, const char *snapshot)
{
	point(s, s->disk, snapshot);
}

void boxes_lost_disk(struct api *a, const char *snapshot)
{
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);
		bool disk = strcmp(s->disk, snapshot) == 0;

		if (strcmp(s->base, snapshot) == 0)
			*s->base = '\0';
		if (disk)
			*s->disk = '\0';
		if (disk && s->state == BOX_SUSPENDED)
			box_gone(s, "its disk is not there any more", NULL);
	}
}

bool box_visible(const struct sandbox *s)
{
	if (s->spare || s->state == BOX_LAUNCHING)
		return false;
	return !(s->transient && s->state == BOX_ENDING);
}

struct sandbox *box_by_id(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, ids_of(&a->boxes, id)) {
		struct sandbox *s = container_of(n, struct sandbox, by_id);

		if (strcmp(s->id, id) == 0)
			return s;
	}
	return NULL;
}

struct sandbox *box_by_name(struct api *a, const char *project,
			    const char *name)
{
	struct list *n, *next;

	list_each (n, next, names_of(&a->boxes, project, name)) {
		struct sandbox *s = container_of(n, struct sandbox, by_name);

		if (strcmp(s->spec.name, name) == 0 &&
		    strcmp(s->project, project) == 0)
			return s;
	}
	return NULL;
}

void box_touch(struct sandbox *s)
{
	s->active_ms = clock_boot_ms();
}

bool box_is_for(const struct sandbox *s, const struct identity *who)
{
	return who_sees(who, s->project);
}

/*
 * The start of an id; and a name, for who sees several projects, when only one
 * of them has it.
 */
static struct sandbox *by_part(struct api *a, const struct identity *who,
			       const char *ref, struct err *e)
{
	enum { PREFIX_MIN = 4 };
	bool prefix = strlen(ref) >= PREFIX_MIN, name = *who->project == '\0';
	struct sandbox *found = NULL;
	struct list *n, *next;

	if (!prefix && !name)
		return NULL;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (!box_is_for(s, who) || !box_visible(s))
			continue;
		if (!(prefix && str_starts(s->id, ref)) &&
		    !(name && strcmp(s->spec.name, ref) == 0))
			continue;
		if (found) {
			err_set(e, EEXIST,
				"'%.64s' could be several sandboxes: give more "
				"of an id",
				ref);
			return NULL;
		}
		found = s;
	}
	return found;
}

struct sandbox *box_find(struct api *a, const struct identity *who,
			 const char *ref, struct err *e)
{
	struct sandbox *s = box_by_id(a, ref);
	const struct ended *ended;

	if (!s)
		s = box_by_name(a, who_project(who), ref);
	if (!s)
		s = by_part(a, who, ref, e);
	if (s && box_is_for(s, who) && box_visible(s))
		return s;
	ended = e->code == 0 ? ended_find(a, who, ref) : NULL;
	if (ended)
		ended_say(ended, e);
	else if (e->code == 0)
		err_set(e, ENOENT, "no sandbox '%.64s'", ref);
	return NULL;
}

bool image_in_use(struct api *a, const char *image_id, bool by_any)
{
	struct list *n, *next;

	list_each (n, next, &a->boxes.all) {
		struct sandbox *s = container_of(n, struct sandbox, all);

		if (!by_any && (s->spare || s->state == BOX_ENDING))
			continue;
		if (strcmp(s->image_id, image_id) == 0)
			return true;
	}
	return snapshot_uses_image(a, image_id);
}
