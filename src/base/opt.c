#include "base/opt.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/str.h"

static int opt_value(const struct opt *o, const char *v, struct err *e)
{
	struct opt_list *list = o->to;
	int r = 0;

	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)o->to = true;
		return 0;
	case OPT_TEXT:
		*(const char **)o->to = v;
		return 0;
	case OPT_LIST:
		if (list->n == OPT_LIST_MAX)
			return err_set(e, E2BIG, "--%s: more than %d", o->name,
				       OPT_LIST_MAX);
		list->v[list->n++] = v;
		return 0;
	case OPT_NUMBER:
		r = parse_u64(v, UINT64_MAX, o->to);
		break;
	case OPT_SIZE:
		r = parse_size(v, o->to);
		break;
	case OPT_TIME:
		r = parse_duration(v, o->to);
		break;
	case OPT_MILLI:
		r = parse_milli(v, o->to);
		break;
	}
	if (r < 0)
		return err_set(e, -r, "--%s: '%s' is not a valid %s", o->name,
			       v, o->arg);
	return 0;
}

/* `word` without dashes, up to `n` bytes. */
static const struct opt *find_name(const struct opt *t, const char *word,
				   size_t n)
{
	for (; t->name; t++)
		if (strlen(t->name) == n && strncmp(t->name, word, n) == 0)
			return t;
	return NULL;
}

static const struct opt *find_letter(const struct opt *t, char c)
{
	for (; t->name; t++)
		if (t->letter == c)
			return t;
	return NULL;
}

/* `word` with its dashes, and the length of the name behind them. */
static int unknown(const struct opt *table, const char *word, size_t n,
		   struct err *e)
{
	struct nearest near = { .word = word + 2, .n = n };

	for (; table->name; table++)
		nearest_try(&near, table->name);
	if (near.name)
		return err_set(e, EINVAL,
			       "unknown option %s, did you mean --%s?", word,
			       near.name);
	return err_set(e, EINVAL, "unknown option %s (see --help)", word);
}

static int long_opt(const struct opt *table, int argc, char **argv, int i,
		    struct err *e)
{
	const char *word = argv[i] + 2, *eq = strchr(word, '=');
	size_t n = eq ? (size_t)(eq - word) : strlen(word);
	const struct opt *o = find_name(table, word, n);
	int r;

	if (!o)
		return unknown(table, argv[i], n, e);
	if (o->kind == OPT_FLAG) {
		if (eq)
			return err_set(e, EINVAL, "--%s takes no value",
				       o->name);
		r = opt_value(o, NULL, e);
		return r < 0 ? r : i + 1;
	}
	if (!eq && i + 1 >= argc)
		return err_set(e, EINVAL, "--%s needs a value", o->name);
	r = opt_value(o, eq ? eq + 1 : argv[i + 1], e);
	if (r < 0)
		return r;
	return eq ? i + 1 : i + 2;
}

static int short_opts(const struct opt *table, int argc, char **argv, int i,
		      struct err *e)
{
	const char *p = argv[i] + 1;
	int r;

	for (; *p; p++) {
		const struct opt *o = find_letter(table, *p);

		if (!o)
			return err_set(e, EINVAL,
				       "unknown option -%c (see --help)", *p);
		if (o->kind == OPT_FLAG) {
			r = opt_value(o, NULL, e);
			if (r < 0)
				return r;
			continue;
		}
		if (!p[1] && i + 1 >= argc)
			return err_set(e, EINVAL, "-%c needs a value", *p);
		r = opt_value(o, p[1] ? p + 1 : argv[i + 1], e);
		if (r < 0)
			return r;
		return p[1] ? i + 1 : i + 2;
	}
	return i + 1;
}

int opt_parse(const struct opt *table, int argc, char **argv, struct err *e)
{
	int i = 1;

	while (i < argc && argv[i][0] == '-' && argv[i][1]) {
		if (strcmp(argv[i], "--") == 0)
			return i + 1;
		if (argv[i][1] == '-')
			i = long_opt(table, argc, argv, i, e);
		else
			i = short_opts(table, argc, argv, i, e);
		if (i < 0)
			return i;
	}
	return i;
}

void opt_help(const struct opt *table)
{
	for (; table->name; table++) {
		char left[48];

		if (!table->help)
			continue;
		snprintf(left, sizeof(left), "%s%c%s--%s%s%s",
			 table->letter ? "-" : " ",
			 table->letter ? table->letter : ' ',
			 table->letter ? ", " : "  ", table->name,
			 table->arg ? " " : "", table->arg ? table->arg : "");
		printf("  %-28s %s\n", left, table->help);
	}
}
