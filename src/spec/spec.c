#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define AT(f) offsetof(struct spec, f), sizeof(((struct spec *)0)->f)

const struct spec_field spec_fields[] = {
	{ "image", SPEC_TEXT, AT(image), 0, 0, "IMAGE", "image to start from" },
	{ "name", SPEC_TEXT, AT(name), 0, 0, "NAME",
	  "a name to call it by, unique among living sandboxes" },
	{ "cpus", SPEC_MILLI, AT(cpus_milli), 50, 512 * 1000, "N",
	  "processors, in parts of a thousand: 2, 0.5" },
	{ "memory", SPEC_SIZE, AT(mem_bytes), 16 * MIB, 4096 * GIB, "SIZE",
	  "memory, with everything the kernel holds for it" },
	{ "disk", SPEC_SIZE, AT(disk_bytes), 16 * MIB, 65536 * GIB, "SIZE",
	  "disk space for what it writes" },
	{ "pids", SPEC_NUMBER, AT(pids), 8, 65536, "N",
	  "processes and threads" },
	{ "timeout", SPEC_TIME, AT(timeout_ms), 0, 366ULL * 86400 * 1000,
	  "TIME", "life span: 90s, 5m, 1h; 0 is without end" },
	{ "sudo", SPEC_BOOL, AT(sudo), 0, 1, NULL, "sudo inside" },
	{ "allow-missing", SPEC_TEXT, AT(allow_missing), 0, 0, "LIMIT",
	  "start although the host cannot enforce LIMIT (disk)" },
	{ 0 },
};

void spec_defaults(struct spec *s, const struct conf *c)
{
	*s = (struct spec){ .cpus_milli = c->cpus_milli,
			    .mem_bytes = c->mem_bytes,
			    .disk_bytes = c->disk_bytes,
			    .pids = c->pids,
			    .timeout_ms = c->timeout_ms,
			    .sudo = 1 };
	memcpy(s->image, c->image, sizeof(s->image));
	s->image[sizeof(s->image) - 1] = '\0';
	snprintf(s->allow_missing, sizeof(s->allow_missing), "%.31s",
		 c->allow_missing);
}

void spec_done(struct spec *s)
{
	json_decref(s->env);
	s->env = NULL;
}

static int parse_text(const struct spec_field *f, const char *v, uint64_t *n)
{
	switch (f->kind) {
	case SPEC_NUMBER:
		return parse_u64(v, UINT64_MAX, n);
	case SPEC_SIZE:
		return parse_size(v, n);
	case SPEC_MILLI:
		return parse_milli(v, n);
	case SPEC_TIME:
		return parse_duration(v, n);
	case SPEC_TEXT:
	case SPEC_BOOL:
		break;
	}
	return -EINVAL;
}

static int parse_number(const struct spec_field *f, const json_t *v,
			uint64_t *n)
{
	double d = json_number_value(v);

	if (f->kind == SPEC_MILLI || f->kind == SPEC_TIME)
		d *= 1000;
	if (!(d >= 0) || d > 9e15 || d != (double)(uint64_t)d)
		return -EINVAL;
	*n = (uint64_t)d;
	return 0;
}

static int take_field(struct spec *s, const struct spec_field *f,
		      const json_t *v, struct err *e)
{
	char *at = (char *)s + f->at;
	uint64_t n = 0;
	int r = -EINVAL;

	if (f->kind == SPEC_TEXT) {
		if (json_is_string(v) &&
		    strlen(json_string_value(v)) == json_string_length(v))
			r = str_copy(at, f->cap, json_string_value(v));
	} else if (f->kind == SPEC_BOOL) {
		if (json_is_boolean(v))
			r = 0;
		n = json_is_true(v);
	} else if (json_is_string(v)) {
		r = parse_text(f, json_string_value(v), &n);
	} else if (json_is_number(v)) {
		r = parse_number(f, v, &n);
	}
	if (r < 0)
		return err_set(e, EINVAL, "%s: not a valid value", f->name);
	if (f->kind != SPEC_TEXT)
		memcpy(at, &n, sizeof(n));
	return 0;
}

static int check_env(const json_t *env, struct err *e)
{
	const char *key;
	json_t *v;
	size_t bytes = 0;

	if (!json_is_object(env) || json_object_size(env) > SPEC_ENV_MAX)
		return err_set(e, EINVAL,
			       "env: not an object of at most %d strings",
			       SPEC_ENV_MAX);
	json_object_foreach ((json_t *)env, key, v) {
		if (!json_is_string(v) || *key == '\0' || strchr(key, '=') ||
		    strlen(json_string_value(v)) != json_string_length(v))
			return err_set(e, EINVAL, "env: '%s' is not valid",
				       key);
		bytes += strlen(key) + json_string_length(v) + 2;
	}
	if (bytes > SPEC_ENV_BYTES)
		return err_set(e, E2BIG, "env: more than %d bytes",
			       SPEC_ENV_BYTES);
	return 0;
}

int spec_from_json(struct spec *s, const json_t *j, struct err *e)
{
	const char *key;
	json_t *v;
	int r;

	if (!json_is_object(j))
		return err_set(e, EINVAL, "the spec is not a JSON object");
	json_object_foreach ((json_t *)j, key, v) {
		const struct spec_field *f = spec_fields;

		if (strcmp(key, "env") == 0) {
			r = check_env(v, e);
			if (r < 0)
				return r;
			json_decref(s->env);
			s->env = json_incref(v);
			continue;
		}
		while (f->name && strcmp(f->name, key) != 0)
			f++;
		if (!f->name)
			return err_set(e, EINVAL, "unknown key '%s'", key);
		r = take_field(s, f, v, e);
		if (r < 0)
			return r;
	}
	return spec_check(s, e);
}

json_t *spec_to_json(const struct spec *s)
{
	const struct spec_field *f;
	json_t *j = json_object();

	for (f = spec_fields; f->name; f++) {
		const char *at = (const char *)s + f->at;
		json_t *v = NULL;
		uint64_t n = 0;

		if (f->kind != SPEC_TEXT)
			memcpy(&n, at, sizeof(n));
		switch (f->kind) {
		case SPEC_TEXT:
			v = json_string(at);
			break;
		case SPEC_NUMBER:
		case SPEC_SIZE:
			v = json_integer((json_int_t)n);
			break;
		case SPEC_MILLI:
		case SPEC_TIME:
			v = n % 1000 ? json_real((double)n / 1000)
				     : json_integer((json_int_t)(n / 1000));
			break;
		case SPEC_BOOL:
			v = json_boolean(n);
			break;
		}
		json_object_set_new(j, f->name, v);
	}
	if (s->env)
		json_object_set(j, "env", s->env);
	return j;
}

int spec_check(const struct spec *s, struct err *e)
{
	const struct spec_field *f;

	for (f = spec_fields; f->name; f++) {
		uint64_t n;

		if (f->kind == SPEC_TEXT)
			continue;
		memcpy(&n, (const char *)s + f->at, sizeof(n));
		if (n < f->min || n > f->max)
			return err_set(e, ERANGE,
				       "%s: out of bounds (see --help)",
				       f->name);
	}
	if (*s->name && !name_valid(s->name))
		return err_set(e, EINVAL,
			       "name: '%s' is not 1 to 63 of a-z, 0-9 and -",
			       s->name);
	if (*s->allow_missing && strcmp(s->allow_missing, "disk") != 0)
		return err_set(e, EINVAL,
			       "allow-missing: only 'disk' may be missing");
	return 0;
}
