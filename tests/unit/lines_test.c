/* Differences of texts: what comes out turns one text into the other. */
#include "cli/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const char no_end[] = "\\ No newline at end of file\n";

static const char *next_line(const char *p)
{
	return strchr(p, '\n') + 1;
}

/* Copies lines of `a` until `line`, counted from 0. */
static const char *copy_to(struct buf *out, const char *a, size_t *at,
			   size_t line)
{
	for (; *at < line; ++*at) {
		const char *nl = strchr(a, '\n');
		size_t n = nl ? (size_t)(nl - a) + 1 : strlen(a);

		buf_add(out, a, n);
		a += n;
	}
	return a;
}

/* A patch program; false: the hunks do not fit the text. */
static bool patch(struct buf *out, const char *a, const char *hunks)
{
	size_t at = 0;

	while (*hunks) {
		size_t from, n = 1, skip = 0;

		if (*hunks == '@') {
			if (sscanf(hunks, "@@ -%zu,%zu", &from, &n) < 1)
				return false;
			if (n > 0)
				from--;
			a = copy_to(out, a, &at, from);
			hunks = next_line(hunks);
			continue;
		}
		n = (size_t)(next_line(hunks) - hunks) - 1;
		if (strncmp(hunks + n + 1, no_end, strlen(no_end)) == 0) {
			skip = strlen(no_end);
			n--; /* the newline is none of the text */
		}
		if (*hunks != '+') {
			if (strncmp(a, hunks + 1, n) != 0)
				return false;
			a += n;
			at++;
		}
		if (*hunks != '-')
			buf_add(out, hunks + 1, n);
		hunks = next_line(hunks) + skip;
	}
	buf_puts(out, a);
	return true;
}

static bool turns(const char *a, const char *b)
{
	struct buf hunks = { 0 }, out = { 0 };
	bool ok;

	lines_diff(&hunks, a, strlen(a), b, strlen(b));
	ok = patch(&out, a, buf_str(&hunks)) && strcmp(buf_str(&out), b) == 0;
	if (!ok)
		printf("# %s\n", buf_str(&hunks));
	buf_done(&hunks);
	buf_done(&out);
	return ok;
}

static bool is(const char *a, const char *b, const char *want)
{
	struct buf hunks = { 0 };
	bool ok;

	lines_diff(&hunks, a, strlen(a), b, strlen(b));
	ok = strcmp(buf_str(&hunks), want) == 0;
	if (!ok)
		printf("# %s\n", buf_str(&hunks));
	buf_done(&hunks);
	return ok;
}

static void test_plain(void)
{
	CHECK(is("", "", ""));
	CHECK(is("a\n", "a\n", ""));
	CHECK(is("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"));
	CHECK(is("a\n", "", "@@ -1 +0,0 @@\n-a\n"));
	CHECK(is("a\nb\nc\n", "a\nB\nc\n",
		 "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"));
	CHECK(is("a", "a\n",
		 "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"));
	CHECK(is("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\nx\n",
		 "@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+x\n"));
}

/* Changes are joined into a hunk when their contexts touch. */
static void test_hunks(void)
{
	CHECK(is("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
		 "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n"));
	CHECK(is("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
		 "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n"
		 "@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n"));
}

static void random_text(struct buf *b, unsigned lines, unsigned words)
{
	unsigned i;

	buf_clear(b);
	for (i = 0; i < lines; i++)
		buf_printf(b, "%d\n", rand() % (int)words);
	if (lines && rand() % 4 == 0)
		b->len--; /* no newline at its end */
}

static void test_random(void)
{
	struct buf a = { 0 }, b = { 0 };
	unsigned i, bad = 0;

	srand(4);
	for (i = 0; i < 3000; i++) {
		unsigned words = 1 + (unsigned)rand() % 20;

		random_text(&a, (unsigned)rand() % 30, words);
		random_text(&b, (unsigned)rand() % 30, words);
		bad += !turns(buf_str(&a), buf_str(&b));
	}
	CHECK(bad == 0);
	/* Beyond what one search may cost. */
	for (i = 0; i < 3; i++) {
		random_text(&a, 6000, i == 0 ? 3 : 100000);
		random_text(&b, 6000, i == 0 ? 3 : 100000);
		CHECK(turns(buf_str(&a), buf_str(&b)));
	}
	buf_done(&a);
	buf_done(&b);
}

int main(void)
{
	test_plain();
	test_hunks();
	test_random();
	return CHECK_DONE();
}
