/* Policies as programs write them: the same words in JSON. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "policy/target.h"

static int unknown_keys(const json_t *j, const char *const *known,
			struct err *e)
{
	const char *key;
	json_t *v;
	size_t i;

	json_object_foreach ((json_t *)j, key, v) {
		for (i = 0; known[i] && strcmp(known[i], key) != 0; i++)
			;
		if (!known[i])
			return err_set(e, EINVAL, "unknown key '%.64s'", key);
	}
	return 0;
}

/* "GET,HEAD" or ["GET", "HEAD"]; missing: any. */
static int read_methods(const json_t *v, struct buf *out, struct err *e)
{
	size_t i;

	if (!v)
		buf_puts(out, "*");
	else if (json_is_string(v))
		buf_puts(out, json_string_value(v));
	for (i = 0; json_is_array(v) && i < json_array_size(v); i++) {
		const char *s = json_string_value(json_array_get(v, i));

		buf_printf(out, "%s%s", i ? "," : "", s ? s : "?");
	}
	if (buf_len(out) == 0)
		return err_set(e, EINVAL,
			       "'methods' is a string or a list of strings");
	return 0;
}

static int read_rule(struct policy *p, unsigned place, const json_t *j,
		     struct err *e)
{
	static const char *const known[] = { "effect", "methods", "target",
					     NULL };
	AUTO(buf_done) struct buf methods = { 0 };
	const char *effect, *target;
	struct word w[3];

	if (!json_is_object(j))
		return err_set(e, EINVAL, "a rule is an object");
	if (unknown_keys(j, known, e) < 0)
		return -e->code;
	effect = json_string_value(json_object_get(j, "effect"));
	target = json_string_value(json_object_get(j, "target"));
	if (!effect || !target)
		return err_set(e, EINVAL,
			       "a rule needs the strings 'effect' and "
			       "'target'");
	if (read_methods(json_object_get(j, "methods"), &methods, e) < 0)
		return -e->code;
	w[0] = (struct word){ effect, strlen(effect) };
	w[1] = (struct word){ buf_str(&methods), buf_len(&methods) };
	w[2] = (struct word){ target, strlen(target) };
	return rule_read(p, place, w, 3, e);
}

static int read_rules(struct policy *p, const json_t *rules, struct err *e)
{
	size_t i;

	if (!json_is_array(rules))
		return err_set(e, EINVAL, "'rules' is a list");
	for (i = 0; i < json_array_size(rules); i++)
		if (read_rule(p, (unsigned)i + 1, json_array_get(rules, i), e) <
		    0)
			return err_wrap(e, "rule %zu", i + 1);
	return 0;
}

static int read_budget(struct policy *p, const json_t *j, struct err *e)
{
	const char *key;
	json_t *v;

	if (j && !json_is_object(j))
		return err_set(e, EINVAL, "'budget' is an object");
	json_object_foreach ((json_t *)j, key, v) {
		if (!json_is_string(v))
			return err_set(e, EINVAL, "budget: '%.32s' is a string",
				       key);
		if (budget_read(&p->budget, key, json_string_value(v), e) < 0)
			return -e->code;
	}
	return 0;
}

int policy_from_json(struct policy *p, const json_t *j, struct err *e)
{
	static const char *const known[] = { "rules", "budget", NULL };

	if (!json_is_object(j))
		return err_set(e, EINVAL, "a policy is an object");
	if (unknown_keys(j, known, e) < 0 ||
	    read_rules(p, json_object_get(j, "rules"), e) < 0 ||
	    read_budget(p, json_object_get(j, "budget"), e) < 0) {
		policy_done(p);
		return -e->code;
	}
	return 0;
}

static void put_limit(void *arg, const char *word, const char *value)
{
	json_object_set_new(arg, word, json_string(value));
}

json_t *policy_to_json(const struct policy *p)
{
	json_t *rules = json_array(), *budget = json_object();
	size_t i;

	for (i = 0; i < p->n; i++) {
		AUTO(buf_done) struct buf methods = { 0 };
		AUTO(buf_done) struct buf target = { 0 };

		methods_print(&p->rules[i], &methods);
		target_print(&p->rules[i], &target);
		json_array_append_new(rules,
				      json_pack("{s:s, s:s, s:s}", "effect",
						effect_name(p->rules[i].effect),
						"methods", buf_str(&methods),
						"target", buf_str(&target)));
	}
	budget_each(&p->budget, put_limit, budget);
	return json_pack("{s:o, s:o}", "rules", rules, "budget", budget);
}
