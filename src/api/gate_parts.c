#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/gate.h"
#include "api/grants.h"
#include "base/buf.h"

/* A newline behind each rule, and there is one more row than is used. */
static_assert(GRANTS_OF_BOX * (GRANT_RULE_CAP + 1) + SPEC_RULES_BYTES +
			      SPEC_RULES_MAX + SPEC_LATE_BYTES + SPEC_LATE_MAX +
			      SPEC_ALLOW_MAX * PRESET_TEXT_MAX +
			      SAVED_POLICY_MAX <=
		      GATE_TEXT_MAX,
	      "all that a sandbox may have fits");
static_assert(SPEC_ALLOW_MAX + 4 < GATE_PARTS_MAX, "so do the names");

void gate_parts_done(struct gate_parts *hold)
{
	size_t i;

	for (i = 0; i < GATE_PARTS_MAX; i++)
		buf_done(&hold->text[i]);
}

/* One more part, which is left out when nothing is in it. */
static int add(struct gate_parts *hold, struct gate_msg *m, struct err *e)
{
	struct buf *text = &hold->text[m->n_parts];
	size_t all = 0, i;

	if (buf_len(text) == 0)
		return 0;
	for (i = 0; i <= m->n_parts; i++)
		all += buf_len(&hold->text[i]);
	if (m->n_parts + 1 >= GATE_PARTS_MAX || all > GATE_TEXT_MAX)
		return err_set(e, E2BIG,
			       "its policies are more than %d, or more than %d "
			       "bytes together",
			       GATE_PARTS_MAX - 1, GATE_TEXT_MAX);
	m->parts[m->n_parts] =
		(struct gate_part){ .name = hold->name[m->n_parts],
				    .text = buf_str(text) };
	m->n_parts++;
	return 0;
}

/* One that is not there any more allows nothing. */
static int add_saved(struct gate_parts *hold, struct gate_msg *m,
		     const char *kind, const struct saved_policy *p,
		     struct err *e)
{
	if (!p)
		return 0;
	snprintf(hold->name[m->n_parts], GATE_PART_CAP, "%s %s", kind, p->name);
	buf_puts(&hold->text[m->n_parts], p->text);
	return add(hold, m, e);
}

/* Lines of its own. */
static int add_lines(struct gate_parts *hold, struct gate_msg *m,
		     const char *name, const json_t *lines, struct err *e)
{
	const json_t *v;
	size_t i;

	snprintf(hold->name[m->n_parts], GATE_PART_CAP, "%s", name);
	json_array_foreach (lines, i, v) {
		buf_printf(&hold->text[m->n_parts], "%s\n",
			   json_string_value(v));
	}
	return add(hold, m, e);
}

int gate_parts(const struct sandbox *s, struct gate_parts *hold,
	       struct gate_msg *m, struct err *e)
{
	const json_t *v;
	size_t i;
	int r;

	snprintf(hold->name[m->n_parts], GATE_PART_CAP, GATE_PART_GRANTS);
	grants_text(s, &hold->text[m->n_parts]);
	r = add(hold, m, e);
	if (r < 0)
		return r;
	r = add_lines(hold, m, "the sandbox's rules", s->spec.rules, e);
	json_array_foreach (s->spec.allow, i, v) {
		const char *name = json_string_value(v);

		if (r == 0)
			r = add_saved(hold, m, "preset",
				      preset_find(s->api, name), e);
	}
	if (r == 0 && *s->spec.policy)
		r = add_saved(hold, m, "policy",
			      policy_find(s->api, s->project, s->spec.policy),
			      e);
	if (r == 0)
		r = add_lines(hold, m, "the sandbox's late rules",
			      s->spec.late_rules, e);
	return r;
}
