/* The worker's own parsers: names of entries, lines of /etc/passwd. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/path.h"
#include "worker/tree.h"
#include "worker/users.h"

static void check_clean(const char *raw, const char *want, const char *name)
{
	struct err e = { 0 };
	struct path p;

	CHECK(path_clean(&p, raw, "entry", &e) == 0);
	CHECK_STR(p.s, want);
	CHECK_STR(path_name(&p), name);
}

static void check_refused(const char *raw, const char *why)
{
	struct err e = { 0 };
	struct path p;

	CHECK(path_clean(&p, raw, "entry", &e) == -EBADMSG);
	CHECK(strstr(e.msg, why) != NULL);
}

/* `n` components of `each` bytes, separated by slashes. */
static char *repeated(size_t n, size_t each)
{
	char *s = malloc(n * (each + 1) + 1);
	size_t i;

	for (i = 0; i < n; i++) {
		memset(s + i * (each + 1), 'x', each);
		s[i * (each + 1) + each] = '/';
	}
	s[n * (each + 1) - 1] = '\0';
	return s;
}

static void test_lengths(void)
{
	struct err e = { 0 };
	struct path p;
	char *s;

	s = repeated(1, ENTRY_NAME_MAX);
	check_clean(s, s, s);
	free(s);
	s = repeated(1, ENTRY_NAME_MAX + 1);
	check_refused(s, "255");
	free(s);
	s = repeated(16, 255); /* 16 * 256 - 1 */
	CHECK(strlen(s) == ENTRY_PATH_MAX);
	CHECK(path_clean(&p, s, "entry", &e) == 0);
	CHECK_STR(p.s, s);
	free(s);
	s = repeated(17, 240);
	check_refused(s, "4095");
	free(s);
	s = repeated(ENTRY_DEPTH_MAX, 1);
	CHECK(path_clean(&p, s, "entry", &e) == 0);
	free(s);
	s = repeated(ENTRY_DEPTH_MAX + 1, 1);
	check_refused(s, "128");
	free(s);
}

static void test_paths(void)
{
	check_clean("a", "a", "a");
	check_clean("a/b/c", "a/b/c", "c");
	check_clean("/etc//passwd/", "etc/passwd", "passwd");
	check_clean("././/a/./b/.", "a/b", "b");
	check_clean("/", "", "");
	check_clean(".", "", "");
	check_clean("...", "...", "...");
	check_clean("a/..b/c..", "a/..b/c..", "c..");
	check_refused("", "without a name");
	check_refused("..", "\"..\"");
	check_refused("../a", "\"..\"");
	check_refused("a/..", "\"..\"");
	check_refused("a/./../b", "\"..\"");
	check_refused("/..", "\"..\"");
}

#define HAVE_ID(text, id) lines_have_id(text, sizeof(text) - 1, id)
#define HAVE_NAME(text, name) lines_have_name(text, sizeof(text) - 1, name)

static void test_lines(void)
{
	CHECK(HAVE_ID("root:x:0:0\nuser:x:1000:5::/\n", 1000));
	CHECK(HAVE_ID("user:x:1000", 1000));
	CHECK(!HAVE_ID("user:x:10000\n", 1000));
	CHECK(!HAVE_ID("user:x:100\nx:1000:1\n1000\n", 1000));
	CHECK(!HAVE_ID("a:b\n1000:x\n", 1000));
	CHECK(!HAVE_ID("", 1000));
	CHECK(!HAVE_ID("\n\n::\n", 1000));
	CHECK(HAVE_ID("a:\0:1000:\n", 1000));
	CHECK(HAVE_NAME("a:x:1\nuser:x:2", "user"));
	CHECK(HAVE_NAME("user", "user"));
	CHECK(!HAVE_NAME("users:x:2\nuse:x:1\n", "user"));
}

/* What tree_remove() must take away, and what it must not touch. */
static void test_remove(void)
{
	char dir[] = "/tmp/worker_test.XXXXXX";
	int fd, out_fd;

	CHECK(mkdtemp(dir) != NULL);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(mkdirat(fd, "keep", 0755) == 0);
	out_fd = openat(fd, "keep/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	CHECK(out_fd >= 0);
	close(out_fd);
	CHECK(mkdirat(fd, "t", 0755) == 0);
	CHECK(mkdirat(fd, "t/a", 0755) == 0);
	CHECK(mkdirat(fd, "t/a/b", 0755) == 0);
	CHECK(mkdirat(fd, "t/c", 0755) == 0);
	CHECK(symlinkat("../../keep", fd, "t/a/link") == 0);
	CHECK(symlinkat("../keep", fd, "t/a/b/link") == 0);
	CHECK(mknodat(fd, "t/c/fifo", S_IFIFO | 0600, 0) == 0);
	CHECK(tree_open(fd, "t/a/link/file", O_RDONLY, 0) == -ELOOP);
	CHECK(tree_open(fd, "../", O_RDONLY, 0) == -EXDEV);
	CHECK(tree_remove(fd, "t") == 0);
	CHECK(tree_remove(fd, "t") == 0);
	CHECK(faccessat(fd, "t", F_OK, 0) < 0);
	CHECK(faccessat(fd, "keep/file", F_OK, 0) == 0);
	CHECK(tree_clear(fd) == 0);
	close(fd);
	CHECK(rmdir(dir) == 0);
}

int main(void)
{
	test_paths();
	test_lengths();
	test_lines();
	test_remove();
	return CHECK_DONE();
}
