/* Specs from JSON: what is taken, what is refused, what a change may change. */
#include "spec/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "check.h"

static int from(struct spec *s, const char *text, struct err *e,
		int (*fn)(struct spec *, const json_t *, struct err *))
{
	json_t *j = json_loads(text, 0, NULL);
	int r;

	*e = (struct err){ 0 };
	r = fn(s, j, e);
	json_decref(j);
	return r;
}

static void base(struct spec *s)
{
	static const struct conf c = { .image = "debian",
				       .cpus_milli = 1000,
				       .mem_bytes = 1 << 30,
				       .disk_bytes = 1 << 30,
				       .pids = 100 };

	spec_defaults(s, &c);
}

static void refused(const char *text, int code, const char *word)
{
	AUTO(spec_done) struct spec s;
	struct err e;

	base(&s);
	CHECK(from(&s, text, &e, spec_from_json) == -code);
	CHECK(strstr(e.msg, word) != NULL);
	if (!strstr(e.msg, word))
		printf("# %s: %s\n", text, e.msg);
}

static void test_refused(void)
{
	char many[4096] = "{\"labels\": {";
	int i;

	refused("{\"cpu\": 1}", EINVAL, "'cpu'");
	refused("{\"cpus\": 0}", ERANGE, "cpus");
	refused("{\"name\": \"No\"}", EINVAL, "name");
	refused("{\"idle-action\": \"sleep\"}", EINVAL, "idle-action");
	refused("{\"auto-snapshot\": \"always\"}", EINVAL, "auto-snapshot");
	refused("{\"snapshot-keep\": 101}", ERANGE, "snapshot-keep");
	refused("{\"nofile\": 5}", ERANGE, "nofile");
	refused("{\"nofile\": 70000}", ERANGE, "nofile");
	refused("{\"labels\": []}", EINVAL, "labels");
	refused("{\"labels\": {\"\": \"x\"}}", EINVAL, "labels");
	refused("{\"labels\": {\"a b\": \"x\"}}", EINVAL, "'a b'");
	refused("{\"labels\": {\"a\": 1}}", EINVAL, "'a'");
	refused("{\"labels\": {\"a\": null}}", EINVAL, "'a'");
	refused("{\"ports\": {\"web\": 0}}", EINVAL, "'web'");
	refused("{\"ports\": {\"web\": 65536}}", EINVAL, "'web'");
	refused("{\"ports\": {\"web\": \"80\"}}", EINVAL, "'web'");
	refused("{\"ports\": {\"Web\": 80}}", EINVAL, "'Web'");
	refused("{\"start\": \"ls\"}", EINVAL, "start");
	refused("{\"start\": [\"\"]}", EINVAL, "start");
	refused("{\"files\": {}}", EINVAL, "files");
	refused("{\"files\": [1]}", EINVAL, "files");
	refused("{\"files\": [{\"path\": \"a\"}]}", EINVAL, "'a'");
	refused("{\"files\": [{\"content\": \"a\"}]}", EINVAL, "path");
	refused("{\"files\": [{\"path\": \"a\", \"content\": \"\","
		" \"base64\": \"\"}]}",
		EINVAL, "'a'");
	refused("{\"files\": [{\"path\": \"a\", \"base64\": \"x\"}]}", EINVAL,
		"'a'");
	refused("{\"files\": [{\"path\": \"a\", \"content\": \"\","
		" \"mode\": \"rw\"}]}",
		EINVAL, "'a'");
	refused("{\"files\": [{\"path\": \"a\", \"content\": \"\","
		" \"x\": 1}]}",
		EINVAL, "'a'");
	refused("{\"env\": {\"A=B\": \"c\"}}", EINVAL, "env");
	refused("{\"cpu-budget\": \"-1\"}", EINVAL, "cpu-budget");
	for (i = 0; i <= SPEC_LABELS_MAX; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many),
			 "%s\"l%d\": \"v\"", i ? "," : "", i);
	snprintf(many + strlen(many), sizeof(many) - strlen(many), "}}");
	refused(many, EINVAL, "at most 32");
}

static void test_all(void)
{
	static const char text[] =
		"{\"name\": \"n\", \"labels\": {\"team/x\": \"core\"},"
		" \"nofile\": 256, \"idle-timeout\": \"5m\","
		" \"cpu-budget\": 1.5, \"output-limit\": \"1G\","
		" \"user\": \"root\", \"workdir\": \"/srv\","
		" \"ports\": {\"web\": 80}, \"start\": [\"ls\", \"id\"]}";
	struct spec s, moved, copy;
	AUTO_FREE char *a = NULL, *b = NULL;
	struct err e;
	json_t *j;

	base(&s);
	CHECK(from(&s, text, &e, spec_from_json) == 0);
	CHECK(s.idle_ms == 300000 && s.cpu_budget_ms == 1500);
	CHECK(s.output_limit == 1 << 30 && s.nofile == 256);
	CHECK_STR(s.user, "root");
	CHECK_STR(s.workdir, "/srv");
	CHECK(json_array_size(s.start) == 2);
	spec_move(&moved, &s);
	CHECK(!s.labels && !s.ports && !s.start && !s.env);

	/* What is shown can be given again, and says the same. */
	j = spec_to_json(&moved);
	a = json_dumps(j, JSON_SORT_KEYS);
	base(&s);
	CHECK(spec_from_json(&s, j, &e) == 0);
	json_decref(j);
	j = spec_to_json(&s);
	b = json_dumps(j, JSON_SORT_KEYS);
	json_decref(j);
	CHECK_STR(a, b);

	/* A change of a copy does not reach the original. */
	spec_copy(&copy, &moved);
	CHECK(from(&copy, "{\"labels\": {\"a\": \"b\", \"team/x\": null}}", &e,
		   spec_patch) == 0);
	CHECK(json_object_get(copy.labels, "a") != NULL);
	CHECK(json_object_get(copy.labels, "team/x") == NULL);
	CHECK(json_object_get(moved.labels, "a") == NULL);
	spec_done(&copy);
	spec_done(&moved);
	spec_done(&s);
}

/* Thousandths survive being written down and read again: all of them. */
static void test_fractions(void)
{
	unsigned i, bad = 0;

	for (i = 50; i < 4000; i++) {
		struct spec s = { 0 }, again = { 0 };
		struct err e = { 0 };
		json_t *j;

		base(&s);
		s.cpus_milli = i;
		j = spec_to_json(&s);
		base(&again);
		bad += spec_from_json(&again, j, &e) < 0 ||
		       again.cpus_milli != i;
		json_decref(j);
		spec_done(&s);
		spec_done(&again);
	}
	CHECK(bad == 0);
	refused("{\"cpus\": 0.0505}", EINVAL, "cpus");
}

static void test_patch(void)
{
	AUTO(spec_done) struct spec s;
	struct err e;

	base(&s);
	CHECK(from(&s, "{\"timeout\": 5, \"memory\": \"64M\"}", &e,
		   spec_patch) == 0);
	CHECK(s.timeout_ms == 5000 && s.mem_bytes == 64 << 20);
	CHECK(from(&s, "{\"labels\": {\"a\": \"b\"}}", &e, spec_patch) == 0);
	CHECK(from(&s, "{\"labels\": {\"a\": 5}}", &e, spec_patch) == -EINVAL);
	CHECK(from(&s, "{\"labels\": 1}", &e, spec_patch) == -EINVAL);
	CHECK(json_object_size(s.labels) == 1);
	CHECK(from(&s, "{\"disk\": 1}", &e, spec_patch) == -EINVAL);
	CHECK(strstr(e.msg, "disk") != NULL);
	CHECK(from(&s, "{\"name\": \"x\"}", &e, spec_patch) == -EINVAL);
	CHECK(from(&s, "{\"env\": {}}", &e, spec_patch) == -EINVAL);
	CHECK(from(&s, "{\"x\": 1}", &e, spec_patch) == -EINVAL);
	CHECK(from(&s, "{\"pids\": 1}", &e, spec_patch) == -ERANGE);
	CHECK(from(&s, "[]", &e, spec_patch) == -EINVAL);
}

int main(void)
{
	test_refused();
	test_all();
	test_fractions();
	test_patch();
	return CHECK_DONE();
}
