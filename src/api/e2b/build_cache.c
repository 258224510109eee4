/*
 * Disks behind steps. What took long is kept as a snapshot of the project, and
 * a later build that begins with the same steps begins behind them. A step's
 * key is the hash of the key before it and of all that the step says; the
 * first key is what the build starts with.
 *
 * A cache: rows need not be on disk, and a snapshot that somebody removed is
 * one that is not there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/build.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/sha.h"
#include "registry/templates.h"

struct kept_step {
	struct list node; /* the one that was used longest ago first */
	char project[NAME_CAP];
	char key[BUILD_KEY_CAP];
	char snapshot[ID_CAP];
	json_t *about; /* {"env", "user", "workdir"} */
};

/* --- the table --- */

static struct kept_step *add(struct api *a, const struct step_row *row,
			     json_t *about)
{
	struct kept_step *s = xcalloc(1, sizeof(*s));

	snprintf(s->project, sizeof(s->project), "%s", row->project);
	snprintf(s->key, sizeof(s->key), "%s", row->key);
	snprintf(s->snapshot, sizeof(s->snapshot), "%s", row->snapshot);
	s->about = about;
	list_add(&a->templates.steps, &s->node);
	return s;
}

static int load_row(void *arg, const struct step_row *row)
{
	json_t *about = json_loads(row->about, 0, NULL);

	if (json_is_object(about) && build_hash_valid(row->key) &&
	    id_valid(row->snapshot) && name_valid(row->project)) {
		add(arg, row, about);
	} else {
		log_err("step=%.64s bad row in the registry, ignoring",
			row->key);
		json_decref(about);
	}
	return 0;
}

int build_steps_load(struct api *a, struct err *e)
{
	return registry_step_each(&a->registry, load_row, a, e);
}

static void drop(struct api *a, struct kept_step *s)
{
	struct snapshot *snap = snapshot_by_id(a, s->snapshot);
	struct err e = { 0 };

	if (registry_step_remove(&a->registry, s->project, s->key, &e) < 0)
		log_err("step=%s %s, ignoring", s->key, e.msg);
	err_clear(&e);
	if (snap && snapshot_visible(snap) && snapshot_drop(snap, &e) < 0)
		log_err("snapshot=%s %s, ignoring", s->snapshot, e.msg);
	list_del(&s->node);
	json_decref(s->about);
	free(s);
}

static struct kept_step *find(struct api *a, const char *project,
			      const char *key)
{
	struct list *n, *next;

	list_each (n, next, &a->templates.steps) {
		struct kept_step *s = container_of(n, struct kept_step, node);
		const struct snapshot *snap;

		if (strcmp(s->key, key) != 0 ||
		    strcmp(s->project, project) != 0)
			continue;
		snap = snapshot_by_id(a, s->snapshot);
		if (snap && snapshot_visible(snap))
			return s;
		drop(a, s);
		return NULL;
	}
	return NULL;
}

static void make_room(struct api *a, const char *project)
{
	struct kept_step *oldest = NULL;
	struct list *n, *next;
	unsigned mine = 0;

	list_each (n, next, &a->templates.steps) {
		struct kept_step *s = container_of(n, struct kept_step, node);

		if (strcmp(s->project, project) != 0)
			continue;
		mine++;
		if (!oldest)
			oldest = s;
	}
	if (mine >= BUILD_STEPS_KEPT)
		drop(a, oldest);
}

/* Written down as used now. */
static void save(struct api *a, const struct kept_step *s)
{
	AUTO_FREE char *about = json_dumps(s->about, JSON_COMPACT);
	const struct step_row row = { .project = s->project,
				      .key = s->key,
				      .snapshot = s->snapshot,
				      .about = about,
				      .used_ms = clock_wall_ms() };
	struct err e = { 0 };

	if (registry_step_put(&a->registry, &row, &e) < 0)
		log_err("step=%s %s, ignoring", s->key, e.msg);
	api_registry_touched(a);
}

/* --- keys --- */

static void hash(char key[BUILD_KEY_CAP], const char *text)
{
	unsigned char digest[SHA256_LEN];
	struct sha256 sha;
	size_t i;

	sha256_init(&sha);
	sha256_add(&sha, key, strlen(key));
	sha256_add(&sha, text, strlen(text) + 1);
	sha256_end(&sha, digest);
	for (i = 0; i < sizeof(digest); i++)
		snprintf(key + 2 * i, 3, "%02x", digest[i]);
}

static void hash_step(char key[BUILD_KEY_CAP], const json_t *step)
{
	json_t *said = json_pack("{s:O, s:O, s:O?}", "type",
				 json_object_get(step, "type"), "args",
				 json_object_get(step, "args"), "filesHash",
				 json_object_get(step, "filesHash"));
	AUTO_FREE char *text = json_dumps(said, JSON_COMPACT | JSON_SORT_KEYS);

	json_decref(said);
	hash(key, text ? text : "");
}

/* --- the start of a build --- */

static void start_behind(struct build_work *w, json_t *spec,
			 struct kept_step *s)
{
	static const char *const taken[] = { "env", "user", "workdir" };
	size_t i;

	/* As from a template that is a snapshot. */
	json_object_del(spec, "image");
	json_object_set_new(spec, "snapshot", json_string(s->snapshot));
	for (i = 0; i < ARRAY_LEN(taken); i++)
		json_object_set(spec, taken[i],
				json_object_get(s->about, taken[i]));
	list_del(&s->node);
	list_add(&w->api->templates.steps, &s->node);
	save(w->api, s);
}

void build_cache_begin(struct build_work *w, json_t *spec)
{
	const json_t *steps = json_object_get(w->plan, "steps"), *step;
	const char *image = json_string_value(json_object_get(spec, "image")),
		   *from = json_string_value(json_object_get(spec, "snapshot"));
	const struct image *img =
		image_find(w->api, image ? image : w->api->conf.image);
	char key[BUILD_KEY_CAP] = "";
	struct kept_step *found = NULL, *s;
	size_t i;

	hash(key, from ? from : img ? img->id : "");
	memcpy(w->key, key, sizeof(key));
	w->kept_ms = clock_boot_ms();
	if (json_is_true(json_object_get(w->plan, "force")))
		return;
	json_array_foreach (steps, i, step) {
		if (json_is_true(json_object_get(step, "force")))
			break;
		hash_step(key, step);
		s = find(w->api, w->who.project, key);
		if (!s)
			continue;
		found = s;
		w->i = i + 1;
		memcpy(w->key, key, sizeof(key));
	}
	if (!found)
		return;
	build_logf(w, "info", "CACHED %zu of %zu steps", w->i,
		   json_array_size(steps));
	start_behind(w, spec, found);
}

/* --- behind a step --- */

static void on_kept(struct inner_ask *q, int status, json_t *answer)
{
	struct build_work *w = container_of(q, struct build_work, ask);
	const char *id = json_string_value(json_object_get(answer, "id"));
	const struct step_row row = { .project = w->who.project,
				      .key = w->key,
				      .snapshot = id };
	struct kept_step *old = find(w->api, w->who.project, w->key);

	if (status / 100 != 2 || !id || !id_valid(id)) {
		build_logf(w, "warn", "the step is not kept: %s",
			   inner_message(status, answer));
		build_next(w);
		return;
	}
	if (old)
		drop(w->api, old);
	make_room(w->api, w->who.project);
	save(w->api, add(w->api, &row,
			 json_pack("{s:O, s:s, s:s}", "env", w->env, "user",
				   w->user, "workdir", w->workdir)));
	w->kept_ms = clock_boot_ms();
	build_next(w);
}

void build_step_done(struct build_work *w)
{
	const json_t *steps = json_object_get(w->plan, "steps");
	char name[NAME_CAP], target[BUILD_TARGET_CAP], id[ID_CAP];

	hash_step(w->key, json_array_get(steps, w->i - 1));
	if (clock_boot_ms() - w->kept_ms < BUILD_KEEP_MS || id_make(id) < 0) {
		build_next(w);
		return;
	}
	snprintf(name, sizeof(name), TEMPLATE_SNAPSHOT "step-%s", id);
	build_ask(w, "POST", build_target(w, "/snapshots", target),
		  json_pack("{s:s}", "name", name), on_kept);
}
