#include "api/spawn_spec.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

static bool has_var(const struct spawn *s, const char *key)
{
	size_t n = strlen(key), i;

	for (i = 0; i < s->envc; i++)
		if (strncmp(s->env[i], key, n) == 0 && s->env[i][n] == '=')
			return true;
	return false;
}

/*
 * `both` gets the variables of the request and then those of `env`, whose
 * strings live in `text` as "K=V" NUL "K=V" NUL ...
 */
static void join_vars(const struct spawn *s, json_t *env, struct spawn *both,
		      struct buf *text)
{
	size_t added = 0, i;
	const char *key, *at;
	json_t *v;

	json_object_foreach (env, key, v) {
		if (has_var(s, key))
			continue;
		buf_printf(text, "%s=%s", key, json_string_value(v));
		buf_add(text, "", 1);
		added++;
	}
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
		   const struct spec *spec)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct spawn both = *s;
	int r;

	if (!s->user || *s->user == '\0')
		both.user = spec->user;
	if ((!s->cwd || *s->cwd == '\0') && !(s->flags & SPAWN_BUILTIN))
		both.cwd = spec->workdir;
	if ((s->flags & SPAWN_BUILTIN) || json_object_size(spec->env) == 0)
		return spawn_put(out, channel, &both);
	join_vars(s, spec->env, &both, &text);
	r = spawn_put(out, channel, &both);
	free(both.env);
	return r;
}
