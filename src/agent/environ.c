#include "agent/environ.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

const char *environment_get(char **v, const char *name)
{
	size_t n = strlen(name);

	for (; *v; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

int environment_make(struct environment *env, const struct spawn *s,
		     const struct user *u, bool tty, struct err *e)
{
	const struct {
		const char *name, *value;
		bool wanted;
	} more[] = {
		{ "HOME", u->home, true },         { "USER", u->name, true },
		{ "LOGNAME", u->name, true },      { "SHELL", u->shell, true },
		{ "PATH", DEFAULT_PATH, true },    { "LANG", "C.UTF-8", true },
		{ "TERM", "xterm-256color", tty },
	};
	size_t at[ARRAY_LEN(more)], n_at = 0, i, n;
	struct buf text = { 0 };

	for (i = 0; i < s->envc; i++)
		if (s->env[i][0] == '=' || !strchr(s->env[i], '='))
			return err_set(e, EINVAL,
				       "environment word '%.64s' is not "
				       "NAME=VALUE",
				       s->env[i]);
	for (i = 0; i < ARRAY_LEN(more); i++) {
		if (!more[i].wanted ||
		    environment_get((char **)s->env, more[i].name))
			continue;
		at[n_at++] = buf_len(&text);
		buf_printf(&text, "%s=%s", more[i].name, more[i].value);
		buf_add(&text, "", 1);
	}
	env->v = xcalloc(s->envc + n_at + 1, sizeof(*env->v));
	memcpy(env->v, s->env, s->envc * sizeof(*env->v));
	env->text = text.p;
	for (n = s->envc, i = 0; i < n_at; i++)
		env->v[n++] = env->text + at[i];
	return 0;
}

void environment_done(struct environment *env)
{
	free(env->v);
	free(env->text);
	*env = (struct environment){ 0 };
}
