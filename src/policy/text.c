/* Policies as people write them: one rule a line, words and spaces. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "policy/target.h"

enum { WORDS_MAX = 3, LIST_CAP = 4096 };

static const char *const effects[EFFECTS] = {
	[EFFECT_DENY] = "deny",
	[EFFECT_ALLOW] = "allow",
	[EFFECT_ASK] = "ask",
};

const char *effect_name(enum effect e)
{
	return effects[e];
}

void policy_done(struct policy *p)
{
	free(p->rules);
	free(p->privates);
	free(p->budgets);
	free(p->models);
	*p = (struct policy){ 0 };
}

static bool word_is(const struct word *w, const char *s)
{
	return w->n == strlen(s) && memcmp(w->s, s, w->n) == 0;
}

/* The next word of a line, and how far that is; n 0: there is none. */
static struct word next_word(const char **s, size_t *n)
{
	struct word w = { *s, 0 };

	while (*n && (**s == ' ' || **s == '\t')) {
		(*s)++;
		(*n)--;
	}
	w.s = *s;
	while (*n && **s != ' ' && **s != '\t') {
		(*s)++;
		(*n)--;
		w.n++;
	}
	return w;
}

static struct rule *rule_add(struct policy *p, unsigned line, struct err *e)
{
	/* Grown by halves: memory is bounded by the length of the text. */
	if (p->n >= POLICY_RULES_MAX) {
		err_set(e, E2BIG, "more than %d rules", POLICY_RULES_MAX);
		return NULL;
	}
	if ((p->n & (p->n - 1)) == 0)
		p->rules = xrealloc(p->rules,
				    (p->n ? p->n * 2 : 1) * sizeof(*p->rules));
	p->rules[p->n] = (struct rule){ .line = line };
	return &p->rules[p->n++];
}

static int effect_read(const struct word *w, enum effect *out, struct err *e)
{
	size_t i;

	for (i = 0; i < EFFECTS; i++)
		if (word_is(w, effects[i])) {
			*out = (enum effect)i;
			return 0;
		}
	return err_set(e, EINVAL,
		       "'%.*s' is no rule: allow, deny, ask, private, budget, "
		       "over, model or require",
		       (int)(w->n < 32 ? w->n : 32), w->s);
}

int rule_read(struct policy *p, unsigned line, const struct word *w, size_t n,
	      struct err *e)
{
	struct rule *r = rule_add(p, line, e);

	if (!r || effect_read(&w[0], &r->effect, e) < 0)
		return -e->code;
	if (n == 2 && !word_is(&w[1], "*"))
		return err_set(e, EINVAL,
			       "write '%s METHODS TARGET', or '%s *' for "
			       "everything",
			       effects[r->effect], effects[r->effect]);
	if (n < 2)
		return err_set(e, EINVAL, "'%s' what? METHODS and a TARGET",
			       effects[r->effect]);
	if (methods_read(r, w[1].s, w[1].n, e) < 0)
		return -e->code;
	return target_read(r, w[n - 1].s, w[n - 1].n, e);
}

/* Lines that are no rules: words, or a list of words with commas. */
struct line {
	struct policy *policy;
	struct budget *budget; /* that a budget line is about */
};

/* One thing of a list: `n` words of at most WORDS_MAX. */
typedef int part_fn(struct line *l, char **w, size_t n, struct err *e);

static int budget_part(struct line *l, char **w, size_t n, struct err *e)
{
	if (!l->budget && n == 3) {
		l->budget = budget_of(l->policy, *w++, e);
		if (!l->budget)
			return -e->code;
		n--;
	}
	if (n != 2)
		return err_set(e, EINVAL,
			       "write 'budget requests 500/h, up 20MB', or "
			       "'budget HOST requests 500/h, up 20MB'");
	if (!l->budget)
		l->budget = &l->policy->budget;
	return budget_read(l->budget, w[0], w[1], e);
}

static int private_part(struct line *l, char **w, size_t n, struct err *e)
{
	if (n != 1)
		return err_set(e, EINVAL,
			       "write 'private 10.0.0.0/8, db.internal'");
	return private_add(l->policy, w[0], e);
}

static int over_part(struct line *l, char **w, size_t n, struct err *e)
{
	if (n != 1)
		return err_set(e, EINVAL,
			       "write 'over deny', 'over ask' or 'over pause'");
	return over_set(l->policy, w[0], e);
}

static int model_part(struct line *l, char **w, size_t n, struct err *e)
{
	if (n != 2)
		return err_set(e, EINVAL,
			       "write 'model HOST openai' or 'model HOST "
			       "anthropic'");
	return model_add(l->policy, w[0], w[1], e);
}

int require_set(struct policy *p, const char *what, const char *value,
		struct err *e)
{
	if (strcmp(what, "tier") != 0 || strcmp(value, "microvm") != 0)
		return err_set(e, EINVAL,
			       "'%.16s %.16s' cannot be required: write "
			       "'require tier microvm'",
			       what, value);
	p->microvm = true;
	return 0;
}

static int require_part(struct line *l, char **w, size_t n, struct err *e)
{
	if (n != 2)
		return err_set(e, EINVAL, "write 'require tier microvm'");
	return require_set(l->policy, w[0], w[1], e);
}

static const struct statement {
	const char *word;
	part_fn *fn;
} statements[] = {
	{ "budget", budget_part },   { "private", private_part },
	{ "over", over_part },       { "model", model_part },
	{ "require", require_part },
};

/* How many; more than WORDS_MAX is one more than that. */
static size_t split(char *part, char *w[WORDS_MAX])
{
	char *save = NULL, *word = strtok_r(part, " \t", &save);
	size_t n = 0;

	for (; word && n < WORDS_MAX; word = strtok_r(NULL, " \t", &save))
		w[n++] = word;
	return word ? n + 1 : n;
}

static int statement_read(struct policy *p, const struct statement *st,
			  const char *s, size_t n, struct err *e)
{
	struct line l = { .policy = p };
	char text[LIST_CAP], *w[WORDS_MAX], *part, *next = text;

	if (n >= sizeof(text))
		return err_set(e, E2BIG, "%s: the line is too long", st->word);
	memcpy(text, s, n);
	text[n] = '\0';
	if (strlen(text) != n)
		return err_set(e, EINVAL, "%s: a NUL byte", st->word);
	while ((part = strsep(&next, ",")) != NULL)
		if (st->fn(&l, w, split(part, w), e) < 0)
			return -e->code;
	return 0;
}

static int rule_line(struct policy *p, unsigned line, struct word first,
		     struct word rest, struct err *e)
{
	struct word w[WORDS_MAX] = { first }, extra;
	size_t i = 0;

	do
		i++;
	while (i < WORDS_MAX && (w[i] = next_word(&rest.s, &rest.n)).n);
	extra = next_word(&rest.s, &rest.n);
	if (extra.n)
		return err_set(e, EINVAL,
			       "'%.*s' is one word too many: EFFECT METHODS "
			       "TARGET",
			       (int)(extra.n < 32 ? extra.n : 32), extra.s);
	return rule_read(p, line, w, i, e);
}

static int line_read(struct policy *p, unsigned line, const char *s, size_t n,
		     struct err *e)
{
	const char *comment = memchr(s, '#', n);
	struct word first;
	size_t i;

	if (comment)
		n = (size_t)(comment - s);
	if (n && s[n - 1] == '\r')
		n--;
	first = next_word(&s, &n);
	if (first.n == 0)
		return 0;
	for (i = 0; i < ARRAY_LEN(statements); i++)
		if (word_is(&first, statements[i].word))
			return statement_read(p, &statements[i], s, n, e);
	return rule_line(p, line, first, (struct word){ s, n }, e);
}

int policy_parse(struct policy *p, const char *text, size_t n, struct err *e)
{
	unsigned line = 0;

	if (n > POLICY_TEXT_MAX)
		return err_set(e, E2BIG, "a policy is at most %d KiB",
			       POLICY_TEXT_MAX / 1024);
	/* Also in comments: it is kept as it is, and shown. */
	if (memchr(text, '\0', n) || !str_is_utf8(text, n))
		return err_set(e, EINVAL, "a policy is UTF-8 text");
	while (n) {
		const char *end = memchr(text, '\n', n);
		size_t len = end ? (size_t)(end - text) : n;

		if (line_read(p, ++line, text, len, e) < 0) {
			policy_done(p);
			return err_wrap(e, "line %u", line);
		}
		text += len + (end != NULL);
		n -= len + (end != NULL);
	}
	return 0;
}

void rule_print(const struct rule *r, struct buf *out)
{
	buf_printf(out, "%s ", effects[r->effect]);
	methods_print(r, out);
	buf_puts(out, " ");
	target_print(r, out);
}

static void put_limit(void *arg, const char *word, const char *value)
{
	struct buf *parts = arg;

	buf_printf(parts, "%s%s %s", buf_len(parts) ? ", " : "", word, value);
}

void budget_print(const struct budget *b, struct buf *out)
{
	AUTO(buf_done) struct buf parts = { 0 };

	budget_each(b, put_limit, &parts);
	buf_puts(out, buf_str(&parts));
}

static void put_budget(const struct host_pattern *host, const struct budget *b,
		       struct buf *out)
{
	AUTO(buf_done) struct buf parts = { 0 };

	budget_print(b, &parts);
	if (buf_len(&parts) == 0)
		return;
	buf_puts(out, "budget ");
	if (host) {
		host_pattern_print(host, out);
		buf_puts(out, " ");
	}
	buf_printf(out, "%s\n", buf_str(&parts));
}

void policy_print(const struct policy *p, struct buf *out)
{
	size_t i;

	for (i = 0; i < p->n; i++) {
		rule_print(&p->rules[i], out);
		buf_puts(out, "\n");
	}
	for (i = 0; i < p->n_privates; i++) {
		buf_puts(out, "private ");
		private_print(&p->privates[i], out);
		buf_puts(out, "\n");
	}
	put_budget(NULL, &p->budget, out);
	for (i = 0; i < p->n_budgets; i++)
		put_budget(&p->budgets[i].host, &p->budgets[i].budget, out);
	if (p->over)
		buf_printf(out, "over %s\n", over_name(p->over));
	for (i = 0; i < p->n_models; i++) {
		buf_puts(out, "model ");
		host_pattern_print(&p->models[i].host, out);
		buf_printf(out, " %s\n", model_shape_name(p->models[i].shape));
	}
	if (p->microvm)
		buf_puts(out, "require tier microvm\n");
}
