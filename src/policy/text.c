/* Policies as people write them: one rule a line, words and spaces. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "policy/target.h"

enum { WORDS_MAX = 3, BUDGET_CAP = 256 };

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
		       "'%.*s' is no rule: allow, deny, ask or budget",
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

/* WORD VALUE, WORD VALUE ... */
static int budget_line(struct policy *p, const char *s, size_t n, struct err *e)
{
	char text[BUDGET_CAP], *part, *save = NULL;

	if (n >= sizeof(text))
		return err_set(e, E2BIG, "budget: the line is too long");
	memcpy(text, s, n);
	text[n] = '\0';
	if (strlen(text) != n)
		return err_set(e, EINVAL, "budget: a NUL byte");
	for (part = strtok_r(text, ",", &save); part;
	     part = strtok_r(NULL, ",", &save)) {
		char *in = NULL;
		const char *word = strtok_r(part, " \t", &in);
		const char *value = word ? strtok_r(NULL, " \t", &in) : NULL;

		if (!value || strtok_r(NULL, " \t", &in))
			return err_set(e, EINVAL,
				       "write 'budget requests 500/h, up 20MB, "
				       "down 2GB'");
		if (budget_read(&p->budget, word, value, e) < 0)
			return -e->code;
	}
	return 0;
}

static int line_read(struct policy *p, unsigned line, const char *s, size_t n,
		     struct err *e)
{
	const char *comment = memchr(s, '#', n);
	struct word w[WORDS_MAX] = { 0 }, extra;
	size_t i = 0;

	if (comment)
		n = (size_t)(comment - s);
	if (n && s[n - 1] == '\r')
		n--;
	w[0] = next_word(&s, &n);
	if (w[0].n == 0)
		return 0;
	if (word_is(&w[0], "budget"))
		return budget_line(p, s, n, e);
	do
		i++;
	while (i < WORDS_MAX && (w[i] = next_word(&s, &n)).n);
	extra = next_word(&s, &n);
	if (extra.n)
		return err_set(e, EINVAL,
			       "'%.*s' is one word too many: EFFECT METHODS "
			       "TARGET",
			       (int)(extra.n < 32 ? extra.n : 32), extra.s);
	return rule_read(p, line, w, i, e);
}

int policy_parse(struct policy *p, const char *text, size_t n, struct err *e)
{
	unsigned line = 0;

	if (n > POLICY_TEXT_MAX)
		return err_set(e, E2BIG, "a policy is at most %d KiB",
			       POLICY_TEXT_MAX / 1024);
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

static void budget_part(void *arg, const char *word, const char *value)
{
	struct buf *parts = arg;

	buf_printf(parts, "%s %s %s", buf_len(parts) ? "," : "", word, value);
}

void policy_print(const struct policy *p, struct buf *out)
{
	AUTO(buf_done) struct buf parts = { 0 };
	size_t i;

	for (i = 0; i < p->n; i++) {
		rule_print(&p->rules[i], out);
		buf_puts(out, "\n");
	}
	budget_each(&p->budget, budget_part, &parts);
	if (buf_len(&parts))
		buf_printf(out, "budget%s\n", buf_str(&parts));
}
