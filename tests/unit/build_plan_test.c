/* Build files: steps, and keys that change exactly when they should. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "check.h"
#include "cli/build_plan.h"

static struct plan p;

static int parse(const char *text, struct err *e)
{
	plan_done(&p);
	err_clear(e);
	return plan_parse(&p, "dir/file", text, strlen(text), e);
}

static void test_steps(void)
{
	struct err e = { 0 };
	struct buf b = { 0 };

	CHECK(parse("# c\n\n  from base  \r\n"
		    "run a \\\n  b\n"
		    "copy  x\t/y\n"
		    "env A=b=c d\n"
		    "start go",
		    &e) == 0);
	CHECK(p.n == 5);
	CHECK(p.steps[0].kind == STEP_FROM && p.steps[0].line == 3);
	CHECK_STR(p.steps[0].text, "base");
	CHECK(p.steps[1].line == 4);
	CHECK_STR(p.steps[1].text, "a     b");
	CHECK(p.steps[2].line == 6);
	CHECK_STR(p.steps[2].from, "x");
	CHECK_STR(p.steps[2].to, "/y");
	CHECK_STR(p.steps[3].text, "A=b=c d");
	CHECK(step_is_disk(&p.steps[1]) && !step_is_disk(&p.steps[3]));
	step_source(&p, &p.steps[2], &b);
	CHECK_STR(buf_str(&b), "dir/x");
	buf_done(&b);
}

static void test_mistakes(void)
{
	static const char *const bad[] = {
		"",
		"\n#x\n",
		"run x",
		"from",
		"from a b",
		"from a\nfrom b",
		"from a\nRUN x",
		"from a\nrunx y",
		"from a\nrun",
		"from a\ncopy x",
		"from a\ncopy x y z",
		"from a\ncopy /etc x",
		"from a\ncopy ../x y",
		"from a\ncopy a/../../x y",
		"from a\nenv A",
		"from a\nenv =b",
		"from a\nenv A B=c",
		"from a\nuser a b",
		"from a\nworkdir b",
	};
	struct err e = { 0 };
	struct buf b = { 0 };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(parse(bad[i], &e) == -EINVAL);
	CHECK(parse("from a\n\nrun x \\\n y\njump", &e) == -EINVAL);
	CHECK(strncmp(e.msg, "dir/file:5: ", 12) == 0);
	buf_puts(&b, "from a\n");
	for (i = 0; i < PLAN_STEPS_MAX; i++)
		buf_puts(&b, "run x\n");
	CHECK(parse(buf_str(&b), &e) == -EINVAL);
	err_clear(&e);
	plan_done(&p);
	CHECK(plan_parse(&p, "f", "from a\0b", 8, &e) == -EINVAL);
	buf_done(&b);
}

static void put(const char *path, const char *text)
{
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0 && write_full(fd, text, strlen(text)) == 0);
}

/* The key of the last step. */
static void key(const char *text, const char *image, char out[KEY_CAP])
{
	struct err e = { 0 };

	plan_done(&p);
	CHECK(plan_parse(&p, "file", text, strlen(text), &e) == 0);
	CHECK(plan_keys(&p, image, &e) == 0);
	memcpy(out, p.steps[p.n - 1].key, KEY_CAP);
}

static void test_keys(void)
{
	char dir[] = "/tmp/plan.XXXXXX", a[KEY_CAP], b[KEY_CAP];
	struct err e = { 0 };

	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	key("from x\nrun a", "i1", a);
	CHECK(strlen(a) == KEY_CAP - 1);
	key("# c\nfrom x\n\nrun   a  ", "i1", b);
	CHECK_STR(a, b);
	key("from x\nrun a", "i2", b);
	CHECK(strcmp(a, b) != 0);
	key("from x\nenv A=b\nrun a", "i1", b);
	CHECK(strcmp(a, b) != 0);
	CHECK(mkdir("d", 0755) == 0 && mkdir("d/e", 0755) == 0);
	put("d/f", "one");
	key("from x\ncopy d /d", "i1", a);
	put("d/f", "one");
	key("from x\ncopy d /d", "i1", b);
	CHECK_STR(a, b);
	put("d/f", "two");
	key("from x\ncopy d /d", "i1", b);
	CHECK(strcmp(a, b) != 0);
	CHECK(rename("d/f", "d/e/f") == 0);
	key("from x\ncopy d /d", "i1", a);
	CHECK(strcmp(a, b) != 0);
	CHECK(chmod("d/e/f", 0755) == 0);
	key("from x\ncopy d /d", "i1", b);
	CHECK(strcmp(a, b) != 0);
	CHECK(parse("from x\ncopy none /d", &e) == 0);
	CHECK(plan_keys(&p, "i1", &e) == -ENOENT);
	CHECK(unlink("d/e/f") == 0 && rmdir("d/e") == 0 && rmdir("d") == 0 &&
	      chdir("/") == 0 && rmdir(dir) == 0);
}

int main(void)
{
	test_steps();
	test_mistakes();
	test_keys();
	plan_done(&p);
	return CHECK_DONE();
}
