#include "api/spawn_env.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "wire/frame.h"

static bool has_var(const struct spawn *s, const char *key)
{
	size_t n = strlen(key), i;

	for (i = 0; i < s->envc; i++)
		if (strncmp(s->env[i], key, n) == 0 && s->env[i][n] == '=')
			return true;
	return false;
}

/* The new strings live in `text`, as "K=V" NUL "K=V" NUL ... */
static void add_vars(struct spawn *s, json_t *env, struct buf *text)
{
	size_t have = s->envc, added = 0, i;
	const char *key, *at;
	json_t *v;

	json_object_foreach (env, key, v) {
		if (has_var(s, key))
			continue;
		buf_printf(text, "%s=%s", key, json_string_value(v));
		buf_add(text, "", 1);
		added++;
	}
	s->env = xrealloc(s->env, (have + added + 1) * sizeof(*s->env));
	at = buf_data(text);
	for (i = 0; i < added; i++) {
		s->env[have + i] = at;
		at += strlen(at) + 1;
	}
	s->env[have + added] = NULL;
	s->envc = have + added;
}

int spawn_with_env(struct buf *out, uint32_t channel, const void *p, size_t n,
		   json_t *env)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct spawn s;
	int r = spawn_get(p, n, &s);

	if (r < 0)
		return r;
	if (env && json_object_size(env) > 0)
		add_vars(&s, env, &text);
	r = spawn_put(out, channel, &s);
	spawn_done(&s);
	return r;
}
