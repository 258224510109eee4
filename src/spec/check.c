#include "spec/check.h"

#include <errno.h>
#include <string.h>

#include "spec/spec.h"

/* A string without a NUL in it, which C would cut. */
static bool is_text(const json_t *v)
{
	return json_is_string(v) &&
	       strlen(json_string_value(v)) == json_string_length(v);
}

int check_env(const json_t *v, struct err *e)
{
	const char *key;
	json_t *val;
	size_t bytes = 0;

	if (!json_is_object(v) || json_object_size(v) > SPEC_ENV_MAX)
		return err_set(e, EINVAL,
			       "env: not an object of at most %d strings",
			       SPEC_ENV_MAX);
	json_object_foreach ((json_t *)v, key, val) {
		if (!is_text(val) || *key == '\0' || strchr(key, '='))
			return err_set(e, EINVAL, "env: '%.64s' is not valid",
				       key);
		bytes += strlen(key) + json_string_length(val) + 2;
	}
	if (bytes > SPEC_ENV_BYTES)
		return err_set(e, E2BIG, "env: more than %d bytes",
			       SPEC_ENV_BYTES);
	return 0;
}

static bool is_label(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz"
			     "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-");

	return n > 0 && n < NAME_CAP && s[n] == '\0';
}

int check_labels(const json_t *v, struct err *e)
{
	const char *key;
	json_t *val;

	if (!json_is_object(v) || json_object_size(v) > SPEC_LABELS_MAX)
		return err_set(e, EINVAL,
			       "labels: not an object of at most %d strings",
			       SPEC_LABELS_MAX);
	json_object_foreach ((json_t *)v, key, val) {
		if (!is_label(key))
			return err_set(e, EINVAL,
				       "labels: '%.64s' is not 1 to 63 "
				       "letters, digits, . _ / and -",
				       key);
		if (!is_text(val) || json_string_length(val) >= SPEC_LABEL_CAP)
			return err_set(e, EINVAL,
				       "labels: the value of '%s' is not a "
				       "string of less than %d bytes",
				       key, SPEC_LABEL_CAP);
	}
	return 0;
}

int check_ports(const json_t *v, struct err *e)
{
	const char *key;
	json_t *val;

	if (!json_is_object(v) || json_object_size(v) > SPEC_PORTS_MAX)
		return err_set(e, EINVAL,
			       "ports: not an object of at most %d numbers",
			       SPEC_PORTS_MAX);
	json_object_foreach ((json_t *)v, key, val) {
		json_int_t n = json_integer_value(val);

		if (!name_valid(key))
			return err_set(e, EINVAL,
				       "ports: '%.64s' is not 1 to 63 of a-z, "
				       "0-9 and -",
				       key);
		if (!json_is_integer(val) || n < 1 || n > UINT16_MAX)
			return err_set(e, EINVAL,
				       "ports: '%s' is not a number from 1 to "
				       "65535",
				       key);
	}
	return 0;
}

int check_start(const json_t *v, struct err *e)
{
	const json_t *val;
	size_t i;

	if (!json_is_array(v) || json_array_size(v) > SPEC_START_MAX)
		return err_set(e, EINVAL,
			       "start: not a list of at most %d commands",
			       SPEC_START_MAX);
	json_array_foreach ((json_t *)v, i, val)
		if (!is_text(val) || json_string_length(val) == 0 ||
		    json_string_length(val) > SPEC_START_BYTES)
			return err_set(e, EINVAL,
				       "start: not a command of 1 to %d bytes",
				       SPEC_START_BYTES);
	return 0;
}
