/* "Did you mean": which names are near to a mistyped word. */
#include "base/nearest.h"

#include <string.h>

#include "check.h"

static const char *near(const char *word)
{
	static const char *const names[] = { "create", "cp", "ls", "snapshot" };
	struct nearest x = { .word = word, .n = strlen(word) };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		nearest_try(&x, names[i]);
	return x.name ? x.name : "";
}

static void test_distance(void)
{
	CHECK(edit_distance("", 0, "abc") == 3);
	CHECK(edit_distance("abc", 3, "abc") == 0);
	CHECK(edit_distance("abcx", 3, "abc") == 0);
	CHECK(edit_distance("acb", 3, "abc") == 1);
	CHECK(edit_distance("kitten", 6, "sitting") == 3);
	CHECK(edit_distance("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 33, "a") ==
	      (size_t)-1);
}

static void test_near(void)
{
	CHECK_STR(near("creat"), "create");
	CHECK_STR(near("carete"), "create");
	CHECK_STR(near("sl"), "ls");
	CHECK_STR(near("snap-shot"), "snapshot");
	CHECK_STR(near("destroy"), "");
	CHECK_STR(near("x"), "");
	CHECK_STR(near(""), "");
}

int main(void)
{
	test_distance();
	test_near();
	return CHECK_DONE();
}
