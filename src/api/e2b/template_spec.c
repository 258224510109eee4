#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/template.h"
#include "base/auto.h"

/* Names that SDKs say by themselves, and the images that they mean. */
static const struct {
	const char *name, *image; /* NULL: the default */
} known[] = {
	{ "", NULL },
	{ "base", NULL },
	{ "e2bdev/base", NULL },
	{ "code-interpreter-v1", "code-interpreter" },
	{ "desktop", "desktop" },
};

/*
 * What a snapshot brings of its sandbox and a new one must not have: least of
 * all its way out. Its canaries are watched for as before.
 */
static void forget_origin(json_t *spec)
{
	static const char *const lists[] = { "start",  "volumes", "drive",
					     "allow",  "rules",   "late-rules",
					     "secrets" };
	static const char *const maps[] = { "labels", "env", "ports" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(lists); i++)
		json_object_set_new(spec, lists[i], json_array());
	for (i = 0; i < ARRAY_LEN(maps); i++)
		json_object_set_new(spec, maps[i], json_object());
	json_object_set_new(spec, "policy", json_string(""));
	json_object_set_new(spec, "observe", json_false());
}

static int say(struct e2b_template *out, const char *id, const char *alias,
	       struct err *e)
{
	if (str_copy(out->id, sizeof(out->id), id) < 0 ||
	    str_copy(out->alias, sizeof(out->alias), alias) < 0)
		return err_set(e, ENOENT, "template '%.100s' not found", id);
	return 0;
}

static void copy_member(json_t *spec, const char *as, const json_t *about,
			const char *name)
{
	json_t *v = json_object_get(about, name);

	if (v && !json_is_null(v))
		json_object_set(spec, as, v);
}

/* `sleep N` guesses how long it takes: once, when it was built, is enough. */
static bool is_test(const char *ready)
{
	size_t n = strlen("sleep ");

	return !str_starts(ready, "sleep ") ||
	       strspn(ready + n, "0123456789.") != strlen(ready + n);
}

static void add_start(const struct build *b, json_t *spec,
		      struct e2b_template *out)
{
	const char *start = json_string_value(
			   json_object_get(b->about, "start")),
		   *ready = json_string_value(
			   json_object_get(b->about, "ready"));

	if (start && *start)
		json_object_set_new(spec, "start", json_pack("[s]", start));
	if (ready && is_test(ready))
		out->ready = xstrdup(ready);
}

void template_limits(const struct api *a, const json_t *about, json_t *spec)
{
	const json_t *memory = json_object_get(about, "memory_mb"),
		     *disk = json_object_get(about, "disk_mb");
	json_int_t least = json_integer_value(disk) << 20;

	copy_member(spec, "cpus", about, "cpus");
	if (json_is_integer(memory))
		json_object_set_new(
			spec, "memory",
			json_integer(json_integer_value(memory) << 20));
	/* More than others have; never less. */
	if (least > (json_int_t)a->conf.disk_bytes)
		json_object_set_new(spec, "disk", json_integer(least));
}

static int of_build(struct api *a, const struct template *t,
		    const struct build *b, json_t *spec,
		    struct e2b_template *out, struct err *e)
{
	if (!b || b->state != BUILD_READY)
		return err_set(e, ENOENT,
			       "template '%s' has no such build that is ready",
			       t->name);
	if (!*b->snapshot || !snapshot_by_id(a, b->snapshot))
		return err_set(e, ENOENT,
			       "the snapshot of template '%s' was removed: "
			       "build it again",
			       t->name);
	forget_origin(spec);
	json_object_set_new(spec, "snapshot", json_string(b->snapshot));
	copy_member(spec, "env", b->about, "env");
	copy_member(spec, "user", b->about, "user");
	copy_member(spec, "workdir", b->about, "workdir");
	template_limits(a, b->about, spec);
	add_start(b, spec, out);
	return say(out, t->id, t->name, e);
}

static struct build *build_anywhere(struct api *a, const struct identity *who,
				    const char *id)
{
	struct list *n, *next;

	list_each (n, next, &a->templates.all) {
		const struct template *t =
			container_of(n, struct template, node);
		struct build *b =
			who_sees(who, t->project) ? build_find(t, id) : NULL;

		if (b)
			return b;
	}
	return NULL;
}

/* 1: it is none of the SDKs' own names. */
static int of_known(struct api *a, const char *ref, json_t *spec,
		    struct e2b_template *out, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(known[i].name, ref) != 0)
			continue;
		if (!known[i].image)
			return say(out, "base", "base", e);
		if (!image_find(a, known[i].image))
			return err_set(e, ENOENT,
				       "template '%s' not found: it needs the "
				       "image '%s', see 'image build'",
				       ref, known[i].image);
		json_object_set_new(spec, "image", json_string(known[i].image));
		return say(out, ref, ref, e);
	}
	return 1;
}

static int of_image(const struct image *img, json_t *spec,
		    struct e2b_template *out, struct err *e)
{
	json_object_set_new(spec, "image", json_string(img->name));
	return say(out, img->name, img->name, e);
}

/* What ran in it runs on, as far as a disk goes: variables, start commands. */
static int of_snapshot(const struct snapshot *snap, json_t *spec,
		       struct e2b_template *out, struct err *e)
{
	json_t *was = snap->spec ? json_loads(snap->spec, 0, NULL) : NULL;

	forget_origin(spec);
	copy_member(spec, "env", was, "env");
	copy_member(spec, "start", was, "start");
	json_decref(was);
	json_object_set_new(spec, "snapshot", json_string(snap->id));
	return say(out, snap->id, snap->name, e);
}

/* In any project that is seen, or what is the operator's. */
static int of_ours(struct api *a, const struct identity *who, const char *ref,
		   json_t *spec, struct e2b_template *out, struct err *e)
{
	const struct image *img = image_find(a, ref);
	const struct snapshot *snap;
	struct template_name n;
	struct err none = { 0 };
	int r = of_known(a, ref, spec, out, e);

	if (r <= 0)
		return r;
	if (img)
		return of_image(img, spec, out, e);
	/* "NAME:default", "NAMESPACE/NAME" */
	if (template_name_parse(ref, &n) == 0) {
		img = image_find(a, n.alias);
		if (img && (!*n.tag || strcmp(n.tag, TEMPLATE_TAG) == 0))
			return of_image(img, spec, out, e);
		snap = snapshot_find(a, who, n.alias, &none);
		if (snap)
			return of_snapshot(snap, spec, out, e);
	}
	return err_set(e, ENOENT, "template '%.100s' not found", ref);
}

int e2b_template_image(struct api *a, const struct identity *who,
		       const char *ref, json_t *spec, struct e2b_template *out,
		       struct err *e)
{
	const struct build *b =
		is_uuid(ref) ? build_anywhere(a, who, ref) : NULL;
	const struct template *t;
	struct template_name n = { 0 };
	struct err none = { 0 };

	if (b)
		return of_build(a, b->of, b, spec, out, e);
	t = template_find(a, who, ref, &none);
	if (!t)
		return of_ours(a, who, ref, spec, out, e);
	(void)!template_name_parse(ref, &n);
	return of_build(a, t, template_tagged(t, n.tag), spec, out, e);
}

void e2b_template_done(struct e2b_template *t)
{
	free(t->ready);
	t->ready = NULL;
}
