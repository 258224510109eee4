#include "api/image_config.h"

#include <errno.h>
#include <string.h>

#include "api/images.h"
#include "base/auto.h"
#include "base/buf.h"
#include "image/oci.h"
#include "spec/check.h"
#include "spec/spec.h"

/* "NAME=VALUE" of the image, where the spec has no such name. */
static void add_vars(json_t *env, const json_t *list)
{
	const json_t *one;
	size_t i;

	json_array_foreach (list, i, one) {
		const char *text = json_string_value(one),
			   *eq = strchr(text, '=');
		char name[256];
		size_t n = eq ? (size_t)(eq - text) : 0;

		if (n == 0 || n >= sizeof(name))
			continue;
		memcpy(name, text, n);
		name[n] = '\0';
		json_object_set_new(env, name, json_string(eq + 1));
	}
}

static int apply_env(const json_t *list, struct spec *s, struct err *e)
{
	json_t *env;

	if (json_array_size(list) == 0)
		return 0;
	env = json_object();
	add_vars(env, list);
	if (s->env)
		json_object_update(env, s->env);
	if (check_env(env, e) < 0) {
		json_decref(env);
		return err_wrap(e, "with the environment of the image");
	}
	json_decref(s->env);
	s->env = env;
	return 0;
}

static void apply_user(const char *user, struct spec *s)
{
	char name[SPEC_USER_CAP];
	size_t n = user ? strcspn(user, ":") : 0; /* "name:group" */

	if (n == 0 || n >= sizeof(name) || *s->user)
		return;
	memcpy(name, user, n);
	name[n] = '\0';
	if (!s->sudo && (strcmp(name, "root") == 0 || strcmp(name, "0") == 0))
		return;
	memcpy(s->user, name, n + 1);
}

static int apply_start(const json_t *labels, struct spec *s, struct err *e)
{
	json_t *line = json_object_get(labels, OCI_LABEL_START), *list;

	if (!line || s->start)
		return 0;
	list = json_pack("[O]", line);
	if (check_start(list, e) < 0) {
		json_decref(list);
		return err_wrap(e, "with what the image runs at the start");
	}
	s->start = list;
	return 0;
}

int image_config_apply(const struct image *img, struct spec *s, struct err *e)
{
	const char *dir =
		json_string_value(json_object_get(img->config, "WorkingDir"));

	if (!img->config)
		return 0;
	apply_user(json_string_value(json_object_get(img->config, "User")), s);
	if (dir && *dir == '/' && !*s->workdir &&
	    str_copy(s->workdir, sizeof(s->workdir), dir) < 0)
		s->workdir[0] = '\0';
	if (apply_start(json_object_get(img->config, "Labels"), s, e) < 0)
		return -e->code;
	return apply_env(json_object_get(img->config, "Env"), s, e);
}
