/* The builtin file.watch: each kind of event, trees, limits, ends. */
#include "file_run.h"

#include <poll.h>

#include "check.h"

enum { EVENT_MS = 30000 };

static pid_t watcher;
static int events_fd = -1;
static struct buf got;

static void watch(const char *path, const char *opt)
{
	char *argv[] = { (char *)"file.watch", (char *)path, (char *)opt,
			 NULL };
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		abort();
	fflush(stdout);
	watcher = fork();
	if (watcher == 0) {
		dup2(ends[1], 1);
		alarm(60);
		_exit(builtin_find(argv[0])->fn(opt ? 3 : 2, argv));
	}
	close(ends[1]);
	events_fd = ends[0];
}

/* The next event as "type path[ -> to]" below the directory; "end". */
static const char *next(void)
{
	static char s[2 * FILE_PATH_MAX + 64];
	struct pollfd in = { .fd = events_fd, .events = POLLIN };
	size_t n = strlen(top) + 1;
	int len;

	while ((len = file_record_get(&got, &rec)) == 0) {
		if (poll(&in, 1, EVENT_MS) <= 0)
			return "nothing";
		if (buf_read(&got, events_fd, 65536) <= 0)
			return "end";
	}
	if (len < 0 || rec.kind != FILE_EVENT)
		return "nonsense";
	snprintf(s, sizeof(s), "%s %s%s%s", file_event_name(rec.event.what),
		 strlen(rec.event.path) > n ? rec.event.path + n : "",
		 *rec.event.to ? " -> " : "",
		 *rec.event.to ? rec.event.to + n : "");
	buf_eat(&got, (size_t)len);
	return s;
}

/* Until an event is this one; those in front of it do not matter. */
static bool comes(const char *want)
{
	const char *s;

	do
		s = next();
	while (strcmp(s, want) != 0 && strcmp(s, "end") != 0 &&
	       strcmp(s, "nothing") != 0 && strcmp(s, "nonsense") != 0);
	if (strcmp(s, want) != 0)
		printf("# %s, not %s\n", s, want);
	return strcmp(s, want) == 0;
}

static int stop(void)
{
	int status;

	kill(watcher, SIGKILL);
	waitpid(watcher, &status, 0);
	close(events_fd);
	buf_clear(&got);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_flat(void)
{
	CHECK(mkdir("f", 0755) == 0 && mkdir("f/sub", 0755) == 0);
	watch("f", NULL);
	CHECK_STR(next(), "ready f");
	put_file("f/a", "1");
	CHECK_STR(next(), "create f/a");
	CHECK_STR(next(), "write f/a");
	CHECK(chmod("f/a", 0600) == 0);
	CHECK_STR(next(), "chmod f/a");
	CHECK(rename("f/a", "f/b") == 0);
	CHECK_STR(next(), "rename f/a -> f/b");
	put_file("f/sub/x", "not watched");
	CHECK(unlink("f/b") == 0);
	CHECK_STR(next(), "remove f/b");
	put_file("outside", "");
	CHECK(rename("outside", "f/in") == 0);
	CHECK_STR(next(), "create f/in");
	CHECK(rename("f/in", "outside") == 0);
	CHECK_STR(next(), "remove f/in");
	/* A file that has no name yet. */
	buf_puts(&run_in, "text");
	CHECK(RUN("file.write", "f/w", "mode=0600") == 0);
	CHECK_STR(next(), "create f/w");
	CHECK_STR(next(), "write f/w");
	CHECK(unlink("f/w") == 0);
	CHECK_STR(next(), "remove f/w");
	put_file("f/n\n\xff", "");
	CHECK_STR(next(), "create f/n\n\xff");
	CHECK(RUN("file.remove", "f", "recursive") == 0);
	CHECK(comes("remove f"));
	CHECK_STR(next(), "end");
	CHECK(stop() == 0);
}

static void test_tree(void)
{
	CHECK(mkdir("t", 0755) == 0 && mkdir("t/a", 0755) == 0 &&
	      mkdir("t/a/b", 0755) == 0);
	CHECK(mkdir("away", 0755) == 0 && symlink("../away", "t/link") == 0);
	watch("t", "recursive");
	CHECK_STR(next(), "ready t");
	put_file("t/a/b/f", "");
	CHECK_STR(next(), "create t/a/b/f");
	CHECK(mkdir("t/new", 0755) == 0);
	CHECK_STR(next(), "create t/new");
	usleep(100 * 1000); /* until it is watched */
	put_file("t/new/f", "");
	CHECK(comes("create t/new/f"));
	/* A directory that moves keeps being watched, under its new name. */
	CHECK(rename("t/a/b", "t/new/c") == 0);
	CHECK(comes("rename t/a/b -> t/new/c"));
	put_file("t/new/c/g", "");
	CHECK(comes("create t/new/c/g"));
	CHECK(rename("t/new", "t/newer") == 0);
	CHECK(comes("rename t/new -> t/newer"));
	put_file("t/newer/c/h", "");
	CHECK(comes("create t/newer/c/h"));
	/* One that leaves is not, and one that comes brings its content. */
	CHECK(rename("t/newer", "gone") == 0);
	CHECK(comes("remove t/newer"));
	put_file("gone/c/unseen", "x");
	CHECK(rename("gone", "t/back") == 0);
	CHECK_STR(next(), "create t/back");
	CHECK(comes("create t/back/c/unseen"));
	CHECK_STR(next(), "write t/back/c/unseen");
	put_file("away/unseen", "");
	CHECK(RUN("file.remove", "t/back", "recursive") == 0);
	CHECK(comes("remove t/back"));
	put_file("t/last", "");
	CHECK(comes("create t/last"));
	CHECK(stop() == -1);
}

/* Directories made as fast as possible: all that stays is told. */
static void test_fast(void)
{
	char path[64];
	int i, seen = 0;
	const char *s;

	CHECK(mkdir("q", 0755) == 0);
	watch("q", "recursive");
	CHECK_STR(next(), "ready q");
	for (i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "q/%d", i);
		if (mkdir(path, 0755) < 0)
			abort();
		snprintf(path, sizeof(path), "q/%d/d", i);
		if (mkdir(path, 0755) < 0)
			abort();
		snprintf(path, sizeof(path), "q/%d/d/f", i);
		put_file(path, "x");
	}
	put_file("q/end", "");
	for (s = next(); strcmp(s, "create q/end") != 0; s = next()) {
		if (strcmp(s, "nothing") == 0 || strcmp(s, "end") == 0)
			break;
		if (strncmp(s, "create ", 7) == 0 &&
		    strstr(s, "/d/f") == s + strlen(s) - 4)
			seen++;
	}
	while (seen < 200 && strcmp(next(), "nothing") != 0)
		seen += rec.event.what == EVENT_CREATE &&
			strstr(rec.event.path, "/d/f") != NULL;
	CHECK(seen >= 200);
	stop();
}

static void test_file(void)
{
	put_file("one", "");
	watch("one", NULL);
	CHECK_STR(next(), "ready one");
	put_file("one", "text");
	CHECK_STR(next(), "write one");
	CHECK(unlink("one") == 0);
	CHECK(comes("remove one"));
	CHECK_STR(next(), "end");
	CHECK(stop() == 0);
	CHECK(FAILS(ENOENT, "one", "file.watch", "one"));
}

/* In detail: what an event is about comes in front of it. */
static void test_entries(void)
{
	CHECK(mkdir("en", 0755) == 0);
	watch("en", "detail");
	while (file_record_get(&got, &rec) == 0)
		CHECK(buf_read(&got, events_fd, 65536) > 0);
	CHECK(rec.kind == FILE_DETAIL);
	buf_eat(&got, (size_t)file_record_get(&got, &rec));
	CHECK(file_record_get(&got, &rec) > 0 && rec.kind == FILE_ENTRY);
	CHECK(rec.entry.type == FILE_DIRECTORY);
	buf_eat(&got, (size_t)file_record_get(&got, &rec));
	CHECK_STR(next(), "ready en");
	stop();
}

int main(void)
{
	top_make();
	test_flat();
	test_tree();
	test_fast();
	test_file();
	test_entries();
	if (chdir("/") < 0)
		return 1;
	top_remove();
	buf_done(&got);
	buf_done(&run_in);
	buf_done(&run_out);
	return CHECK_DONE();
}
