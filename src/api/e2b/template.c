#include "api/e2b/template.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/api.h"
#include "api/e2b/build.h"
#include "base/auto.h"
#include "base/clock.h"
#include "registry/templates.h"

static const char *const state_names[] = {
	[BUILD_WAITING] = "waiting",
	[BUILD_BUILDING] = "building",
	[BUILD_READY] = "ready",
	[BUILD_ERROR] = "error",
};
static_assert(ARRAY_LEN(state_names) == BUILD_STATES, "a name each");

const char *build_state_name(enum build_state s)
{
	return state_names[s];
}

/* --- rows --- */

static struct template *new_template(struct api *a, const char *id,
				     const char *project, const char *name)
{
	struct template *t = xcalloc(1, sizeof(*t));

	snprintf(t->id, sizeof(t->id), "%s", id);
	snprintf(t->project, sizeof(t->project), "%s", project);
	snprintf(t->name, sizeof(t->name), "%s", name);
	list_init(&t->builds);
	list_add(&a->templates.all, &t->node);
	return t;
}

static struct build *new_build(struct template *t, const char *id)
{
	struct build *b = xcalloc(1, sizeof(*b));

	b->of = t;
	snprintf(b->id, sizeof(b->id), "%s", id);
	list_add(&t->builds, &b->node);
	t->n_builds++;
	return b;
}

static struct template *by_id(struct api *a, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->templates.all) {
		struct template *t = container_of(n, struct template, node);

		if (strcmp(t->id, id) == 0)
			return t;
	}
	return NULL;
}

static struct template *by_name(struct api *a, const char *project,
				const char *name)
{
	struct list *n, *next;

	list_each (n, next, &a->templates.all) {
		struct template *t = container_of(n, struct template, node);

		if (strcmp(t->name, name) == 0 &&
		    strcmp(t->project, project) == 0)
			return t;
	}
	return NULL;
}

static int load_template(void *arg, const struct template_row *row)
{
	json_t *tags = json_loads(row->tags, 0, NULL);
	struct template_name name;
	struct template *t;

	if (!json_is_object(tags) || !id_valid(row->id) ||
	    !name_valid(row->project) ||
	    template_name_parse(row->name, &name) < 0) {
		log_err("template=%.64s bad row in the registry, ignoring",
			row->id);
		json_decref(tags);
		return 0;
	}
	t = new_template(arg, row->id, row->project, name.alias);
	t->tags = tags;
	t->created_ms = row->created_ms;
	t->updated_ms = row->updated_ms;
	return 0;
}

static enum build_state state_of(const char *name)
{
	return strcmp(name, state_names[BUILD_READY]) == 0 ? BUILD_READY
							   : BUILD_ERROR;
}

static int load_build(void *arg, const struct build_row *row)
{
	struct template *t = by_id(arg, row->template_id);
	json_t *about = json_loads(row->about, 0, NULL);
	struct build *b;

	if (!t || !json_is_object(about) || !is_uuid(row->id) ||
	    (*row->snapshot && !id_valid(row->snapshot))) {
		log_err("build=%.64s bad row in the registry, ignoring",
			row->id);
		json_decref(about);
		return 0;
	}
	b = new_build(t, row->id);
	b->about = about;
	b->state = state_of(row->state);
	snprintf(b->snapshot, sizeof(b->snapshot), "%s", row->snapshot);
	b->created_ms = row->created_ms;
	b->finished_ms = row->finished_ms;
	if (b->state == BUILD_ERROR && !json_object_get(about, "reason"))
		json_object_set_new(
			about, "reason",
			json_pack("{s:s, s:s}", "step", "base", "message",
				  "the daemon was restarted: build it again"));
	return 0;
}

int templates_load(struct api *a, struct err *e)
{
	int r;

	list_init(&a->templates.all);
	list_init(&a->templates.files);
	list_init(&a->templates.works);
	list_init(&a->templates.steps);
	r = registry_template_each(&a->registry, load_template, a, e);
	if (r == 0)
		r = registry_build_each(&a->registry, load_build, a, e);
	if (r == 0)
		r = build_steps_load(a, e);
	return r;
}

int template_save(struct api *a, struct template *t, struct err *e)
{
	AUTO_FREE char *tags = json_dumps(t->tags, JSON_COMPACT);
	const struct template_row row = { .id = t->id,
					  .project = t->project,
					  .name = t->name,
					  .tags = tags,
					  .created_ms = t->created_ms,
					  .updated_ms = clock_wall_ms() };

	t->updated_ms = row.updated_ms;
	api_registry_touched(a);
	return registry_template_put(&a->registry, &row, e);
}

int build_save(struct api *a, const struct build *b, struct err *e)
{
	AUTO_FREE char *about = json_dumps(b->about, JSON_COMPACT);
	const struct build_row row = { .id = b->id,
				       .template_id = b->of->id,
				       .state = state_names[b->state],
				       .snapshot = b->snapshot,
				       .about = about,
				       .created_ms = b->created_ms,
				       .finished_ms = b->finished_ms };

	api_registry_touched(a);
	return registry_build_put(&a->registry, &row, e);
}

/* --- looking --- */

struct template *template_find(struct api *a, const struct identity *who,
			       const char *ref, struct err *e)
{
	struct template *t = by_id(a, ref);
	struct template_name n;

	if (!t && template_name_parse(ref, &n) == 0)
		t = by_name(a, *n.namespace ? n.namespace : who_project(who),
			    n.alias);
	if (t && who_sees(who, t->project))
		return t;
	err_set(e, ENOENT, "template '%.100s' not found", ref);
	return NULL;
}

struct build *build_find(const struct template *t, const char *id)
{
	struct list *n, *next;

	list_each (n, next, &t->builds) {
		struct build *b = container_of(n, struct build, node);

		if (strcmp(b->id, id) == 0)
			return b;
	}
	return NULL;
}

struct build *template_tagged(const struct template *t, const char *tag)
{
	const json_t *row = json_object_get(t->tags, *tag ? tag : TEMPLATE_TAG);
	const char *id = json_string_value(json_object_get(row, "build"));

	return id ? build_find(t, id) : NULL;
}

static bool has_tag(const struct build *b)
{
	const char *tag;
	json_t *row;

	json_object_foreach (b->of->tags, tag, row)
		if (template_tagged(b->of, tag) == b)
			return true;
	return false;
}

/* --- changing --- */

static int check_room(struct api *a, const char *project, struct err *e)
{
	unsigned mine = 0;
	struct list *n, *next;

	list_each (n, next, &a->templates.all)
		mine += strcmp(container_of(n, struct template, node)->project,
			       project) == 0;
	if (mine < TEMPLATES_PROJECT_MAX)
		return 0;
	return err_set(e, EUSERS,
		       "project %s has %d templates: remove some of them",
		       project, TEMPLATES_PROJECT_MAX);
}

struct template *template_get(struct api *a, const char *project,
			      const char *name, struct err *e)
{
	struct template *t = by_name(a, project, name);
	char id[ID_CAP];

	if (t)
		return t;
	if (check_room(a, project, e) < 0)
		return NULL;
	if (id_make(id) < 0) {
		err_set(e, EIO, "no random numbers");
		return NULL;
	}
	t = new_template(a, id, project, name);
	t->tags = json_object();
	t->created_ms = clock_wall_ms();
	if (template_save(a, t, e) == 0)
		return t;
	template_drop(a, t);
	return NULL;
}

/* RFC 9562, version 4. */
static int uuid_make(char out[BUILD_ID_CAP])
{
	unsigned char r[16];
	size_t i, n = 0;

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return -EIO;
	r[6] = (unsigned char)((r[6] & 0x0f) | 0x40);
	r[8] = (unsigned char)((r[8] & 0x3f) | 0x80);
	for (i = 0; i < sizeof(r); i++)
		n += (size_t)snprintf(
			out + n, BUILD_ID_CAP - n, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", r[i]);
	return 0;
}

/* The oldest that nobody can ask for any more. */
static int make_room(struct api *a, struct template *t, struct err *e)
{
	struct list *n, *next;

	list_each (n, next, &t->builds) {
		struct build *b = container_of(n, struct build, node);

		if (t->n_builds < TEMPLATE_BUILDS_MAX)
			break;
		if (!b->work && !has_tag(b))
			build_drop(a, b);
	}
	if (t->n_builds < TEMPLATE_BUILDS_MAX)
		return 0;
	return err_set(e, EUSERS,
		       "template %s has %d builds with tags: remove some tags",
		       t->name, TEMPLATE_BUILDS_MAX);
}

struct build *build_add(struct api *a, struct template *t, json_t *about,
			struct err *e)
{
	char id[BUILD_ID_CAP];
	struct build *b;

	if (make_room(a, t, e) < 0) {
		json_decref(about);
		return NULL;
	}
	if (uuid_make(id) < 0) {
		json_decref(about);
		err_set(e, EIO, "no random numbers");
		return NULL;
	}
	b = new_build(t, id);
	b->about = about;
	b->created_ms = clock_wall_ms();
	if (build_save(a, b, e) == 0)
		return b;
	build_drop(a, b);
	return NULL;
}

bool templates_need(struct api *a, const char *snapshot)
{
	struct list *n, *next, *b, *after;

	list_each (n, next, &a->templates.all) {
		struct template *t = container_of(n, struct template, node);

		list_each (b, after, &t->builds)
			if (strcmp(container_of(b, struct build, node)
					   ->snapshot,
				   snapshot) == 0)
				return true;
	}
	return false;
}

static void drop_snapshot(struct api *a, const char *id)
{
	struct snapshot *snap = *id ? snapshot_by_id(a, id) : NULL;
	struct err e = { 0 };

	if (snap && snapshot_visible(snap) && snapshot_drop(snap, &e) < 0)
		log_err("snapshot=%s %s, ignoring", id, e.msg);
}

void build_drop(struct api *a, struct build *b)
{
	struct err e = { 0 };

	assert(!b->work);
	if (registry_build_remove(&a->registry, b->id, &e) < 0)
		log_err("build=%s %s, ignoring", b->id, e.msg);
	drop_snapshot(a, b->snapshot);
	list_del(&b->node);
	b->of->n_builds--;
	json_decref(b->about);
	json_decref(b->log);
	free(b);
}

void template_drop(struct api *a, struct template *t)
{
	struct err e = { 0 };
	struct list *n, *next;

	list_each (n, next, &t->builds)
		build_drop(a, container_of(n, struct build, node));
	if (registry_template_remove(&a->registry, t->id, &e) < 0)
		log_err("template=%s %s, ignoring", t->id, e.msg);
	list_del(&t->node);
	json_decref(t->tags);
	free(t);
}

int template_tag(struct template *t, const char *tag, const struct build *b,
		 struct err *e)
{
	if (!json_object_get(t->tags, tag) &&
	    json_object_size(t->tags) >= TEMPLATE_TAGS_MAX)
		return err_set(e, EUSERS,
			       "template %s has %d tags: remove some of them",
			       t->name, TEMPLATE_TAGS_MAX);
	json_object_set_new(t->tags, tag,
			    json_pack("{s:s, s:I}", "build", b->id,
				      "created_ms",
				      (json_int_t)clock_wall_ms()));
	return 0;
}
