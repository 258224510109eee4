#include "api/e2b/filter.h"

#include "check.h"

static json_t *parse(const char *text)
{
	struct err e = { 0 };

	return e2b_filter_parse(text, &e);
}

static bool is(const char *text, const char *want)
{
	json_t *j = parse(text), *w = json_loads(want, 0, NULL);
	bool same = j && json_equal(j, w);

	json_decref(j);
	json_decref(w);
	return same;
}

static bool fits(const char *filter, const char *metadata)
{
	json_t *f = parse(filter), *m = json_loads(metadata, 0, NULL);
	bool r = e2b_filter_fits(f, m);

	json_decref(f);
	json_decref(m);
	return r;
}

int main(void)
{
	CHECK(is("", "{}"));
	CHECK(is("a=b", "{\"a\": \"b\"}"));
	CHECK(is("a=b&c=", "{\"a\": \"b\", \"c\": \"\"}"));
	CHECK(is("&a=b&&", "{\"a\": \"b\"}"));
	CHECK(is("a%2520b=c%2526d", "{\"a b\": \"c&d\"}"));
	CHECK(is("a=b=c", "{\"a\": \"b=c\"}"));
	CHECK(is("a=%25C3%25BC", "{\"a\": \"\303\274\"}"));
	CHECK(!parse("a"));
	CHECK(!parse("a=%"));
	CHECK(!parse("a=%2"));
	CHECK(!parse("a=%zz"));
	CHECK(!parse("a=%252"));
	CHECK(!parse("a=%00"));
	CHECK(!parse("a=%2500"));
	CHECK(!parse("a=%25ff"));
	CHECK(fits("", "{}"));
	CHECK(fits("a=1", "{\"a\": \"1\", \"b\": \"2\"}"));
	CHECK(!fits("a=1&c=3", "{\"a\": \"1\", \"b\": \"2\"}"));
	CHECK(!fits("a=1", "{\"a\": \"2\"}"));
	return CHECK_DONE();
}
