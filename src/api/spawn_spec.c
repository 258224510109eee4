#include "api/spawn_spec.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api/door_env.h"
#include "base/auto.h"

static bool has_var(const struct spawn *s, const char *key)
{
	size_t n = strlen(key), i;

	for (i = 0; i < s->envc; i++)
		if (strncmp(s->env[i], key, n) == 0 && s->env[i][n] == '=')
			return true;
	return false;
}

/* "K=V" NUL; how many it was. */
static size_t add_var(struct buf *text, const char *key, const char *value)
{
	buf_printf(text, "%s=%s", key, value);
	buf_add(text, "", 1);
	return 1;
}

static size_t add_door(struct buf *text, const struct spawn *s,
		       const struct spec *spec)
{
	const struct door_var *v;
	size_t added = 0;

	for (v = door_vars; spec_has_door(spec) && v->name; v++)
		if (!has_var(s, v->name) &&
		    !json_object_get(spec->env, v->name))
			added += add_var(text, v->name, v->value);
	return added;
}

/*
 * `both` gets the variables of the request, then those of the spec, then those
 * of its door; the strings of the latter live in `text`.
 */
static void join_vars(const struct spawn *s, const struct spec *spec,
		      json_t *more, struct spawn *both, struct buf *text)
{
	size_t added = 0, i;
	const char *key, *at;
	json_t *v;

	json_object_foreach (spec->env, key, v)
		if (!has_var(s, key))
			added += add_var(text, key, json_string_value(v));
	json_object_foreach (more, key, v)
		if (!has_var(s, key) && !json_object_get(spec->env, key))
			added += add_var(text, key, json_string_value(v));
	added += add_door(text, s, spec);
	both->envc = s->envc + added;
	both->env = xcalloc(both->envc + 1, sizeof(*both->env));
	for (i = 0; i < s->envc; i++)
		both->env[i] = s->env[i];
	at = buf_data(text);
	for (; i < both->envc; i++) {
		both->env[i] = at;
		at += strlen(at) + 1;
	}
}

int spawn_put_spec(struct buf *out, uint32_t channel, const struct spawn *s,
		   const struct spec *spec, json_t *more)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct spawn both = *s;
	int r;

	if (!s->user || *s->user == '\0')
		both.user = spec->user;
	if ((!s->cwd || *s->cwd == '\0') && !(s->flags & SPAWN_BUILTIN))
		both.cwd = spec->workdir;
	if ((s->flags & SPAWN_BUILTIN) ||
	    (json_object_size(spec->env) == 0 && !spec_has_door(spec)))
		return spawn_put(out, channel, &both);
	join_vars(s, spec, more, &both, &text);
	r = spawn_put(out, channel, &both);
	free(both.env);
	return r;
}
