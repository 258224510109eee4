/*
 * Specs of strangers: whatever is taken can be shown, given again, and says
 * the same; a change that is refused leaves the original alone.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void base(struct spec *s)
{
	static const struct conf c = { .image = "debian",
				       .cpus_milli = 1000,
				       .mem_bytes = 1 << 30,
				       .disk_bytes = 1 << 30,
				       .pids = 100 };

	spec_defaults(s, &c);
}

static char *text_of(const struct spec *s)
{
	json_t *j = spec_to_json(s);
	char *text = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);

	json_decref(j);
	assert(text);
	return text;
}

static void again(const struct spec *s)
{
	struct err e = { 0 };
	struct spec copy;
	char *one = text_of(s), *two;
	json_t *j = json_loads(one, 0, NULL);

	base(&copy);
	assert(j && spec_from_json(&copy, j, &e) == 0);
	two = text_of(&copy);
	assert(strcmp(one, two) == 0);
	spec_done(&copy);
	json_decref(j);
	free(one);
	free(two);
}

static void change(const struct spec *s, const json_t *j)
{
	char *before = text_of(s), *after;
	struct err e = { 0 };
	struct spec copy;
	int r;

	spec_copy(&copy, s);
	r = spec_patch(&copy, j, &e);
	assert(r == 0 || (r == -e.code && *e.msg));
	spec_done(&copy);
	after = text_of(s);
	assert(strcmp(before, after) == 0);
	free(before);
	free(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	json_t *j =
		json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES, NULL);
	struct err e = { 0 };
	struct spec s;

	if (!j)
		return 0;
	base(&s);
	if (spec_from_json(&s, j, &e) == 0)
		again(&s);
	else
		assert(e.code && *e.msg);
	spec_done(&s);
	base(&s);
	change(&s, j);
	spec_done(&s);
	json_decref(j);
	return 0;
}
