#include "api/share.h"

#include <errno.h>
#include <string.h>

#include "check.h"

static unsigned take_all(struct pool *p, const char *project,
			 struct share **last)
{
	struct err e = { 0 };
	struct share *s;
	unsigned n = 0;

	while ((s = share_take(p, project, 1, &e))) {
		*last = s;
		n++;
	}
	return n;
}

static void test_project_takes_half_of_the_rest(void)
{
	struct pool p = { .max = 64, .what = "places" };
	struct share *a = NULL, *b = NULL, *c = NULL;

	CHECK(take_all(&p, "a", &a) == 32);
	CHECK(take_all(&p, "b", &b) == 16);
	CHECK(take_all(&p, "", &c) == 8);
	CHECK(p.used == 56);
	share_give(a, 32);
	CHECK(take_all(&p, "c", &a) == 20);
	share_give(a, 20);
	share_give(b, 16);
	share_give(c, 8);
	CHECK(p.used == 0 && list_empty(&p.shares));
}

static void test_refusal_names_the_project_and_the_pool(void)
{
	struct pool p = { .max = 2, .what = "drive puts" };
	struct err e = { 0 };
	struct share *a = share_take(&p, "greedy", 1, &e), *b;

	CHECK(a && !share_take(&p, "greedy", 1, &e));
	CHECK(e.code == EUSERS && strstr(e.msg, "greedy") &&
	      strstr(e.msg, "drive puts"));
	e = (struct err){ 0 };
	b = share_take(&p, "other", 1, &e);
	CHECK(b && e.code == 0);
	CHECK(!share_take(&p, "third", 1, &e) && e.code == EAGAIN);
	share_give(a, 1);
	share_give(b, 1);
	share_give(NULL, 1);
}

static void test_amounts_and_bounds(void)
{
	struct pool p = { .max = 100, .what = "bytes" };
	struct err e = { 0 };
	struct share *a = share_take(&p, "a", 100, &e);

	CHECK(a != NULL); /* a single amount may be all of it */
	share_give(a, 100);
	CHECK(!share_take(&p, "a", 101, &e));
	e = (struct err){ 0 };
	CHECK(!share_take(&p, "a", UINT64_MAX, &e));
	CHECK(p.used == 0);
}

int main(void)
{
	test_project_takes_half_of_the_rest();
	test_refusal_names_the_project_and_the_pool();
	test_amounts_and_bounds();
	return CHECK_DONE();
}
