#include "cli/show.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "spec/spec.h"

enum { ID_SHOWN = 12, DEPTH_MAX = 8 };

const char *show_str(const json_t *j, const char *key)
{
	const char *v = json_string_value(json_object_get(j, key));

	return v ? v : "";
}

static void number_text(const json_t *v, char out[SHOW_CAP])
{
	if (json_is_integer(v))
		snprintf(out, SHOW_CAP, "%lld",
			 (long long)json_integer_value(v));
	else if (json_is_real(v))
		snprintf(out, SHOW_CAP, "%.6g", json_real_value(v));
	else
		snprintf(out, SHOW_CAP, "-");
}

void show_number(const json_t *j, const char *key, char out[SHOW_CAP])
{
	number_text(json_object_get(j, key), out);
}

void show_size(const json_t *j, const char *key, char out[SHOW_CAP])
{
	const json_t *v = json_object_get(j, key);
	char text[SIZE_TEXT] = "-";

	if (json_is_integer(v) && json_integer_value(v) >= 0)
		size_text((uint64_t)json_integer_value(v), text);
	snprintf(out, SHOW_CAP, "%s", text);
}

uint64_t stamp_ms(const char *stamp)
{
	struct tm tm = { 0 };
	unsigned ms = 0;
	time_t t;

	if (sscanf(stamp, "%4d-%2d-%2dT%2d:%2d:%2d.%3uZ", &tm.tm_year,
		   &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec,
		   &ms) < 6)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	t = timegm(&tm);
	return t < 0 ? 0 : (uint64_t)t * 1000 + ms;
}

void show_age(const json_t *j, const char *key, char out[SHOW_CAP])
{
	uint64_t at = stamp_ms(show_str(j, key)), now = clock_wall_ms();
	char text[SIZE_TEXT] = "-";

	if (at > 0)
		age_text(now > at ? now - at : 0, text);
	snprintf(out, SHOW_CAP, "%s", text);
}

void show_until(const json_t *j, const char *key, char out[SHOW_CAP])
{
	uint64_t at = stamp_ms(show_str(j, key)), now = clock_wall_ms();
	char text[SIZE_TEXT];

	if (at == 0) {
		snprintf(out, SHOW_CAP, "-");
	} else if (at <= now) {
		snprintf(out, SHOW_CAP, "now");
	} else {
		age_text(at - now, text);
		snprintf(out, SHOW_CAP, "in %s", text);
	}
}

void show_egress(const json_t *j, char out[SHOW_CAP])
{
	const json_t *e = json_object_get(j, "egress");
	char up[SHOW_CAP], down[SHOW_CAP];

	if (!e) {
		snprintf(out, SHOW_CAP, "-");
		return;
	}
	show_size(e, "up_bytes", up);
	show_size(e, "down_bytes", down);
	snprintf(out, SHOW_CAP, "%.30s up, %.30s down", up, down);
}

void show_id(const json_t *j, const char *key, char out[SHOW_CAP])
{
	snprintf(out, SHOW_CAP, "%.*s", ID_SHOWN, show_str(j, key));
}

static bool is_size(const char *key)
{
	const struct spec_field *f;
	size_t n = strlen(key);

	if ((n > 6 && strcmp(key + n - 6, "_bytes") == 0) ||
	    strcmp(key, "memory_at_pause") == 0)
		return true;
	for (f = spec_fields; f->name; f++)
		if (strcmp(f->name, key) == 0)
			return f->kind == SPEC_SIZE;
	return false;
}

/* "a, b, c" of an array of strings. */
static void list_text(const json_t *list, char out[256])
{
	size_t i, at = 0;
	json_t *v;

	*out = '\0';
	json_array_foreach (list, i, v) {
		const char *s = json_string_value(v);

		clean_text(out + at, 256 - at, s ? s : "?");
		at += strlen(out + at);
		if (i + 1 < json_array_size(list) && at + 3 < 256)
			at += (size_t)snprintf(out + at, 256 - at, ", ");
	}
}

static void value_text(const json_t *j, const char *key, char out[256])
{
	const json_t *v = json_object_get(j, key);
	char text[SHOW_CAP];

	if (json_is_string(v)) {
		clean_text(out, 256, json_string_value(v));
		return;
	}
	if (json_is_array(v)) {
		list_text(v, out);
		return;
	}
	if (json_is_boolean(v))
		snprintf(text, sizeof(text), json_is_true(v) ? "yes" : "no");
	else if (is_size(key))
		show_size(j, key, text);
	else
		number_text(v, text);
	snprintf(out, 256, "%s", text);
}

/* An object, or a list of them. */
static bool is_tree(const json_t *v)
{
	return json_is_object(v) || json_is_object(json_array_get(v, 0));
}

static void show_branch(const char *name, const json_t *v, int depth)
{
	const json_t *one;
	size_t i;

	if (json_is_object(v)) {
		printf("%*s%s:\n", depth * 2, "", name);
		show_tree(v, depth + 1);
		return;
	}
	json_array_foreach ((json_t *)v, i, one) {
		show_branch(name, one, depth);
	}
}

void show_tree(const json_t *j, int depth)
{
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)j, key, v) {
		char name[64], text[256];

		clean_text(name, sizeof(name), key);
		if (is_tree(v) && depth < DEPTH_MAX) {
			show_branch(name, v, depth);
			continue;
		}
		value_text(j, key, text);
		printf("%*s%-*s %s\n", depth * 2, "", 16 - depth * 2, name,
		       text);
	}
}
