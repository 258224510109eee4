/* What a spec may say about the way out. */
#include <errno.h>
#include <string.h>

#include "policy/policy.h"
#include "spec/check.h"
#include "spec/spec.h"

static const char *text_of(const json_t *v)
{
	const char *s = json_string_value(v);

	return s && strlen(s) == json_string_length(v) ? s : NULL;
}

static int check_names(const json_t *v, const char *what, size_t max,
		       struct err *e)
{
	const json_t *val;
	const char *s;
	size_t i;

	if (!json_is_array(v) || json_array_size(v) > max)
		return err_set(e, EINVAL, "%s: not a list of at most %zu", what,
			       max);
	json_array_foreach ((json_t *)v, i, val) {
		s = text_of(val);
		if (!s || !name_valid(s))
			return err_set(e, EINVAL, "%s: '%.64s' is not a name",
				       what, s ? s : "?");
	}
	return 0;
}

int check_allow(const json_t *v, struct err *e)
{
	return check_names(v, "allow", SPEC_ALLOW_MAX, e);
}

int check_secrets(const json_t *v, struct err *e)
{
	return check_names(v, "secrets", SPEC_SECRETS_MAX, e);
}

int check_canaries(const json_t *v, struct err *e)
{
	const json_t *val;
	const char *s;
	size_t i, n;

	if (!json_is_array(v) || json_array_size(v) > SPEC_SECRETS_MAX)
		return err_set(e, EINVAL, "canaries: not a list of at most %d",
			       SPEC_SECRETS_MAX);
	json_array_foreach ((json_t *)v, i, val) {
		s = text_of(val);
		n = s ? strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "abcdefghijklmnopqrstuvwxyz0123456789_")
		      : 0;
		if (!s || n == 0 || n >= NAME_CAP || s[n] != '\0')
			return err_set(e, EINVAL,
				       "canaries: '%.64s' is not the name of a "
				       "variable",
				       s ? s : "?");
	}
	return 0;
}

static int check_lines(const char *key, const json_t *v, size_t max,
		       size_t bytes, struct err *e)
{
	struct policy p = { 0 };
	struct buf text = { 0 };
	const json_t *val;
	const char *s;
	size_t i;
	int r = 0;

	if (!json_is_array(v) || json_array_size(v) > max)
		return err_set(e, EINVAL, "%s: not a list of at most %zu", key,
			       max);
	json_array_foreach ((json_t *)v, i, val) {
		s = text_of(val);
		if (!s || strchr(s, '\n') ||
		    buf_len(&text) + strlen(s) > bytes) {
			buf_done(&text);
			return err_set(e, EINVAL,
				       "%s: not lines of policy, of at most "
				       "%zu bytes together",
				       key, bytes);
		}
		buf_puts(&text, s);
		buf_puts(&text, "\n");
	}
	r = policy_parse(&p, buf_data(&text), buf_len(&text), e);
	if (r < 0)
		r = err_wrap(e, "%s", key);
	policy_done(&p);
	buf_done(&text);
	return r;
}

int check_rules(const json_t *v, struct err *e)
{
	return check_lines("rules", v, SPEC_RULES_MAX, SPEC_RULES_BYTES, e);
}

int check_late_rules(const json_t *v, struct err *e)
{
	return check_lines("late-rules", v, SPEC_LATE_MAX, SPEC_LATE_BYTES, e);
}

static bool has_text(const json_t *list, const char *text)
{
	const json_t *v;
	size_t i;

	json_array_foreach ((json_t *)list, i, v)
		if (strcmp(json_string_value(v), text) == 0)
			return true;
	return false;
}

int spec_inherit_canaries(struct spec *s, const json_t *had, struct err *e)
{
	json_t *all = s->canaries ? json_copy(s->canaries) : json_array();
	const json_t *v;
	size_t i;

	json_array_foreach ((json_t *)had, i, v)
		if (!has_text(all, json_string_value(v)))
			json_array_append(all, (json_t *)v);
	if (json_array_size(all) > SPEC_SECRETS_MAX) {
		json_decref(all);
		return err_set(e, EINVAL,
			       "canaries: more than %d together with the "
			       "inherited ones",
			       SPEC_SECRETS_MAX);
	}
	json_decref(s->canaries);
	s->canaries = all;
	return 0;
}
