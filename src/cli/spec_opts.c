#include "cli/spec_opts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

size_t spec_opts_rows(struct spec_opts *s, struct opt table[SPEC_OPTS_MAX])
{
	const struct spec_field *f = spec_fields;
	size_t i;

	for (i = 0; f->name; i++, f++) {
		assert(i < SPEC_OPTS_MAX);
		if (f->kind != SPEC_BOOL) {
			table[i] = (struct opt){ f->name,     0,      OPT_TEXT,
						 &s->text[i], f->arg, f->help };
			continue;
		}
		snprintf(s->off_name[i], sizeof(s->off_name[i]), "no-%s",
			 f->name);
		snprintf(s->off_help[i], sizeof(s->off_help[i]), "turn off %s",
			 f->help);
		table[i] = (struct opt){ s->off_name[i], 0,    OPT_FLAG,
					 &s->off[i],     NULL, s->off_help[i] };
	}
	return i;
}

static void put_key(struct buf *b, const char *key, size_t n)
{
	if (buf_data(b)[buf_len(b) - 1] != '{')
		buf_puts(b, ",");
	json_put_str(b, key, n);
	buf_puts(b, ":");
}

static void put_env(struct buf *b, const struct opt_list *env)
{
	size_t i;

	put_key(b, "env", 3);
	buf_puts(b, "{");
	for (i = 0; i < env->n; i++) {
		const char *eq = strchr(env->v[i], '=');

		put_key(b, env->v[i], (size_t)(eq - env->v[i]));
		json_put_str(b, eq + 1, strlen(eq + 1));
	}
	buf_puts(b, "}");
}

void spec_opts_body(const struct spec_opts *s, const struct opt_list *env,
		    struct buf *b)
{
	const struct spec_field *f = spec_fields;
	size_t i;

	buf_puts(b, "{");
	for (i = 0; f->name; i++, f++) {
		if (s->text[i]) {
			put_key(b, f->name, strlen(f->name));
			json_put_str(b, s->text[i], strlen(s->text[i]));
		} else if (s->off[i]) {
			put_key(b, f->name, strlen(f->name));
			buf_puts(b, "false");
		}
	}
	if (env && env->n > 0)
		put_env(b, env);
	buf_puts(b, "}");
}

static bool set_later(const struct opt_list *env, size_t i, size_t key_n)
{
	size_t k;

	for (k = i + 1; k < env->n; k++)
		if (strncmp(env->v[k], env->v[i], key_n) == 0 &&
		    (env->v[k][key_n] == '=' || env->v[k][key_n] == '\0'))
			return true;
	return false;
}

void env_complete(struct cli *cli, struct opt_list *env)
{
	size_t i, n = 0;

	for (i = 0; i < env->n; i++) {
		const char *word = env->v[i], *own;
		size_t key_n = strcspn(word, "=");
		char *pair;

		if (key_n == 0)
			cli_usage_error(cli, "--env: the name is missing "
					     "(K=V, or K for your own K)");
		if (set_later(env, i, key_n))
			continue;
		if (word[key_n] == '=') {
			env->v[n++] = word;
			continue;
		}
		own = getenv(word);
		if (!own)
			continue;
		/* Lives as long as the process: the list points to it. */
		if (asprintf(&pair, "%s=%s", word, own) < 0)
			abort();
		env->v[n++] = pair;
	}
	env->n = n;
}
