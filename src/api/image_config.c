#include "api/image_config.h"

#include <errno.h>
#include <string.h>

#include "api/images.h"
#include "base/auto.h"
#include "base/buf.h"
#include "spec/check.h"
#include "spec/spec.h"
#include "wire/worker.h"

static bool is_text(const json_t *v)
{
	return json_is_string(v) &&
	       strlen(json_string_value(v)) == json_string_length(v);
}

static bool are_texts(const json_t *v)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(v))
		return false;
	json_array_foreach (v, i, one)
		if (!is_text(one))
			return false;
	return true;
}

static bool is_map(const json_t *v)
{
	return json_is_object(v);
}

static const struct {
	const char *key;
	bool (*ok)(const json_t *v);
} known[] = {
	{ "Env", are_texts },   { "WorkingDir", is_text },
	{ "User", is_text },    { "Entrypoint", are_texts },
	{ "Cmd", are_texts },   { "Shell", are_texts },
	{ "Labels", is_map },   { "ExposedPorts", is_map },
	{ "Volumes", is_map },  { "StopSignal", is_text },
	{ "Start", are_texts },
};

/* Others than the known keys have no business here; null is "not said". */
int image_config_check(const json_t *config, struct err *e)
{
	const char *key;
	json_t *v;
	size_t i;

	if (!json_is_object(config))
		return err_set(e, EINVAL, "config: not an object");
	json_object_foreach ((json_t *)config, key, v) {
		for (i = 0; i < ARRAY_LEN(known); i++)
			if (strcmp(known[i].key, key) == 0)
				break;
		if (i == ARRAY_LEN(known))
			return err_set(e, EINVAL, "config: unknown key '%.64s'",
				       key);
		if (!json_is_null(v) && !known[i].ok(v))
			return err_set(e, EINVAL,
				       "config: '%s' is not what it should be",
				       key);
	}
	if (json_dumpb(config, NULL, 0, JSON_COMPACT) > WORKER_CONFIG_MAX)
		return err_set(e, E2BIG, "config: over %d bytes",
			       WORKER_CONFIG_MAX);
	return 0;
}

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
	return apply_env(json_object_get(img->config, "Env"), s, e);
}
