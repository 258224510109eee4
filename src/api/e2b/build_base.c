/*
 * What a build starts with: a template, or an image of ours; one that is not
 * here is pulled, where who asks may do that.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/e2b/build.h"
#include "api/e2b/network.h"
#include "base/auto.h"
#include "http/target.h"

static const char *text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

/* --- its sandbox --- */

static void on_provisioned(struct build_work *w)
{
	if (w->code == 0 && !*w->why)
		build_next(w);
	else
		build_fail(w,
			   "the image has no user `user`, and none could be "
			   "made: %s",
			   *w->why ? w->why : "see the log");
}

/*
 * Processes of the SDKs run as `user`, in /home/user: most images of others
 * know no such thing. The directory that an image names need not be in it.
 */
static void provision(struct build_work *w)
{
	static const char script[] =
		"set -e\n"
		"[ -d \"$1\" ] || mkdir -p \"$1\"\n"
		"id=1000\n"
		"while IFS=: read -r name x uid rest; do\n"
		"	[ \"$name\" != user ] || exit 0\n"
		"	[ \"$uid\" != 1000 ] || id=1001\n"
		"done </etc/passwd\n"
		"echo \"user:x:$id:$id:user:/home/user:/bin/sh\" "
		">>/etc/passwd\n"
		"echo \"user:x:$id:\" >>/etc/group\n"
		"mkdir -p /home/user\n"
		"chown $id:$id /home/user\n";
	const char *const argv[] = { "/bin/sh", "-c",       script,
				     "sh",      w->workdir, NULL };
	const struct build_process p = { .argv = argv, .user = "0" };

	build_run(w, &p, on_provisioned);
}

/* What it is started with, unless a step's disk says more. */
static int take_place(struct build_work *w, const json_t *spec)
{
	const char *user = text_of(spec, "user"),
		   *dir = text_of(spec, "workdir");

	if (!*user)
		user = "user";
	if (!*dir)
		dir = strcmp(user, "root") == 0 ? "/root" : "/home/user";
	if (str_copy(w->user, sizeof(w->user), user) < 0)
		return -ENAMETOOLONG;
	return str_copy(w->workdir, sizeof(w->workdir), dir);
}

static void on_box(struct inner_ask *q, int status, json_t *answer)
{
	struct build_work *w = container_of(q, struct build_work, ask);
	const json_t *spec = json_object_get(answer, "spec");
	json_t *env = json_object_get(spec, "env");
	struct err e = { 0 };

	if (status / 100 != 2 ||
	    str_copy(w->box, sizeof(w->box), text_of(answer, "id")) < 0) {
		build_fail(w, "the sandbox of the build could not be made: %s",
			   inner_message(status, answer));
		return;
	}
	/* A restart ends it by this. */
	json_object_set_new(w->build->about, "box", json_string(w->box));
	if (build_save(w->api, w->build, &e) < 0) {
		build_fail(w, "%s", e.msg);
		return;
	}
	if (json_is_object(env)) {
		json_decref(w->env);
		w->env = json_deep_copy(env);
	}
	if (take_place(w, spec) < 0)
		build_fail(w, "its user or directory is too long");
	else if (w->i > 0)
		build_next(w); /* it was provisioned in the first step */
	else
		provision(w);
}

static void make_box(struct build_work *w, json_t *spec)
{
	json_t *rules;
	struct err e = { 0 };

	/* Nothing is started before the steps are done. */
	json_object_del(spec, "start");
	if (json_object_get(spec, "snapshot"))
		json_object_set_new(spec, "start", json_array());
	json_object_set_new(spec, "labels",
			    json_pack("{s:s}", BUILD_LABEL, w->build->id));
	json_object_set_new(spec, "timeout", json_integer(BUILD_TIME_S + 60));
	json_object_set_new(spec, "sudo", json_true());
	template_limits(w->api, w->build->about, spec);
	/* Packages come from the web, as in a sandbox without options. */
	rules = e2b_network_rules(NULL, NULL, w->api->conf.e2b_internet, &e);
	if (!rules) {
		json_decref(spec);
		build_fail(w, "%s", e.msg);
		return;
	}
	json_object_set_new(spec, "rules", rules);
	build_cache_begin(w, spec);
	build_ask(w, "POST", "/v1/sandboxes", spec, on_box);
}

/* --- images --- */

static void from_image(struct build_work *w, const char *name)
{
	build_logf(w, "info", "FROM %s", name);
	make_box(w, json_pack("{s:s}", "image", name));
}

/* "docker.io/library/python:3.12" is "python:3.12" here. */
static const char *short_name(const char *ref)
{
	static const char *const fronts[] = { "docker.io/", "library/" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(fronts); i++)
		if (str_starts(ref, fronts[i]))
			ref += strlen(fronts[i]);
	return ref;
}

/* Tags that mean "the usual one": an image of ours without one will do. */
static bool is_usual(const char *tag)
{
	static const char *const usual[] = { "latest", "stable", "lts",
					     TEMPLATE_TAG };
	size_t i;

	for (i = 0; i < ARRAY_LEN(usual); i++)
		if (strcmp(tag, usual[i]) == 0)
			return true;
	return false;
}

/* What it is called here; NULL: it is not. */
static const struct image *find_image(struct api *a, const char *ref,
				      char name[IMAGE_NAME_CAP])
{
	const struct image *img;
	char *tag, *p;

	if (str_copy(name, IMAGE_NAME_CAP, short_name(ref)) < 0)
		return NULL;
	for (p = name; *p; p++)
		if (*p == '/' || *p == '@')
			*p = '.';
	img = image_find(a, name);
	tag = strrchr(name, ':');
	if (img || !tag || !is_usual(tag + 1))
		return img;
	*tag = '\0';
	img = image_find(a, name);
	*tag = ':';
	return img;
}

static void on_pulled(struct inner_ask *q, int status, json_t *answer)
{
	struct build_work *w = container_of(q, struct build_work, ask);

	if (status / 100 == 2)
		from_image(w, text_of(answer, "name"));
	else
		build_fail(w,
			   "there is no image '%s' here, and it could not be "
			   "pulled: %s",
			   text_of(w->plan, "fromImage"),
			   inner_message(status, answer));
}

static void pull(struct build_work *w, const char *ref, const char *name)
{
	AUTO(buf_done) struct buf target = { 0 };
	const json_t *login = json_object_get(w->plan, "fromImageRegistry");
	const char *type = text_of(login, "type");
	struct err e = { 0 };
	json_t *body;

	if (*type && strcmp(type, "registry") != 0) {
		build_fail(w,
			   "registries of type '%.32s' are not supported: use "
			   "a user name and a password",
			   type);
		return;
	}
	if (!image_name_valid(name)) {
		build_fail(w, "'%s' is no name that an image can have here",
			   ref);
		return;
	}
	build_logf(w, "info", "Pulling %s", ref);
	body = json_pack("{s:s}", "reference", ref);
	if (*type) {
		json_object_set(body, "username",
				json_object_get(login, "username"));
		json_object_set(body, "password",
				json_object_get(login, "password"));
	}
	buf_puts(&target, "/v1/images/");
	http_encode(&target, name);
	buf_puts(&target, "/pull");
	/* Images are everybody's: as the operator, if that is who asked. */
	if (inner_ask(&w->ask,
		      &(struct inner_json){ w->api, &w->asker, w->request,
					    "POST", buf_str(&target), body,
					    on_pulled },
		      &e) < 0)
		build_fail(w, "%s", e.msg);
}

static void from_template(struct build_work *w, const char *ref)
{
	struct e2b_template t = { 0 };
	json_t *spec = json_object();
	struct err e = { 0 };

	if (e2b_template_image(w->api, &w->who, ref, spec, &t, &e) < 0) {
		json_decref(spec);
		build_fail(w, "%s", e.msg);
		return;
	}
	e2b_template_done(&t);
	build_logf(w, "info", "FROM TEMPLATE %s", ref);
	make_box(w, spec);
}

void build_base(struct build_work *w)
{
	const char *ref = text_of(w->plan, "fromTemplate");
	const struct image *img;
	char name[IMAGE_NAME_CAP];

	if (*ref) {
		from_template(w, ref);
		return;
	}
	ref = text_of(w->plan, "fromImage");
	/* The image that the SDKs build on when nothing is said. */
	if (!*ref || strcmp(short_name(ref), "e2bdev/base") == 0 ||
	    str_starts(short_name(ref), "e2bdev/base:")) {
		from_image(w, w->api->conf.image);
		return;
	}
	img = find_image(w->api, ref, name);
	if (img)
		from_image(w, img->name);
	else
		pull(w, ref, name);
}
