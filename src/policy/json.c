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

static int read_limits(struct budget *b, const json_t *j, struct err *e)
{
	const char *key;
	json_t *v;

	if (!json_is_object(j))
		return err_set(e, EINVAL, "a budget is an object");
	json_object_foreach ((json_t *)j, key, v) {
		if (!json_is_string(v))
			return err_set(e, EINVAL, "budget: '%.32s' is a string",
				       key);
		if (budget_read(b, key, json_string_value(v), e) < 0)
			return -e->code;
	}
	return 0;
}

static int read_budget(struct policy *p, const json_t *j, struct err *e)
{
	return read_limits(&p->budget, j, e);
}

static int read_budgets(struct policy *p, const json_t *j, struct err *e)
{
	struct budget *b;
	const char *key;
	json_t *v;

	if (!json_is_object(j))
		return err_set(e, EINVAL, "'budgets' is an object of hosts");
	json_object_foreach ((json_t *)j, key, v) {
		b = budget_of(p, key, e);
		if (!b || read_limits(b, v, e) < 0)
			return -e->code;
	}
	return 0;
}

static int read_over(struct policy *p, const json_t *j, struct err *e)
{
	if (!json_is_string(j))
		return err_set(e, EINVAL, "'over' is a string");
	return over_set(p, json_string_value(j), e);
}

static int read_private(struct policy *p, const json_t *j, struct err *e)
{
	size_t i;

	if (!json_is_array(j))
		return err_set(e, EINVAL, "'private' is a list");
	for (i = 0; i < json_array_size(j); i++) {
		const char *s = json_string_value(json_array_get(j, i));

		if (private_add(p, s ? s : "", e) < 0)
			return -e->code;
	}
	return 0;
}

static int read_models(struct policy *p, const json_t *j, struct err *e)
{
	const char *key;
	json_t *v;

	if (!json_is_object(j))
		return err_set(e, EINVAL, "'models' is an object of hosts");
	json_object_foreach ((json_t *)j, key, v) {
		const char *s = json_string_value(v);

		if (model_add(p, key, s ? s : "", e) < 0)
			return -e->code;
	}
	return 0;
}

static int read_require(struct policy *p, const json_t *j, struct err *e)
{
	const char *key;
	json_t *v;

	if (!json_is_object(j))
		return err_set(e, EINVAL, "'require' is an object");
	json_object_foreach ((json_t *)j, key, v) {
		const char *s = json_string_value(v);

		if (require_set(p, key, s ? s : "", e) < 0)
			return -e->code;
	}
	return 0;
}

static const struct {
	const char *key;
	int (*read)(struct policy *p, const json_t *j, struct err *e);
} parts[] = {
	{ "rules", read_rules },     { "private", read_private },
	{ "budget", read_budget },   { "budgets", read_budgets },
	{ "over", read_over },       { "models", read_models },
	{ "require", read_require },
};

static int read_parts(struct policy *p, const json_t *j, struct err *e)
{
	const char *key;
	json_t *v;
	size_t i;

	if (!json_object_get(j, "rules"))
		return err_set(e, EINVAL, "'rules' is missing: a list");
	json_object_foreach ((json_t *)j, key, v) {
		for (i = 0; i < ARRAY_LEN(parts); i++)
			if (strcmp(parts[i].key, key) == 0)
				break;
		if (i == ARRAY_LEN(parts))
			return err_set(e, EINVAL, "unknown key '%.64s'", key);
		if (parts[i].read(p, v, e) < 0)
			return -e->code;
	}
	return 0;
}

int policy_from_json(struct policy *p, const json_t *j, struct err *e)
{
	if (!json_is_object(j))
		return err_set(e, EINVAL, "a policy is an object");
	if (read_parts(p, j, e) < 0) {
		policy_done(p);
		return -e->code;
	}
	return 0;
}

bool policy_is_json(const char *text, size_t n)
{
	while (n && strchr(" \t\r\n", *text) && *text) {
		text++;
		n--;
	}
	return n && *text == '{';
}

int policy_read(struct policy *p, const char *text, size_t n, struct err *e)
{
	json_error_t why;
	json_t *j;
	int r;

	if (!policy_is_json(text, n))
		return policy_parse(p, text, n, e);
	j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
	if (!j)
		return err_set(e, EINVAL, "line %d: %.150s", why.line,
			       why.text);
	r = policy_from_json(p, j, e);
	json_decref(j);
	return r;
}

static void put_limit(void *arg, const char *word, const char *value)
{
	json_object_set_new(arg, word, json_string(value));
}

static json_t *rules_json(const struct policy *p)
{
	json_t *rules = json_array();
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
	return rules;
}

/* Takes `v`. */
static void put_host(json_t *to, const struct host_pattern *host, json_t *v)
{
	AUTO(buf_done) struct buf key = { 0 };

	host_pattern_print(host, &key);
	json_object_set_new(to, buf_str(&key), v);
}

/* A part that says nothing is left out. Takes `v`. */
static void put_part(json_t *to, const char *key, json_t *v)
{
	if (json_array_size(v) || json_object_size(v))
		json_object_set(to, key, v);
	json_decref(v);
}

json_t *policy_to_json(const struct policy *p)
{
	json_t *j = json_object(), *budget = json_object();
	json_t *private = json_array(), *budgets = json_object();
	json_t *models = json_object();
	size_t i;

	for (i = 0; i < p->n_privates; i++) {
		AUTO(buf_done) struct buf text = { 0 };

		private_print(&p->privates[i], &text);
		json_array_append_new(private, json_string(buf_str(&text)));
	}
	budget_each(&p->budget, put_limit, budget);
	for (i = 0; i < p->n_budgets; i++) {
		json_t *limits = json_object();

		budget_each(&p->budgets[i].budget, put_limit, limits);
		put_host(budgets, &p->budgets[i].host, limits);
	}
	for (i = 0; i < p->n_models; i++)
		put_host(models, &p->models[i].host,
			 json_string(model_shape_name(p->models[i].shape)));
	json_object_set_new(j, "rules", rules_json(p));
	json_object_set_new(j, "budget", budget);
	put_part(j, "private", private);
	put_part(j, "budgets", budgets);
	put_part(j, "models", models);
	if (p->over)
		json_object_set_new(j, "over", json_string(over_name(p->over)));
	if (p->microvm)
		json_object_set_new(j, "require",
				    json_pack("{s:s}", "tier", "microvm"));
	return j;
}
