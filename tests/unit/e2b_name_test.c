/* Names of templates, and of what is in volumes. */
#include <errno.h>
#include <string.h>

#include "api/e2b/template.h"
#include "api/e2b/volume.h"
#include "check.h"

static void test_good(void)
{
	struct template_name n;

	CHECK(template_name_parse("my-app", &n) == 0);
	CHECK(strcmp(n.alias, "my-app") == 0);
	CHECK(*n.namespace == '\0' && *n.tag == '\0');
	CHECK(template_name_parse("team/My_App:v1.2", &n) == 0);
	CHECK(strcmp(n.namespace, "team") == 0);
	CHECK(strcmp(n.alias, "my_app") == 0);
	CHECK(strcmp(n.tag, "v1.2") == 0);
}

static void test_bad(void)
{
	static const char *const bad[] = {
		"",     "a b",    "a/",
		"/a",   "a/b/c",  "a:",
		"a:B",  "Team/a", "a:b:c",
		"../a", ".a",     "a\n",
		"-a",   ":a",     "a:0b6dd2c5-07a5-4f0b-9d59-3b2f8f2f3a11",
	};
	struct template_name n;
	char text[200];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(template_name_parse(bad[i], &n) == -EINVAL);
	memset(text, 'a', sizeof(text));
	text[TEMPLATE_NAME_CAP] = '\0';
	CHECK(template_name_parse(text, &n) == -EINVAL);
	text[TEMPLATE_NAME_CAP - 1] = '\0';
	CHECK(template_name_parse(text, &n) == 0);
	text[TEMPLATE_TAG_CAP] = '\0';
	CHECK(!template_tag_valid(text));
	text[TEMPLATE_TAG_CAP - 1] = '\0';
	CHECK(template_tag_valid(text));
}

static void test_uuid(void)
{
	CHECK(is_uuid("0b6dd2c5-07a5-4f0b-9d59-3b2f8f2f3a11"));
	CHECK(!is_uuid("0b6dd2c5-07a5-4f0b-9d59-3b2f8f2f3a1"));
	CHECK(!is_uuid("0b6dd2c5-07a5-4f0b-9d59-3b2f8f2f3a111"));
	CHECK(!is_uuid("0b6dd2c5x07a5-4f0b-9d59-3b2f8f2f3a11"));
	CHECK(!is_uuid(""));
}

static void test_paths(void)
{
	char out[32];

	CHECK(volume_path("/a/./b//c/", out, sizeof(out)) == 0);
	CHECK(strcmp(out, VOLUME_TOP "/a/b/c") == 0);
	CHECK(volume_path("a", out, sizeof(out)) == 0);
	CHECK(strcmp(out, VOLUME_TOP "/a") == 0);
	CHECK(volume_path("", out, sizeof(out)) == 0);
	CHECK(strcmp(out, VOLUME_TOP) == 0);
	CHECK(volume_path("/a/..b/...", out, sizeof(out)) == 0);
	CHECK(volume_path("/..", out, sizeof(out)) == -EINVAL);
	CHECK(volume_path("a/../../b", out, sizeof(out)) == -EINVAL);
	CHECK(volume_path("/aaaaaaaaaaaaaaaaaaaaaaa", out, sizeof(out)) == 0);
	CHECK(volume_path("/aaaaaaaaaaaaaaaaaaaaaaaa", out, sizeof(out)) ==
	      -ENAMETOOLONG);
}

int main(void)
{
	test_paths();
	test_good();
	test_bad();
	test_uuid();
	return CHECK_DONE();
}
