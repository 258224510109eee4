/* The builtins of file work, but for tar and watch. */
#include "file_run.h"

#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "check.h"

#define LINK(target, name) CHECK(symlink(target, name) == 0)

static char *join(const char *a, const char *b)
{
	static char s[PATH_MAX];

	snprintf(s, sizeof(s), "%s/%s", a, b);
	return s;
}

static void test_args(void)
{
	CHECK(FAILS(EINVAL, "missing", "file.stat"));
	CHECK(FAILS(EINVAL, "empty", "file.stat", ""));
	CHECK(FAILS(EINVAL, "no option parents", "file.stat", "x", "parents"));
	CHECK(FAILS(EINVAL, "no option nope=1", "file.list", "x", "nope=1"));
	CHECK(FAILS(EINVAL, "bad option mode", "file.mkdir", "x", "mode=9"));
	CHECK(FAILS(EINVAL, "bad option mode", "file.mkdir", "x",
		    "mode=17777"));
	CHECK(FAILS(EINVAL, "bad option par", "file.mkdir", "x", "parents=1"));
	CHECK(FAILS(EINVAL, "bad option first", "file.read", "x", "first=-1"));
	CHECK(FAILS(EINVAL, "limit", "file.list", ".", "limit=0"));
	CHECK(FAILS(EINVAL, "depth", "file.list", ".", "depth=65"));
	CHECK(!builtin_find("file."));
	CHECK(!builtin_find("file.nope"));
}

static void test_stat(void)
{
	put_file("plain", "12345");
	chmod("plain", 0640);
	LINK("plain", "link");
	LINK("nowhere", "dangling");
	CHECK(mkfifo("fifo", 0600) == 0);

	CHECK(RUN("file.stat", "./plain/") == 1);
	CHECK(RUN("file.stat", ".//plain") == 0);
	CHECK(next_record() == FILE_ENTRY && rec.entry.type == FILE_REGULAR);
	CHECK(rec.entry.size == 5 && rec.entry.mode == 0640);
	CHECK_STR(rec.entry.path, join(top, "plain"));
	CHECK_STR(rec.entry.user, "root");
	CHECK_STR(rec.entry.group, "root");
	CHECK(rec.entry.mtime_ms > 1600000000000);
	CHECK(next_record() == 0 && buf_len(&run_out) == 0);

	CHECK(RUN("file.stat", "link") == 0 && next_record() == FILE_ENTRY);
	CHECK(rec.entry.type == FILE_SYMLINK);
	CHECK(rec.entry.target_type == FILE_REGULAR);
	CHECK_STR(rec.entry.target, "plain");
	CHECK(RUN("file.stat", "link", "follow") == 0 && next_record());
	CHECK(rec.entry.type == FILE_REGULAR && rec.entry.size == 5);
	CHECK(RUN("file.stat", "dangling") == 0 && next_record());
	CHECK(rec.entry.target_type == FILE_NONE);
	CHECK(FAILS(ENOENT, "dangling", "file.stat", "dangling", "follow"));
	CHECK(RUN("file.stat", "fifo") == 0 && next_record());
	CHECK(rec.entry.type == FILE_FIFO);
	CHECK(RUN("file.stat", "/") == 0 && next_record());
	CHECK_STR(rec.entry.path, "/");
	CHECK(FAILS(ENOENT, "gone", "file.stat", "gone"));
	CHECK(FAILS(ENOTDIR, "plain/x", "file.stat", "plain/x"));
	CHECK(FAILS(ENOENT, "a?b", "file.stat", "a\nb"));
}

/* Names in the order of the list, joined by spaces. */
static const char *listed(void)
{
	static char s[8192];
	size_t n = 0;

	s[0] = '\0';
	while (next_record() == FILE_ENTRY)
		n += (size_t)snprintf(s + n, sizeof(s) - n, "%s%s",
				      n ? " " : "",
				      rec.entry.path + strlen(top) + 3);
	return s;
}

static void test_list(void)
{
	CHECK(mkdir("l", 0755) == 0 && mkdir("l/b", 0755) == 0 &&
	      mkdir("l/b/d", 0755) == 0 && mkdir("l/z", 0755) == 0);
	put_file("l/a", "");
	put_file("l/b.x", "");
	put_file("l/b/c", "");
	put_file("l/b/d/e", "");
	put_file("l/n\xff\n", "");
	LINK("b", "l/y");
	CHECK(RUN("file.list", "l") == 0);
	CHECK_STR(listed(), "a b b.x n\xff\n y z");
	CHECK(rec.kind == FILE_END && !rec.more);
	CHECK(RUN("file.list", "l", "depth=64") == 0);
	CHECK_STR(listed(), "a b b/c b/d b/d/e b.x n\xff\n y z");
	CHECK(RUN("file.list", "l/y") == 0); /* what a link leads to */
	listed();
	CHECK(FAILS(ENOTDIR, "l/a", "file.list", "l/a"));
	CHECK(FAILS(ENOENT, "l/q", "file.list", "l/q"));
}

/* In pieces of every size it is the same list. */
static void test_list_pages(void)
{
	char want[8192], got[8192], after[PATH_MAX + 8], limit[32];
	int step, bad = 0;

	RUN("file.list", "l", "depth=3");
	snprintf(want, sizeof(want), "%s", listed());
	for (step = 1; step < 12; step++) {
		size_t n = 0;
		bool more = true;
		int pages = 0;

		snprintf(limit, sizeof(limit), "limit=%d", step);
		snprintf(after, sizeof(after), "after=%s/l/", top);
		while (more && pages++ < 20) {
			RUN("file.list", "l", "depth=3", limit, after);
			while (next_record() == FILE_ENTRY) {
				n += (size_t)snprintf(got + n, sizeof(got) - n,
						      "%s%s", n ? " " : "",
						      rec.entry.path +
							      strlen(top) + 3);
				snprintf(after, sizeof(after), "after=%s",
					 rec.entry.path);
			}
			more = rec.kind == FILE_END && rec.more;
		}
		bad += strcmp(want, got) != 0;
	}
	CHECK(bad == 0);
	/* Behind something that is not there (any more). */
	snprintf(after, sizeof(after), "after=%s/l/b/cc/x", top);
	CHECK(RUN("file.list", "l", "depth=3", after) == 0);
	CHECK_STR(listed(), "b/d b/d/e b.x n\xff\n y z");
	CHECK(FAILS(EINVAL, "below", "file.list", "l", "after=/etc/x"));
	CHECK(FAILS(EINVAL, "below", "file.list", "l", "after=l/b"));
}

static void test_list_unreadable(void)
{
	CHECK(mkdir("u", 0755) == 0 && mkdir("u/locked", 0000) == 0);
	run_as = 65534;
	CHECK(RUN("file.list", "u", "depth=2") == 0);
	run_as = 0;
	CHECK(next_record() == FILE_ENTRY && rec.entry.unreadable);
	CHECK(next_record() == FILE_END);
	run_as = 65534;
	CHECK(FAILS(EACCES, "locked", "file.list", "u/locked"));
	run_as = 0;
}

static void test_list_large(void)
{
	char name[32];
	int i, n = 0;

	CHECK(mkdir("many", 0755) == 0);
	for (i = 0; i < 12000; i++) {
		snprintf(name, sizeof(name), "many/%05d", (i * 7919) % 12000);
		close(open(name, O_CREAT | O_WRONLY, 0600));
	}
	CHECK(RUN("file.list", "many") == 0);
	while (next_record() == FILE_ENTRY) {
		snprintf(name, sizeof(name), "/many/%05d", n);
		if (strcmp(rec.entry.path + strlen(top), name) == 0)
			n++;
	}
	CHECK(n == FILE_LIST_MAX && rec.kind == FILE_END && rec.more);
}

static const char *content(void)
{
	return buf_str(&run_out);
}

static void test_read(void)
{
	put_file("r", "0123456789");
	CHECK(RUN("file.read", "r") == 0 && next_record() == FILE_CONTENT);
	CHECK(rec.content.size == 10 && rec.content.length == 10);
	CHECK_STR(content(), "0123456789");
	CHECK(RUN("file.read", "r", "first=3", "last=5") == 0 && next_record());
	CHECK(rec.content.first == 3 && rec.content.length == 3);
	CHECK_STR(content(), "345");
	CHECK(RUN("file.read", "r", "first=8") == 0 && next_record());
	CHECK_STR(content(), "89");
	CHECK(RUN("file.read", "r", "last=4") == 0 && next_record());
	CHECK_STR(content(), "6789");
	CHECK(RUN("file.read", "r", "last=99") == 0 && next_record());
	CHECK_STR(content(), "0123456789");
	CHECK(RUN("file.read", "r", "first=2", "last=99") == 0 &&
	      next_record());
	CHECK_STR(content(), "23456789");
	CHECK(RUN("file.read", "r", "first=10") == 0 && next_record());
	CHECK(rec.content.length == 0 && rec.content.first == 10);
	CHECK(RUN("file.read", "r", "last=0") == 0 && next_record());
	CHECK(rec.content.length == 0);
	put_file("empty", "");
	CHECK(RUN("file.read", "empty") == 0 && next_record());
	CHECK(rec.content.length == FILE_TO_END && buf_len(&run_out) == 0);
	CHECK(RUN("file.read", "/proc/self/stat") == 0 && next_record());
	CHECK(buf_len(&run_out) > 50);
	CHECK(FAILS(EISDIR, "l", "file.read", "l"));
	CHECK(FAILS(EINVAL, "fifo", "file.read", "fifo"));
	CHECK(FAILS(ENOENT, "none", "file.read", "none"));
}

static int write_text(const char *text, const char *path, const char *opt)
{
	buf_puts(&run_in, text);
	return opt ? RUN("file.write", path, opt) : RUN("file.write", path);
}

static int entries_in(const char *dir)
{
	int n = 0;

	RUN("file.list", dir);
	while (next_record() == FILE_ENTRY)
		n++;
	return n;
}

static void test_write(void)
{
	static const uint8_t abc[] = { 0xba, 0x78, 0x16, 0xbf };

	CHECK(mkdir("w", 0777) == 0);
	CHECK(write_text("abc", "w/a", NULL) == 0);
	CHECK(next_record() == FILE_WRITTEN && rec.written.size == 3);
	CHECK(memcmp(rec.written.sha, abc, sizeof(abc)) == 0);
	CHECK_STR(get_file("w/a"), "abc");
	CHECK(mode_of("w/a") == (S_IFREG | 0644));
	CHECK(write_text("abcd", "w/a", "mode=0755") == 0);
	CHECK(mode_of("w/a") == (S_IFREG | 0755));
	CHECK(write_text("x", "w/a", NULL) == 0); /* keeps it */
	CHECK(mode_of("w/a") == (S_IFREG | 0755));
	CHECK(entries_in("w") == 1);
	CHECK(chown("w/a", 1234, 4321) == 0);
	CHECK(write_text("y", "w/a", NULL) == 0);
	{
		struct stat st;

		CHECK(stat("w/a", &st) == 0 && st.st_uid == 1234 &&
		      st.st_gid == 4321);
	}
	CHECK(FAILS(ENOENT, "w/p/q/f", "file.write", "w/p/q/f"));
	CHECK(write_text("deep", "w/p/q/f", "parents") == 0);
	CHECK_STR(get_file("w/p/q/f"), "deep");
	LINK("p/q/f", "w/link");
	CHECK(write_text("through", "w/link", NULL) == 0);
	CHECK_STR(get_file("w/p/q/f"), "through");
	CHECK(S_ISLNK(mode_of("w/link")));
	LINK("nowhere", "w/dangling");
	CHECK(FAILS(ENOENT, "nowhere", "file.write", "w/dangling"));
	CHECK(FAILS(EISDIR, "w/p", "file.write", "w/p"));
	CHECK(FAILS(EISDIR, "slash", "file.write", "w/new/"));
	CHECK(FAILS(EINVAL, "fifo", "file.write", "fifo"));
	CHECK(FAILS(EINVAL, "name", "file.write", "w/.."));
	CHECK(FAILS(ENOTDIR, "w/a/b", "file.write", "w/a/b"));
	CHECK(FAILS(ENOTDIR, "w/a", "file.write", "w/a/b/c", "parents"));
}

/* As somebody else: rights are the kernel's. */
static void test_write_rights(void)
{
	CHECK(mkdir("wr", 0755) == 0);
	put_file("wr/root", "root's");
	run_as = 65534;
	CHECK(FAILS(EACCES, "wr/new", "file.write", "wr/new"));
	CHECK(FAILS(EACCES, "wr/root", "file.write", "wr/root"));
	CHECK(FAILS(EACCES, "wr/d", "file.write", "wr/d/f", "parents"));
	/* One in a directory of ours that we may not write to. */
	CHECK(chmod("wr", 0777) == 0);
	CHECK(FAILS(EACCES, "wr/root", "file.write", "wr/root"));
	CHECK_STR(get_file("wr/root"), "root's");
	run_as = 0;
}

/* No place left: the old one stays, and nothing of the new one. */
static void test_full(void)
{
	CHECK(mkdir("small", 0755) == 0 &&
	      mount("none", "small", "tmpfs", 0, "size=1m") == 0);
	put_file("small/f", "old");
	memset(buf_room(&run_in, 3 << 20), 'x', 3 << 20);
	buf_fill(&run_in, 3 << 20);
	put_file("large", "");
	CHECK(truncate("large", 3 << 20) == 0);
	CHECK(FAILS(ENOSPC, "small/f", "file.write", "small/f"));
	CHECK_STR(get_file("small/f"), "old");
	CHECK(FAILS(ENOSPC, "large", "file.copy", "large", "small/g"));
	CHECK(entries_in("small") == 1);
	/* Trees end where something is mounted. */
	CHECK(mkdir("tree", 0755) == 0 && mkdir("tree/small", 0755) == 0 &&
	      mount("small", "tree/small", NULL, MS_BIND, NULL) == 0);
	CHECK(FAILS(EXDEV, "tree/small", "file.remove", "tree", "recursive") ||
	      run_why.code == EBUSY);
	CHECK_STR(get_file("small/f"), "old");
	CHECK(RUN("file.chmod", "tree", "mode=0700", "recursive") == 0);
	CHECK(mode_of("small/f") == (S_IFREG | 0644));
	CHECK(umount("tree/small") == 0 && umount("small") == 0);
}

static void test_mkdir(void)
{
	CHECK(RUN("file.mkdir", "m") == 0 && next_record() == FILE_ENTRY);
	CHECK(rec.entry.type == FILE_DIRECTORY && rec.entry.mode == 0755);
	CHECK(FAILS(EEXIST, "m", "file.mkdir", "m"));
	CHECK(RUN("file.mkdir", "m/", "parents") == 0);
	CHECK(FAILS(ENOENT, "m/a/b", "file.mkdir", "m/a/b"));
	CHECK(RUN("file.mkdir", "m/a/b/", "parents", "mode=1777") == 0);
	CHECK(mode_of("m/a/b") == (S_IFDIR | 01777));
	CHECK(mode_of("m/a") == (S_IFDIR | 0755));
	CHECK(RUN("file.mkdir", "m/a", "parents", "mode=0700") == 0);
	CHECK(mode_of("m/a") == (S_IFDIR | 0755)); /* it was there */
	CHECK(FAILS(EEXIST, "plain", "file.mkdir", "plain", "parents"));
	CHECK(FAILS(ENOTDIR, "plain", "file.mkdir", "plain/x", "parents"));
	CHECK(FAILS(EINVAL, "name", "file.mkdir", "/"));
	CHECK(FAILS(EINVAL, "name", "file.mkdir", "m/."));
}

static void test_move(void)
{
	CHECK(mkdir("v", 0755) == 0 && mkdir("v/d", 0755) == 0);
	put_file("v/a", "a");
	put_file("v/b", "b");
	CHECK(RUN("file.move", "v/a", "v/c") == 0 && next_record());
	CHECK_STR(rec.entry.path, join(top, "v/c"));
	CHECK(!exists("v/a"));
	CHECK(FAILS(EEXIST, "v/b", "file.move", "v/c", "v/b"));
	CHECK_STR(get_file("v/b"), "b");
	CHECK(RUN("file.move", "v/c", "v/b", "overwrite") == 0);
	CHECK_STR(get_file("v/b"), "a");
	CHECK(FAILS(ENOENT, "v/gone", "file.move", "v/gone", "v/x/y",
		    "parents"));
	CHECK(!exists("v/x"));
	CHECK(RUN("file.move", "v/b", "v/x/y", "parents") == 0);
	CHECK(FAILS(EINVAL, "v/x", "file.move", "v/x", "v/x/z"));
	LINK("/etc/passwd", "v/l");
	CHECK(RUN("file.move", "v/l", "v/d/l") == 0);
	CHECK(S_ISLNK(mode_of("v/d/l")));
}

/* To another file system it is a copy. */
static void test_move_far(void)
{
	char far[] = "/dev/shm/file_test.XXXXXX", path[PATH_MAX];
	struct stat here, there;

	if (!mkdtemp(far) || stat(far, &there) < 0 || stat(".", &here) < 0 ||
	    there.st_dev == here.st_dev) {
		printf("# no second file system\n");
		return;
	}
	CHECK(mkdir("far", 0750) == 0 && mkdir("far/d", 0700) == 0);
	put_file("far/d/f", "content");
	CHECK(chmod("far/d/f", 0604) == 0 && chown("far/d/f", 5, 6) == 0);
	LINK("f", "far/d/l");
	snprintf(path, sizeof(path), "%s/new", far);
	CHECK(RUN("file.move", "far", path) == 0 && !exists("far"));
	snprintf(path, sizeof(path), "%s/new/d/f", far);
	CHECK_STR(get_file(path), "content");
	CHECK(stat(path, &there) == 0 && there.st_uid == 5 &&
	      there.st_gid == 6 && (there.st_mode & 0777) == 0604);
	put_file("near", "n");
	CHECK(FAILS(EEXIST, far, "file.move", "near", path));
	CHECK(RUN("file.move", "near", path, "overwrite") == 0);
	CHECK_STR(get_file(path), "n");
	CHECK(RUN("file.remove", far, "recursive") == 0 && !exists(far));
}

static void test_copy(void)
{
	struct stat a, b;

	CHECK(mkdir("c", 0755) == 0 && mkdir("c/s", 0751) == 0);
	put_file("c/s/f", "text");
	put_file("c/s/x", "#!");
	CHECK(chmod("c/s/x", 0755) == 0);
	LINK("f", "c/s/link");
	CHECK(mkfifo("c/s/fifo", 0600) == 0);
	CHECK(mknod("c/s/dev", S_IFCHR | 0600, makedev(1, 3)) == 0);
	CHECK(FAILS(EISDIR, "recursive", "file.copy", "c/s", "c/t"));
	CHECK(RUN("file.copy", "c/s", "c/t", "recursive") == 0);
	CHECK(next_record() == FILE_NOTE && strstr(rec.note, "c/s/dev"));
	CHECK(next_record() == FILE_ENTRY && next_record() == 0);
	CHECK_STR(get_file("c/t/f"), "text");
	CHECK(mode_of("c/t") == (S_IFDIR | 0751));
	CHECK(mode_of("c/t/x") == (S_IFREG | 0755));
	CHECK(S_ISLNK(mode_of("c/t/link")) && S_ISFIFO(mode_of("c/t/fifo")));
	CHECK(stat("c/s/f", &a) == 0 && stat("c/t/f", &b) == 0 &&
	      a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_ino != b.st_ino);
	CHECK(!exists("c/t/dev"));
	CHECK(FAILS(EEXIST, "c/t", "file.copy", "c/s", "c/t", "recursive"));
	put_file("c/t/own", "own");
	put_file("c/s/f", "new text");
	CHECK(RUN("file.copy", "c/s", "c/t", "recursive", "overwrite") == 0);
	CHECK_STR(get_file("c/t/f"), "new text");
	CHECK_STR(get_file("c/t/own"), "own");
	CHECK(FAILS(EINVAL, "itself", "file.copy", "c/s", "c/s/in",
		    "recursive"));
	CHECK(FAILS(EINVAL, "itself", "file.copy", "c", "c/s/in/to",
		    "recursive", "parents"));
	CHECK(FAILS(EINVAL, "same", "file.copy", "c/s/f", "c/s/f",
		    "overwrite"));
	CHECK(FAILS(EINVAL, "char_device", "file.copy", "c/s/dev", "c/dev"));
	CHECK(RUN("file.copy", "/proc/self/status", "c/status") == 0);
	CHECK(strlen(get_file("c/status")) > 100);
	CHECK(FAILS(ENOENT, "c/no", "file.copy", "c/no", "c/y/z", "parents"));
	CHECK(!exists("c/y"));
}

static void deep(const char *name, int depth)
{
	int i, fd = open(".", O_RDONLY | O_DIRECTORY);

	for (i = 0; i < depth; i++)
		if (mkdir(name, 0755) < 0 || chdir(name) < 0)
			abort();
	put_file("leaf", "leaf");
	CHECK(fchdir(fd) == 0);
	close(fd);
}

static void test_remove(void)
{
	CHECK(mkdir("x", 0755) == 0 && mkdir("x/d", 0755) == 0 &&
	      mkdir("x/e", 0755) == 0 && mkdir("keep", 0755) == 0);
	put_file("x/f", "");
	put_file("x/d/f", "");
	put_file("keep/me", "kept");
	LINK("../keep", "x/d/link");
	LINK("keep", "x-link");
	CHECK(FAILS(ENOTEMPTY, "x/d", "file.remove", "x/d"));
	CHECK(RUN("file.remove", "x/f") == 0 && !exists("x/f"));
	CHECK(RUN("file.remove", "x/e") == 0 && !exists("x/e"));
	CHECK(RUN("file.remove", "x", "recursive") == 0 && !exists("x"));
	CHECK(RUN("file.remove", "x-link/", "recursive") == 0);
	CHECK(!exists("x-link"));
	CHECK_STR(get_file("keep/me"), "kept");
	CHECK(FAILS(ENOENT, "gone", "file.remove", "gone"));
	CHECK(FAILS(EINVAL, "name", "file.remove", "/", "recursive"));
	CHECK(FAILS(EINVAL, "name", "file.remove", "keep/..", "recursive"));
	/* Deeper than a path can be, and than there are descriptors. */
	deep("deep", 3000);
	CHECK(FAILS(ELOOP, "deep", "file.copy", "deep", "deep2", "recursive"));
	CHECK(FAILS(ELOOP, "deep", "file.chmod", "deep", "mode=0755",
		    "recursive"));
	CHECK(RUN("file.list", "deep", "depth=64") == 0);
	CHECK(RUN("file.remove", "deep", "recursive") == 0 && !exists("deep"));
	CHECK(RUN("file.remove", "deep2", "recursive") == 0);
}

static void test_remove_rights(void)
{
	CHECK(mkdir("xr", 0777) == 0 && chmod("xr", 0777) == 0 &&
	      mkdir("xr/locked", 0755) == 0);
	put_file("xr/locked/f", "");
	run_as = 65534;
	CHECK(FAILS(EACCES, "xr/locked/f", "file.remove", "xr", "recursive"));
	run_as = 0;
	CHECK(exists("xr/locked/f"));
}

static void test_chmod(void)
{
	CHECK(mkdir("h", 0755) == 0 && mkdir("h/d", 0000) == 0);
	put_file("h/d/f", "");
	put_file("out", "");
	LINK("../out", "h/link");
	CHECK(chown("h", 65534, 65534) == 0 &&
	      chown("h/d", 65534, 65534) == 0 &&
	      chown("h/d/f", 65534, 65534) == 0);
	run_as = 65534;
	CHECK(RUN("file.chmod", "h", "mode=0750", "recursive") == 0);
	run_as = 0;
	CHECK(next_record() == FILE_ENTRY && rec.entry.mode == 0750);
	CHECK(mode_of("h/d") == (S_IFDIR | 0750));
	CHECK(mode_of("h/d/f") == (S_IFREG | 0750));
	CHECK(mode_of("out") == (S_IFREG | 0644));
	CHECK(RUN("file.chmod", "h", "mode=0000", "recursive") == 0);
	CHECK(mode_of("h/d/f") == S_IFREG && mode_of("h") == S_IFDIR);
	CHECK(RUN("file.chmod", "out", "mode=600", "recursive") == 0);
	CHECK(mode_of("out") == (S_IFREG | 0600));
	CHECK(FAILS(EINVAL, "mode", "file.chmod", "out"));
	run_as = 65534;
	CHECK(FAILS(EPERM, "out", "file.chmod", "out", "mode=0777"));
	run_as = 0;
}

/* What stands in front of an entry that was asked for in detail. */
static void test_detail(void)
{
	put_file("de", "x");
	chmod("de", 0640);
	LINK("de", "de-link");
	CHECK(setxattr("de", "user.note", "text", 4, 0) == 0);
	CHECK(setxattr("de", "user.raw", "a\0b", 3, 0) == 0);
	CHECK(RUN("file.stat", "de-link", "detail") == 0);
	CHECK(next_record() == FILE_DETAIL && rec.detail.mode == 0640);
	CHECK_STR(rec.detail.path, join(top, "de"));
	CHECK(rec.detail.n_attrs == 1);
	CHECK_STR(rec.detail.attr[0].name, "user.note");
	CHECK_STR(rec.detail.attr[0].value, "text");
	CHECK(next_record() == FILE_ENTRY && rec.entry.type == FILE_SYMLINK);
	CHECK(RUN("file.stat", "de", "detail") == 0);
	CHECK(next_record() == FILE_DETAIL && *rec.detail.path == '\0');
	CHECK(RUN("file.stat", "dangling", "detail") == 0);
	CHECK(next_record() == FILE_DETAIL && *rec.detail.path == '\0' &&
	      rec.detail.n_attrs == 0);
	CHECK(next_record() == FILE_ENTRY && next_record() == 0);
	CHECK(FAILS(EINVAL, "no option detail", "file.read", "de", "detail"));
}

static void test_attrs(void)
{
	char value[16];

	buf_puts(&run_in, "abc");
	CHECK(RUN("file.write", "at", "attr=user.a=1=2",
		  "attr=user.b=", "detail") == 0);
	CHECK(next_record() == FILE_DETAIL && rec.detail.n_attrs == 2);
	CHECK(next_record() == FILE_ENTRY && rec.entry.size == 3);
	CHECK_STR(rec.entry.path, join(top, "at"));
	CHECK(next_record() == FILE_WRITTEN && next_record() == 0);
	CHECK(getxattr("at", "user.a", value, sizeof(value)) == 3 &&
	      memcmp(value, "1=2", 3) == 0);
	/* They are all that it has. */
	CHECK(RUN("file.write", "at", "attr=user.c=3") == 0);
	CHECK(getxattr("at", "user.a", value, sizeof(value)) < 0 &&
	      getxattr("at", "user.c", value, sizeof(value)) == 1);
	CHECK(FAILS(EINVAL, "attr", "file.write", "at", "attr=trusted.a=1"));
	CHECK(FAILS(EINVAL, "attr", "file.write", "at", "attr=user.a"));
	CHECK(FAILS(EINVAL, "attr", "file.write", "at", "attr=user.=1"));
	CHECK(FAILS(EINVAL, "attr", "file.write", "at", "attr"));
}

static bool is_daemons(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_uid == 1 && st.st_gid == 1;
}

static void test_owner(void)
{
	char file[PATH_MAX], dir[PATH_MAX];

	snprintf(file, sizeof(file), "%s", join(top, "ow/a/f"));
	snprintf(dir, sizeof(dir), "%s", join(top, "ow/b/d"));
	CHECK(mkdir("ow", 0755) == 0);
	CHECK(RUN("file.write", file, "parents", "owner=daemon") == 0);
	CHECK(is_daemons("ow/a") && is_daemons("ow/a/f"));
	CHECK(!is_daemons("ow"));
	CHECK(RUN("file.mkdir", dir, "parents", "owner=1") == 0);
	CHECK(is_daemons("ow/b") && is_daemons("ow/b/d"));
	/* What was root's and is written again is theirs. */
	put_file("ow/old", "x");
	chmod("ow/old", 0600);
	CHECK(RUN("file.write", join(top, "ow/old"), "owner=daemon") == 0);
	CHECK(is_daemons("ow/old"));
	CHECK(RUN("file.stat", ".", "owner=daemon") == 0 && next_record());
	CHECK_STR(rec.entry.path, "/usr/sbin");
	CHECK(FAILS(ESRCH, "nope", "file.stat", "/", "owner=nope"));
	run_as = 2;
	CHECK(FAILS(EPERM, "root", "file.stat", "/", "owner=daemon"));
	CHECK(RUN("file.stat", "/", "owner=2") == 0);
	run_as = 0;
}

static void test_within(void)
{
	char in[96], path[128], link[128];

	snprintf(in, sizeof(in), "within=%s/wi", top);
	CHECK(mkdir("wi", 0755) == 0 && mkdir("wi/d", 0755) == 0);
	put_file("wi/d/f", "inside");
	put_file("beside", "outside");
	LINK("..", "wi/up");
	LINK("/", "wi/root");
	LINK("d", "wi/in");
	snprintf(path, sizeof(path), "%s/wi/up/beside", top);
	CHECK(FAILS(EPERM, "leads out of", "file.read", path, in));
	CHECK(FAILS(EPERM, "leads out of", "file.stat", path, in));
	CHECK(FAILS(EPERM, "leads out of", "file.chmod", path, in, "uid=1"));
	CHECK(FAILS(EPERM, "leads out of", "file.remove", path, in));
	buf_puts(&run_in, "lost");
	CHECK(FAILS(EPERM, "leads out of", "file.write", path, in));
	snprintf(path, sizeof(path), "%s/wi/root/new/dir", top);
	CHECK(FAILS(EPERM, "leads out of", "file.mkdir", path, in, "parents"));
	/* Nor does a path that starts elsewhere. */
	snprintf(path, sizeof(path), "%s/wiw", top);
	CHECK(FAILS(EPERM, "leads out of", "file.read", path, in));
	CHECK(FAILS(EINVAL, "within", "file.read", path, "within=wi"));
	CHECK(FAILS(EINVAL, "within", "file.pack", path, in));
	CHECK(FAILS(EINVAL, "uid", "file.chmod", path, in, "uid=4294967295"));
	/* Links that stay inside are followed. */
	snprintf(path, sizeof(path), "%s/wi/in/a/b", top);
	snprintf(link, sizeof(link), "%s/wi/in/a/b/c", top);
	CHECK(RUN("file.mkdir", path, in, "parents") == 0);
	buf_puts(&run_in, "kept");
	CHECK(RUN("file.write", link, in) == 0 && exists("wi/d/a/b/c"));
	CHECK(RUN("file.chmod", link, in, "uid=7", "gid=8") == 0);
	CHECK(next_record() == FILE_ENTRY && rec.entry.uid == 7 &&
	      rec.entry.gid == 8);
	snprintf(path, sizeof(path), "%s/wi", top);
	CHECK(RUN("file.stat", path, in) == 0);
	CHECK(next_record() == FILE_ENTRY && rec.entry.type == FILE_DIRECTORY);
	CHECK(RUN("file.list", path, in) == 0);
}

int main(void)
{
	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		return 77;
	}
	/* What is mounted here goes with us. */
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 1;
	top_make();
	test_args();
	test_stat();
	test_list();
	test_list_pages();
	test_list_unreadable();
	test_list_large();
	test_read();
	test_write();
	test_write_rights();
	test_full();
	test_mkdir();
	test_move();
	test_move_far();
	test_copy();
	test_remove();
	test_remove_rights();
	test_chmod();
	test_detail();
	test_attrs();
	test_owner();
	test_within();
	if (chdir("/") < 0)
		return 1;
	top_remove();
	buf_done(&run_in);
	buf_done(&run_out);
	return CHECK_DONE();
}
