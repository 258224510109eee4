#include "api/mcp/args.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

enum { PATH_CAP = 96, DEPTH_MAX = 8 };

/* Where we are, for people: "env.PATH". */
struct at {
	char path[PATH_CAP];
	unsigned depth;
};

static struct at inside(const struct at *at, const char *name)
{
	struct at in = { .depth = at->depth + 1 };

	snprintf(in.path, sizeof(in.path), "%.60s%s%.30s", at->path,
		 *at->path ? "." : "", name);
	return in;
}

static const char *name_of(const struct at *at)
{
	return *at->path ? at->path : "arguments";
}

static const char *type_of(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "object";
	case JSON_ARRAY:
		return "array";
	case JSON_STRING:
		return "string";
	case JSON_INTEGER:
		return "integer";
	case JSON_REAL:
		return "number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "boolean";
	case JSON_NULL:
		break;
	}
	return "null";
}

static bool is_type(const json_t *v, const char *type)
{
	return strcmp(type_of(v), type) == 0 ||
	       (json_is_integer(v) && strcmp(type, "number") == 0);
}

static int check_type(const json_t *schema, const json_t *v,
		      const struct at *at, struct err *e)
{
	const json_t *want = json_object_get(schema, "type"), *one;
	char words[64] = "";
	size_t i, n = 0;

	if (json_is_string(want)) {
		if (is_type(v, json_string_value(want)))
			return 0;
		snprintf(words, sizeof(words), "%s", json_string_value(want));
	}
	json_array_foreach (want, i, one) {
		if (is_type(v, json_string_value(one)))
			return 0;
		n = strlen(words);
		snprintf(words + n, sizeof(words) - n, "%s%s", n ? " or " : "",
			 json_string_value(one));
	}
	if (!want)
		return 0;
	return err_set(e, EINVAL, "%s: %s is wanted, this is %s", name_of(at),
		       words, type_of(v));
}

static int check_enum(const json_t *schema, const json_t *v,
		      const struct at *at, struct err *e)
{
	const json_t *list = json_object_get(schema, "enum"), *one;
	AUTO_FREE char *text = NULL;
	size_t i;

	json_array_foreach (list, i, one)
		if (json_equal(one, v))
			return 0;
	if (!list)
		return 0;
	text = json_dumps(list, JSON_COMPACT);
	return err_set(e, EINVAL, "%s: it is one of %.150s", name_of(at),
		       text ? text : "a list");
}

/* `what`: "characters", "entries". */
static int check_size(const json_t *schema, const char *min, const char *max,
		      size_t n, const struct at *at, struct err *e)
{
	const json_t *least = json_object_get(schema, min);
	const json_t *most = json_object_get(schema, max);

	if (least && (json_int_t)n < json_integer_value(least))
		return err_set(e, EINVAL, "%s: it is too short, %s is %lld",
			       name_of(at), min,
			       (long long)json_integer_value(least));
	if (most && (json_int_t)n > json_integer_value(most))
		return err_set(e, EINVAL, "%s: it is too long, %s is %lld",
			       name_of(at), max,
			       (long long)json_integer_value(most));
	return 0;
}

static int check_number(const json_t *schema, const json_t *v,
			const struct at *at, struct err *e)
{
	const json_t *min = json_object_get(schema, "minimum");
	const json_t *max = json_object_get(schema, "maximum");

	if (min && json_number_value(v) < json_number_value(min))
		return err_set(e, EINVAL, "%s: the least is %.10g", name_of(at),
			       json_number_value(min));
	if (max && json_number_value(v) > json_number_value(max))
		return err_set(e, EINVAL, "%s: the most is %.10g", name_of(at),
			       json_number_value(max));
	return 0;
}

static size_t characters(const json_t *v)
{
	const char *p = json_string_value(v);
	size_t i, n = 0, len = json_string_length(v);

	for (i = 0; i < len; i++)
		n += ((unsigned char)p[i] & 0xc0) != 0x80;
	return n;
}

static int check(const json_t *schema, json_t *v, const struct at *at,
		 struct err *e);

/* 5.0 is as good as 5 to most who write JSON. */
static json_t *whole(const json_t *schema, const json_t *v)
{
	const json_t *type = json_object_get(schema, "type");
	double d = json_real_value(v);

	if (!json_is_real(v) || !json_is_string(type) ||
	    strcmp(json_string_value(type), "integer") != 0 || floor(d) != d ||
	    fabs(d) > 9007199254740992.0)
		return NULL;
	return json_integer((json_int_t)d);
}

/* A member by its schema; NULL: any name will do. */
static int check_member(const json_t *schema, json_t *object, const char *key,
			const struct at *at, struct err *e)
{
	json_t *v = json_object_get(object, key), *as_integer;
	struct at in = inside(at, key);

	if (!schema)
		return 0;
	as_integer = whole(schema, v);
	if (as_integer) {
		json_object_set_new(object, key, as_integer);
		v = as_integer;
	}
	return check(schema, v, &in, e);
}

/* What a name that is not listed must look like; NULL: it is not allowed. */
static const json_t *of_others(const json_t *schema)
{
	const json_t *more = json_object_get(schema, "additionalProperties");

	return json_is_object(more) || json_is_true(more) ? more : NULL;
}

static int unknown(const json_t *known, const char *key, const struct at *at,
		   struct err *e)
{
	char words[150] = "";
	const char *name;
	json_t *v;

	json_object_foreach ((json_t *)known, name, v) {
		size_t n = strlen(words);

		snprintf(words + n, sizeof(words) - n, "%s%s", n ? ", " : "",
			 name);
	}
	return err_set(e, EINVAL, "%s: there is no '%.40s', there is: %s",
		       name_of(at), key, *words ? words : "nothing");
}

static int check_object(const json_t *schema, json_t *v, const struct at *at,
			struct err *e)
{
	const json_t *known = json_object_get(schema, "properties");
	const json_t *one;
	const char *key;
	void *next;
	json_t *member;
	size_t i;
	int r = 0;

	json_array_foreach (json_object_get(schema, "required"), i, one)
		if (!json_object_get(v, json_string_value(one)))
			return err_set(e, EINVAL, "%s: '%s' is missing",
				       name_of(at), json_string_value(one));
	json_object_foreach_safe(v, next, key, member)
	{
		one = json_object_get(known, key);
		if (!one && !of_others(schema))
			return unknown(known, key, at, e);
		if (!one)
			one = of_others(schema);
		r = check_member(json_is_object(one) ? one : NULL, v, key, at,
				 e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_array(const json_t *schema, json_t *v, const struct at *at,
		       struct err *e)
{
	const json_t *items = json_object_get(schema, "items");
	json_t *one;
	size_t i;
	int r = check_size(schema, "minItems", "maxItems", json_array_size(v),
			   at, e);

	if (r < 0 || !items)
		return r;
	json_array_foreach (v, i, one) {
		struct at in;
		char name[24];

		snprintf(name, sizeof(name), "%zu", i);
		in = inside(at, name);
		r = check(items, one, &in, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check(const json_t *schema, json_t *v, const struct at *at,
		 struct err *e)
{
	int r;

	if (at->depth > DEPTH_MAX)
		return err_set(e, EINVAL, "%s: nested too deeply", name_of(at));
	r = check_type(schema, v, at, e);
	if (r == 0)
		r = check_enum(schema, v, at, e);
	if (r < 0)
		return r;
	if (json_is_object(v))
		return check_object(schema, v, at, e);
	if (json_is_array(v))
		return check_array(schema, v, at, e);
	if (json_is_string(v))
		return check_size(schema, "minLength", "maxLength",
				  characters(v), at, e);
	return json_is_number(v) ? check_number(schema, v, at, e) : 0;
}

int mcp_args_check(const json_t *schema, json_t *args, struct err *e)
{
	struct at top = { 0 };

	return check(schema, args, &top, e);
}
