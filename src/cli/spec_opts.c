#include "cli/spec_opts.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/base64.h"
#include "http/target.h"

static const char *option_of(const struct spec_field *f)
{
	return f->option ? f->option : f->name;
}

static bool is_list(const struct spec_field *f)
{
	return f->kind == SPEC_MAP || f->kind == SPEC_PORTS ||
	       f->kind == SPEC_LIST || f->kind == SPEC_FILES;
}

/* Variables have an option of their own (-e), with more to it. */
static bool has_row(const struct spec_field *f, enum spec_rows rows)
{
	if (f->kind == SPEC_OBJECT)
		return false;
	if (rows == ROWS_PATCH)
		return (f->flags & SPEC_PATCH) != 0;
	return !(f->flags & SPEC_PROCESS) ||
	       (rows == ROWS_CREATE && f->kind == SPEC_TEXT);
}

static struct opt row_of(struct spec_opts *s, const struct spec_field *f,
			 size_t i)
{
	if (is_list(f))
		return (struct opt){ option_of(f), 0,      OPT_LIST,
				     &s->list[i],  f->arg, f->help };
	if (f->kind != SPEC_BOOL)
		return (struct opt){ option_of(f), 0,      OPT_TEXT,
				     &s->text[i],  f->arg, f->help };
	if (!(f->flags & SPEC_ON))
		return (struct opt){ option_of(f), 0,    OPT_FLAG,
				     &s->flag[i],  NULL, f->help };
	snprintf(s->off_name[i], sizeof(s->off_name[i]), "no-%s", f->name);
	snprintf(s->off_help[i], sizeof(s->off_help[i]), "turn off %s",
		 f->help);
	return (struct opt){ s->off_name[i], 0,    OPT_FLAG,
			     &s->flag[i],    NULL, s->off_help[i] };
}

size_t spec_opts_rows(struct spec_opts *s, struct opt table[SPEC_OPTS_MAX],
		      enum spec_rows rows)
{
	const struct spec_field *f = spec_fields;
	size_t i, n = 0;

	s->rows = rows;
	for (i = 0; f->name; i++, f++) {
		assert(i < SPEC_OPTS_MAX);
		if (has_row(f, rows))
			table[n++] = row_of(s, f, i);
	}
	return n;
}

static void put_comma(struct buf *b)
{
	if (!strchr("{[", buf_data(b)[buf_len(b) - 1]))
		buf_puts(b, ",");
}

static void put_key(struct buf *b, const char *key, size_t n)
{
	put_comma(b);
	json_put_str(b, key, n);
	buf_puts(b, ":");
}

/* What is behind the '=' of NAME=VALUE, and the length of the name. */
static const char *value_of(struct cli *cli, const struct spec_field *f,
			    const char *pair, size_t *name_n)
{
	const char *eq = strchr(pair, '=');
	char why[96];

	if (!eq || eq == pair) {
		snprintf(why, sizeof(why), "--%s: '%.32s' is not %s",
			 option_of(f), pair, f->arg);
		cli_usage_error(cli, why);
	}
	*name_n = (size_t)(eq - pair);
	return eq + 1;
}

static void read_whole(struct cli *cli, const char *path, size_t max,
		       struct buf *content)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	while (fd >= 0 && buf_len(content) <= max &&
	       (n = buf_read(content, fd, max)) > 0)
		;
	if (n < 0)
		fail(cli, "read %s: %m", path);
	if (n > 0)
		fail(cli, "%s: too large to be a part of the request", path);
}

static void put_file(struct cli *cli, struct buf *b, const char *path)
{
	AUTO(buf_done) struct buf content = { 0 };

	read_whole(cli, path, SPEC_FILES_BYTES, &content);
	if (http_is_utf8(buf_data(&content), buf_len(&content))) {
		put_key(b, "content", strlen("content"));
		json_put_str(b, buf_data(&content), buf_len(&content));
	} else {
		put_key(b, "base64", strlen("base64"));
		buf_puts(b, "\"");
		base64_add(b, buf_data(&content), buf_len(&content));
		buf_puts(b, "\"");
	}
}

/* A string for each word between the separators. */
static void put_words(struct buf *b, const char *s, const char *separators)
{
	size_t n;

	for (;; s += n + 1) {
		n = strcspn(s, separators);
		put_comma(b);
		json_put_str(b, s, n);
		if (s[n] == '\0')
			return;
	}
}

static void put_item(struct cli *cli, enum spec_rows rows,
		     const struct spec_field *f, const char *word,
		     struct buf *b)
{
	const char *value;
	size_t n;

	if (f->kind == SPEC_LIST) {
		put_words(b, word, f->flags & SPEC_COMMAS ? "," : "");
		return;
	}
	/* "K-" takes a label away. */
	n = strlen(word);
	if (rows == ROWS_PATCH && n > 1 && word[n - 1] == '-' &&
	    !strchr(word, '=')) {
		put_key(b, word, n - 1);
		buf_puts(b, "null");
		return;
	}
	value = value_of(cli, f, word, &n);
	if (f->kind == SPEC_FILES) {
		put_comma(b);
		buf_puts(b, "{");
		put_key(b, "path", strlen("path"));
		json_put_str(b, word, n);
		put_file(cli, b, value);
		buf_puts(b, "}");
		return;
	}
	put_key(b, word, n);
	if (f->kind == SPEC_PORTS && strspn(value, "0123456789") > 0 &&
	    value[strspn(value, "0123456789")] == '\0' && *value != '0')
		buf_puts(b, value);
	else
		json_put_str(b, value, strlen(value));
}

static void put_list(struct cli *cli, enum spec_rows rows,
		     const struct spec_field *f, const struct opt_list *list,
		     struct buf *b)
{
	bool object = f->kind == SPEC_MAP || f->kind == SPEC_PORTS;
	size_t i;

	put_key(b, f->name, strlen(f->name));
	buf_puts(b, object ? "{" : "[");
	for (i = 0; i < list->n; i++)
		put_item(cli, rows, f, list->v[i], b);
	buf_puts(b, object ? "}" : "]");
}

/* A policy that is a file, not a name, goes along as rules. */
static const char *policy_file(const struct spec_opts *s)
{
	const struct spec_field *f = spec_fields;
	size_t i;

	for (i = 0; f->name; i++, f++)
		if (strcmp(f->name, "policy") == 0)
			return s->text[i] && strchr(s->text[i], '/')
				       ? s->text[i]
				       : NULL;
	return NULL;
}

static void put_rules(struct cli *cli, const struct opt_list *own,
		      const char *path, struct buf *b)
{
	AUTO(buf_done) struct buf text = { 0 };
	size_t i;

	read_whole(cli, path, SPEC_RULES_BYTES, &text);
	/* The last line has no end, or is one that is empty. */
	if (buf_len(&text) > 0 && text.p[text.len - 1] == '\n')
		text.len--;
	put_key(b, "rules", strlen("rules"));
	buf_puts(b, "[");
	for (i = 0; i < own->n; i++)
		put_words(b, own->v[i], "");
	put_words(b, buf_str(&text), "\n");
	buf_puts(b, "]");
}

void spec_opts_body(struct cli *cli, const struct spec_opts *s,
		    const struct opt_list *env, struct buf *b)
{
	const struct spec_field *f = spec_fields;
	const char *file = policy_file(s);
	size_t i;

	buf_puts(b, "{");
	for (i = 0; f->name; i++, f++) {
		if (file && strcmp(f->name, "rules") == 0) {
			put_rules(cli, &s->list[i], file, b);
		} else if (file && s->text[i] == file) {
			continue;
		} else if (s->text[i]) {
			put_key(b, f->name, strlen(f->name));
			json_put_str(b, s->text[i], strlen(s->text[i]));
		} else if (s->flag[i]) {
			put_key(b, f->name, strlen(f->name));
			buf_puts(b, f->flags & SPEC_ON ? "false" : "true");
		} else if (s->list[i].n > 0) {
			put_list(cli, s->rows, f, &s->list[i], b);
		} else if (env && env->n > 0 && strcmp(f->name, "env") == 0) {
			put_list(cli, s->rows, f, env, b);
		}
	}
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
