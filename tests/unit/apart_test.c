/* Who is kept apart, and on how many processors. */
#include <string.h>

#include "check.h"
#include "sandbox/cgroup.h"
#include "warden/apart.h"

enum { MAX = 64 };

/* `n` hogs that use so much each, and may use no more. */
static unsigned choose(size_t n, unsigned each, struct apart_load load,
		       size_t *chosen)
{
	struct hog hogs[MAX] = { { 0 } };
	size_t i;

	for (i = 0; i < n; i++)
		hogs[i].use_milli = hogs[i].limit_milli = each;
	return apart_choose(hogs, n, &load, chosen);
}

static void test_filled(void)
{
	size_t k;

	CHECK(choose(20, 50, (struct apart_load){ 2, 1050, 0 }, &k) == 1);
	CHECK(k == 20);
	/* They leave a processor idle: it would be lost. */
	CHECK(choose(16, 50, (struct apart_load){ 2, 800, 0 }, &k) == 0);
	CHECK(k == 0);
	/* ...which is borne for a while when they had it already. */
	CHECK(choose(16, 50, (struct apart_load){ 2, 800, 1 }, &k) == 1);
	CHECK(choose(11, 50, (struct apart_load){ 2, 550, 1 }, &k) == 0);
	/* More is not given because of what they have. */
	CHECK(choose(3, 500, (struct apart_load){ 8, 1500, 1 }, &k) == 1);
	CHECK(k == 2);
	CHECK(choose(0, 0, (struct apart_load){ 8, 0, 3 }, &k) == 0);
}

static void test_others(void)
{
	size_t k;

	/* One is always left, and only if it is enough for the others. */
	CHECK(choose(2, 1000, (struct apart_load){ 2, 2000, 0 }, &k) == 0);
	CHECK(choose(1, 1000, (struct apart_load){ 2, 1600, 0 }, &k) == 1);
	CHECK(choose(1, 1000, (struct apart_load){ 2, 1800, 0 }, &k) == 0);
	CHECK(choose(1, 1000, (struct apart_load){ 2, 1800, 1 }, &k) == 1);
	CHECK(choose(1, 1000, (struct apart_load){ 2, 1950, 1 }, &k) == 0);
	CHECK(choose(3, 1000, (struct apart_load){ 8, 6000, 0 }, &k) == 3);
	CHECK(choose(3, 1000, (struct apart_load){ 8, 6600, 0 }, &k) == 0);
	CHECK(choose(1, 1000, (struct apart_load){ 1, 1000, 0 }, &k) == 0);
	CHECK(choose(1, 1000, (struct apart_load){ 0, 1000, 0 }, &k) == 0);
}

/* Those that do not fit stay with the others. */
static void test_small_first(void)
{
	struct hog hogs[21] = { { 0 } };
	const struct apart_load load = { 4, 2500, 0 };
	size_t k, i;

	for (i = 1; i < 21; i++)
		hogs[i].use_milli = hogs[i].limit_milli = 50;
	hogs[0].use_milli = hogs[0].limit_milli = 1500;
	CHECK(apart_choose(hogs, 21, &load, &k) == 1);
	CHECK(k == 20);
	CHECK(hogs[20].use_milli == 1500);
}

/* Who is kept to some can show no more than these: its limit counts. */
static void test_limits(void)
{
	struct hog one = { .use_milli = 1000, .limit_milli = 2000 };
	struct hog three[3] = { { 350, 1000, NULL },
				{ 350, 1000, NULL },
				{ 350, 1000, NULL } };
	struct hog two[2] = { { 1000, 1000, NULL }, { 0, 4000, NULL } };
	size_t k;

	/* With a limit of all there is, it is never kept to one. */
	CHECK(apart_choose(&one, 1, &(struct apart_load){ 2, 1000, 0 }, &k) ==
	      0);
	CHECK(apart_choose(&one, 1, &(struct apart_load){ 2, 1000, 1 }, &k) ==
	      0);
	/* Where there is room for its limit, it has to fill that. */
	CHECK(apart_choose(&one, 1, &(struct apart_load){ 8, 1000, 0 }, &k) ==
	      0);
	one.use_milli = 1900;
	CHECK(apart_choose(&one, 1, &(struct apart_load){ 8, 1900, 0 }, &k) ==
	      2);
	/* Three that may use three do not share one. */
	CHECK(apart_choose(three, 3, &(struct apart_load){ 8, 1050, 0 }, &k) ==
	      0);
	/* The one that rests may come back for more than there would be. */
	CHECK(apart_choose(two, 2, &(struct apart_load){ 8, 1000, 0 }, &k) ==
	      1);
	CHECK(k == 1 && two[0].limit_milli == 1000);
}

static bool round_trip(const char *in, const char *out)
{
	char text[64];
	cpu_set_t set;

	return cpus_parse(in, &set) == 0 &&
	       cpus_text(&set, text, sizeof(text)) == 0 &&
	       strcmp(text, out) == 0;
}

static void test_lists(void)
{
	char text[8];
	cpu_set_t set;

	CHECK(round_trip("0-3,8\n", "0-3,8"));
	CHECK(round_trip("1,2,3,5,7", "1-3,5,7"));
	CHECK(round_trip("1023\n", "1023"));
	CHECK(round_trip("\n", ""));
	CHECK(cpus_parse("0-1024", &set) < 0);
	CHECK(cpus_parse("3-1", &set) < 0);
	CHECK(cpus_parse("0-", &set) < 0);
	CHECK(cpus_parse("a", &set) < 0);
	CHECK(cpus_parse("1 2", &set) < 0);
	CHECK(cpus_parse("100,102,104", &set) == 0);
	CHECK(cpus_text(&set, text, sizeof(text)) < 0);
}

int main(void)
{
	test_filled();
	test_others();
	test_small_first();
	test_limits();
	test_lists();
	return CHECK_DONE();
}
