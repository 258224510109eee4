/* host.merge: changes of another state taken over, all of them or none. */
#include "file_run.h"

#include <sys/mount.h>
#include <sys/xattr.h>

#include "check.h"
#include "wire/tar.h"

static struct buf tar;

/* A line of the list. */
static void line(const char *text)
{
	buf_add(&run_in, text, strlen(text) + 1);
}

static void pad(void)
{
	size_t n = tar_padding(buf_len(&tar));

	memset(buf_room(&tar, n), 0, n);
	buf_fill(&tar, n);
}

static void add_as(char type, const char *path, const char *link,
		   const char *content, mode_t mode, unsigned id)
{
	struct tar_entry t = { .type = type,
			       .mode = mode,
			       .uid = id,
			       .gid = id,
			       .mtime = { .tv_sec = 1000000000 } };

	snprintf(t.path, sizeof(t.path), "%s", path);
	snprintf(t.link, sizeof(t.link), "%s", link);
	t.size = strlen(content);
	tar_head_put(&tar, &t);
	buf_puts(&tar, content);
	pad();
}

static void add(char type, const char *path, const char *content)
{
	add_as(type, path, "", content, type == TAR_DIR ? 0755 : 0644, 0);
}

/* An extended attribute for the entry that is added next. */
static void add_attr(const char *text)
{
	struct tar_entry t = { .type = TAR_PAX, .path = "x" };

	t.size = strlen(text);
	tar_head_put(&tar, &t);
	buf_puts(&tar, text);
	pad();
}

/* Ends list and tar, and runs it on "root". */
static bool cut_off; /* the client left before it said that this is all */

static int go(void)
{
	static const char end = MERGE_END;

	line("");
	if (buf_len(&tar) > 0) {
		memset(buf_room(&tar, 1024), 0, 1024);
		buf_fill(&tar, 1024);
	}
	buf_add(&run_in, buf_data(&tar), buf_len(&tar));
	buf_clear(&tar);
	if (!cut_off)
		buf_add(&run_in, &end, 1);
	return RUN("host.merge", "root");
}
#define REFUSED(want, text)                     \
	(go() == 1 && run_why.code == (want) && \
	 (strstr(run_why.msg, text) ||          \
	  !printf("# %d %s\n", run_why.code, run_why.msg)))

static void start(void)
{
	buf_clear(&run_in);
	buf_clear(&tar);
	RUN("file.remove", "root", "recursive");
	if (mkdir("root", 0755) < 0)
		abort();
}

/* Nothing of the work is left. */
static bool is_tidy(void)
{
	return !exists("root/.merge~under~way");
}

static void test_cut_off(void)
{
	start();
	put_file("root/gone", "x");
	line("-/gone");
	cut_off = true;
	CHECK(go() == 1 && run_why.code == EBADMSG);
	cut_off = false;
	CHECK(exists("root/gone") && is_tidy());
}

static void test_put_and_remove(void)
{
	struct stat st;
	char value[16];

	start();
	mkdir("root/d", 0755);
	mkdir("root/d/sub", 0755);
	put_file("root/d/gone", "x");
	put_file("root/d/kept", "mine");
	put_file("root/d/sub/old", "x");
	line("+/d/new");
	line("-/d/gone");
	line("-/d/sub/old");
	line("-/d/sub");
	line("+/e");
	line("+/e/link");
	line("+/e/pipe");
	line("+/e/a name\nof two lines");
	add(TAR_DIR, "d/", "");
	add_attr("26 SCHILY.xattr.user.k=v1\n");
	add_as(TAR_FILE, "d/new", "", "theirs", 04751, 1000);
	add(TAR_FILE, "d/kept", "theirs");
	add_as(TAR_DIR, "e", "", "", 0700, 1000);
	add_as(TAR_SYMLINK, "e/link", "../d", "", 0777, 1000);
	add(TAR_FIFO, "e/pipe", "");
	add(TAR_FILE, "e/a name\nof two lines", "1");
	CHECK(go() == 0);
	CHECK(next_record() == FILE_UNPACKED && rec.unpacked.entries == 8);
	CHECK_STR(get_file("root/d/new"), "theirs");
	CHECK_STR(get_file("root/d/kept"), "mine");
	CHECK_STR(get_file("root/e/a name\nof two lines"), "1");
	CHECK(!exists("root/d/gone") && !exists("root/d/sub"));
	CHECK(stat("root/d/new", &st) == 0 && st.st_uid == 1000 &&
	      st.st_gid == 1000 && (st.st_mode & 07777) == 04751 &&
	      st.st_mtime == 1000000000);
	CHECK(getxattr("root/d/new", "user.k", value, sizeof(value)) == 2);
	CHECK(stat("root/e", &st) == 0 && st.st_uid == 1000 &&
	      (st.st_mode & 07777) == 0700 && st.st_mtime == 1000000000);
	CHECK(S_ISLNK(mode_of("root/e/link")));
	CHECK(S_ISFIFO(mode_of("root/e/pipe")));
	CHECK(is_tidy());
}

static void test_types(void)
{
	start();
	mkdir("root/dir", 0755);
	put_file("root/dir/in", "x");
	put_file("root/file", "x");
	if (symlink("/etc", "root/link") < 0)
		abort();
	line("+/dir");
	line("+/file");
	line("+/file/in");
	line("+/link");
	add(TAR_FILE, "dir", "now a file");
	add(TAR_DIR, "file", "");
	add(TAR_FILE, "file/in", "1");
	add(TAR_DIR, "link", "");
	CHECK(go() == 0);
	CHECK_STR(get_file("root/dir"), "now a file");
	CHECK_STR(get_file("root/file/in"), "1");
	CHECK(S_ISDIR(mode_of("root/link")));
	CHECK(is_tidy());
}

/* A directory that is to go, with something in it that is ours. */
static void test_not_empty(void)
{
	start();
	mkdir("root/a", 0755);
	put_file("root/a/ours", "1");
	mkdir("root/b", 0755);
	put_file("root/b/ours", "1");
	line("-/a");
	line("!/b");
	CHECK(go() == 0);
	CHECK(next_record() == FILE_NOTE && strstr(rec.note, "/a: kept"));
	CHECK(exists("root/a/ours") && !exists("root/b"));
}

/* Two names of one file stay so, also when one of them is left out. */
static void test_hardlinks(void)
{
	struct stat a, b;

	start();
	line("+/one");
	line("+/two");
	line("+/three");
	add(TAR_FILE, "one", "same");
	add_as(TAR_HARDLINK, "two", "one", "", 0644, 0);
	add(TAR_FILE, "other", "not wanted");
	add_as(TAR_HARDLINK, "three", "other", "", 0644, 0);
	CHECK(go() == 0);
	CHECK(stat("root/one", &a) == 0 && stat("root/two", &b) == 0 &&
	      a.st_ino == b.st_ino);
	CHECK_STR(get_file("root/three"), "not wanted");
	CHECK(!exists("root/other") && is_tidy());
}

/* A parent that is missing here is made as it is there. */
static void test_parents(void)
{
	struct stat st;

	start();
	line("+/x/y/z");
	add_as(TAR_DIR, "x", "", "", 0750, 1000);
	add_as(TAR_DIR, "x/y", "", "", 0705, 1001);
	add(TAR_FILE, "x/y/z", "1");
	CHECK(go() == 0);
	CHECK(stat("root/x", &st) == 0 && st.st_uid == 1000 &&
	      (st.st_mode & 07777) == 0750);
	CHECK(stat("root/x/y", &st) == 0 && st.st_uid == 1001 &&
	      (st.st_mode & 07777) == 0705);

	/* One that was not sent is as the one above it. */
	start();
	mkdir("root/up", 0750);
	if (chown("root/up", 1000, 1001) < 0)
		abort();
	line("+/up/mid/f");
	add(TAR_FILE, "up/mid/f", "1");
	CHECK(go() == 0);
	CHECK(stat("root/up/mid", &st) == 0 && st.st_uid == 1000 &&
	      st.st_gid == 1001 && (st.st_mode & 07777) == 0750);
}

/* Ours has a file or a link where theirs has a directory. */
static void test_gives_way(void)
{
	start();
	put_file("root/f", "ours");
	if (symlink("/etc", "root/l") < 0)
		abort();
	line("*/f/sub/x");
	line("*/l/y");
	add_as(TAR_DIR, "f", "", "", 0750, 1000);
	add(TAR_DIR, "f/sub", "");
	add(TAR_FILE, "f/sub/x", "theirs");
	add(TAR_DIR, "l", "");
	add(TAR_FILE, "l/y", "theirs");
	CHECK(go() == 0);
	CHECK_STR(get_file("root/f/sub/x"), "theirs");
	CHECK_STR(get_file("root/l/y"), "theirs");
	CHECK((mode_of("root/f") & 07777) == 0750);
	CHECK(S_ISDIR(mode_of("root/l")) && is_tidy());
}

/* What is wrong is found before anything is changed. */
static void test_refused(void)
{
	static const char *const bad[] = { "?/x",    "+x",     "+/",
					   "+/a//b", "+/../x", "+/a/.",
					   "+/a/..", "+" };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		start();
		put_file("root/stays", "1");
		line("-/stays");
		line(bad[i]);
		CHECK(REFUSED(EBADMSG, "malformed"));
		CHECK(exists("root/stays") && is_tidy());
	}
	start();
	line("-/twice");
	line("!/twice");
	CHECK(REFUSED(EBADMSG, "malformed"));

	start();
	put_file("root/stays", "1");
	line("-/stays");
	line("+/missing");
	add(TAR_FILE, "other", "1");
	CHECK(REFUSED(EBADMSG, "/missing cannot be taken over"));
	CHECK(exists("root/stays") && is_tidy());

	start();
	line("+/a");
	add(TAR_FILE, "a", "1");
	add(TAR_FILE, "a", "2");
	CHECK(REFUSED(EBADMSG, "comes twice"));
	CHECK(!exists("root/a") && is_tidy());

	start();
	line("+/a");
	add(TAR_FILE, "../a", "1");
	CHECK(REFUSED(EBADMSG, ".."));
	CHECK(!exists("a") && is_tidy());

	start(); /* cut off */
	line("+/a");
	line("");
	add(TAR_FILE, "a", "some text");
	buf_add(&run_in, buf_data(&tar), TAR_BLOCK + 4);
	CHECK(RUN("host.merge", "root") == 1 && run_why.code == EBADMSG);
	CHECK(!exists("root/a") && is_tidy());
}

/* No link of the place leads anywhere. */
static void test_links_inside(void)
{
	start();
	mkdir("outside", 0755);
	put_file("outside/there", "1");
	if (symlink("../outside", "root/way") < 0)
		abort();
	line("-/way/there");
	CHECK(go() == 0);
	CHECK(exists("outside/there"));
	line("+/way/new");
	add(TAR_FILE, "way/new", "1");
	line("-/stays");
	put_file("root/stays", "1");
	CHECK(REFUSED(EEXIST, "/way/new: what it is to be in is no directory"));
	CHECK(!exists("outside/new") && exists("root/stays") && is_tidy());
}

static void test_mounts(void)
{
	start();
	mkdir("root/vol", 0755);
	put_file("root/stays", "1");
	if (mount("none", "root/vol", "tmpfs", 0, NULL) < 0) {
		printf("# no mounts here\n");
		return;
	}
	put_file("root/vol/f", "1");
	line("-/stays");
	line("-/vol/f");
	CHECK(REFUSED(EXDEV, "/vol/f is on a volume"));
	CHECK(exists("root/vol/f") && exists("root/stays"));
	umount("root/vol");
}

int main(void)
{
	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		return 77;
	}
	top_make();
	test_put_and_remove();
	test_cut_off();
	test_types();
	test_not_empty();
	test_hardlinks();
	test_parents();
	test_gives_way();
	test_refused();
	test_links_inside();
	test_mounts();
	if (chdir("/") < 0)
		return 1;
	top_remove();
	buf_done(&run_in);
	buf_done(&run_out);
	buf_done(&tar);
	return CHECK_DONE();
}
