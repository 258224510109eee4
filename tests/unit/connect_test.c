#include "api/e2b/connect.h"

#include <errno.h>
#include <string.h>

#include "check.h"

static void taken(bool envelope, const char *body, size_t n, const char *want)
{
	struct err e = { 0 };
	json_t *j = connect_parse(envelope, body, n, &e);

	CHECK(j != NULL);
	CHECK_STR(json_string_value(json_object_get(j, "a")), want);
	json_decref(j);
}

static void refused(bool envelope, const char *body, size_t n, int code)
{
	struct err e = { 0 };

	CHECK(connect_parse(envelope, body, n, &e) == NULL);
	CHECK(e.code == code);
}

int main(void)
{
	static const char one[] = "\0\0\0\0\11{\"a\":\"b\"}";
	struct err e = { 0 };
	json_t *j;
	size_t i;

	taken(true, one, sizeof(one) - 1, "b");
	taken(false, one + 5, sizeof(one) - 6, "b");
	/* Cut anywhere, or with something behind it. */
	for (i = 0; i < sizeof(one) - 1; i++)
		refused(true, one, i, EINVAL);
	refused(true, one, sizeof(one), EINVAL);
	refused(true, "\1\0\0\0\2{}", 7, ENOTSUP);
	refused(true, "\2\0\0\0\2{}", 7, EINVAL);
	refused(true, "\0\377\377\377\377{}", 7, EINVAL);
	refused(false, "[]", 2, EINVAL);
	refused(false, "{", 1, EINVAL);
	refused(true, "\0\0\0\0\2[]", 7, EINVAL);

	/* Nothing at all is a message without fields. */
	j = connect_parse(true, "\0\0\0\0", 5, &e);
	CHECK(json_object_size(j) == 0 && j);
	json_decref(j);

	CHECK_STR(connect_code(ENOENT), "not_found");
	CHECK_STR(connect_code(EINVAL), "invalid_argument");
	CHECK_STR(connect_code(EIO), "internal");
	return CHECK_DONE();
}
