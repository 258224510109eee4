/* The whole unit-test framework: checks print TAP, CHECK_DONE() the plan. */
#pragma once

#include <stdio.h>
#include <string.h>

static int check_n, check_bad;
#define CHECK(cond)                                                            \
	(printf("%sok %d - %s:%d %s\n", (cond) ? "" : (check_bad = 1, "not "), \
		++check_n, __FILE__, __LINE__, #cond))
#define CHECK_STR(a, b) CHECK(strcmp((a), (b)) == 0)
#define CHECK_DONE() (printf("1..%d\n", check_n), check_bad)
