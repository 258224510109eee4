/* Tars of `cp`: what we pack can be unpacked, and what is hostile cannot. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "check.h"
#include "cli/archive.h"
#include "wire/tar.h"

static char top[] = "/tmp/archive_test.XXXXXX";
static int top_fd;

static int new_dir(const char *name)
{
	if (mkdirat(top_fd, name, 0755) < 0)
		abort();
	return openat(top_fd, name, O_RDONLY | O_DIRECTORY);
}

static void put(int at, const char *path, const char *text, mode_t mode)
{
	int fd = openat(at, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write_full(fd, text, strlen(text)) < 0 ||
	    fchmod(fd, mode) < 0)
		abort();
	close(fd);
}

static bool has(int at, const char *path, const char *text)
{
	char got[64];

	return read_file_at(at, path, got, sizeof(got)) >= 0 &&
	       strcmp(got, text) == 0;
}

static mode_t mode_of(int at, const char *path)
{
	struct stat st;

	return fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) < 0
		       ? 0
		       : st.st_mode & 07777;
}

static bool is_there(int at, const char *path)
{
	struct stat st;

	return fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- a tar made by hand --- */

struct tar {
	struct buf b;
};

static void add(struct tar *t, char type, const char *path, const char *link,
		const char *text)
{
	static struct tar_entry e;
	size_t n = text ? strlen(text) : 0, pad = tar_padding(n);

	e = (struct tar_entry){ .type = type, .mode = 07777, .size = n };
	snprintf(e.path, sizeof(e.path), "%s", path);
	snprintf(e.link, sizeof(e.link), "%s", link ? link : "");
	tar_head_put(&t->b, &e);
	buf_add(&t->b, text, n);
	memset(buf_room(&t->b, pad), 0, pad);
	buf_fill(&t->b, pad);
}

static int unpack(struct tar *t, int dir_fd, bool ended)
{
	static const char zeros[2 * TAR_BLOCK];
	int fd = memfd_create("tar", 0), r;
	struct err e = { 0 };

	if (ended)
		buf_add(&t->b, zeros, sizeof(zeros));
	if (write_full(fd, buf_data(&t->b), buf_len(&t->b)) < 0 ||
	    lseek(fd, 0, SEEK_SET) < 0)
		abort();
	r = archive_unpack(fd, dir_fd, &e);
	printf("# %s\n", r < 0 ? e.msg : "unpacked");
	close(fd);
	buf_done(&t->b);
	return r;
}

static void test_both_ways(void)
{
	int from = new_dir("from"), to = new_dir("to");
	int fd = memfd_create("tar", 0);
	char longest[256];
	struct stat a, b;
	struct err e = { 0 };

	memset(longest, 'n', 255);
	longest[255] = '\0';
	put(from, "script", "#!/bin/sh\n", 0755);
	put(from, "empty", "", 0600);
	put(from, longest, "long", 0644);
	CHECK(symlinkat("nowhere", from, "link") == 0);
	CHECK(mkdirat(from, "sub", 0755) == 0);
	CHECK(mkdirat(from, "sub/deep", 0755) == 0);
	put(from, "sub/deep/file", "deep", 0400);
	CHECK(fchmodat(from, "sub/deep", 0500, 0) == 0);
	CHECK(mkfifoat(from, "pipe", 0600) == 0);

	CHECK(archive_pack(from, fd, &e) == 0);
	CHECK(lseek(fd, 0, SEEK_END) % TAR_BLOCK == 0);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	put(to, "script", "was here before", 0600);
	CHECK(archive_unpack(fd, to, &e) == 0);
	CHECK(has(to, "script", "#!/bin/sh\n"));
	CHECK(mode_of(to, "script") == 0755);
	CHECK(has(to, "empty", "") && mode_of(to, "empty") == 0600);
	CHECK(has(to, longest, "long"));
	CHECK(has(to, "sub/deep/file", "deep"));
	CHECK(mode_of(to, "sub/deep") == 0500);
	CHECK(mode_of(to, "sub") == 0755);
	CHECK(!is_there(to, "pipe"));
	CHECK(fstatat(from, "script", &a, 0) == 0);
	CHECK(fstatat(to, "script", &b, 0) == 0);
	CHECK(a.st_mtim.tv_sec == b.st_mtim.tv_sec);
	CHECK(readlinkat(to, "link", longest, sizeof(longest)) == 7);
	close(from);
	close(to);
	close(fd);
}

/* Nothing is written beside the directory, whatever the archive says. */
static void test_hostile(void)
{
	int dir = new_dir("jail"), out = new_dir("out");
	struct tar t = { 0 };
	struct stat st;

	put(out, "victim", "safe", 0600);
	add(&t, TAR_FILE, "../out/victim", NULL, "bad");
	CHECK(unpack(&t, dir, true) == -EBADMSG);
	add(&t, TAR_FILE, "a/../../out/victim", NULL, "bad");
	CHECK(unpack(&t, dir, true) == -EBADMSG);

	/* A link, and then something through it. */
	add(&t, TAR_SYMLINK, "way", "../out", NULL);
	add(&t, TAR_FILE, "way/victim", NULL, "bad");
	CHECK(unpack(&t, dir, true) < 0);
	add(&t, TAR_SYMLINK, "file", "../out/victim", NULL);
	add(&t, TAR_FILE, "file", NULL, "not through the link");
	CHECK(unpack(&t, dir, true) == 0);
	CHECK(has(dir, "file", "not through the link"));
	add(&t, TAR_SYMLINK, "up", "..", NULL);
	add(&t, TAR_HARDLINK, "hard", "up/out/victim", NULL);
	CHECK(unpack(&t, dir, true) < 0);
	add(&t, TAR_HARDLINK, "hard", "../out/victim", NULL);
	CHECK(unpack(&t, dir, true) == -EBADMSG);
	add(&t, TAR_SYMLINK, "dir", "../out", NULL);
	add(&t, TAR_DIR, "dir/", NULL, NULL);
	CHECK(unpack(&t, dir, true) < 0);
	CHECK(has(out, "victim", "safe"));
	CHECK(mode_of(out, ".") == 0755);

	/* An absolute name is one below. */
	add(&t, TAR_FILE, "/etc/x", NULL, "below");
	CHECK(unpack(&t, dir, true) == 0);
	CHECK(has(dir, "etc/x", "below"));
	CHECK(mode_of(dir, "etc/x") == 0777); /* and no bit more */

	/* A hard link to a file of the archive is one. */
	add(&t, TAR_HARDLINK, "second", "etc/x", NULL);
	add(&t, TAR_FILE, "second", NULL, "replaced");
	CHECK(unpack(&t, dir, true) == 0);
	CHECK(has(dir, "etc/x", "below") && has(dir, "second", "replaced"));

	add(&t, TAR_CHAR, "null", NULL, NULL);
	add(&t, TAR_FIFO, "fifo", NULL, NULL);
	add(&t, TAR_FILE, "last", NULL, "there");
	CHECK(unpack(&t, dir, true) == 0);
	CHECK(!is_there(dir, "null") && !is_there(dir, "fifo"));
	CHECK(has(dir, "last", "there"));

	add(&t, TAR_FILE, "cut", NULL, "short");
	CHECK(unpack(&t, dir, false) == -EBADMSG);
	add(&t, TAR_FILE, "etc", NULL, "a directory is in the way");
	CHECK(unpack(&t, dir, true) < 0);
	CHECK(fstatat(dir, "etc", &st, 0) == 0 && S_ISDIR(st.st_mode));
	add(&t, TAR_FILE, ".", NULL, "no name");
	CHECK(unpack(&t, dir, true) == -EBADMSG);
	close(dir);
	close(out);
}

int main(void)
{
	char command[64];

	if (!mkdtemp(top))
		return 1;
	top_fd = open(top, O_RDONLY | O_DIRECTORY);
	test_both_ways();
	test_hostile();
	close(top_fd);
	snprintf(command, sizeof(command), "rm -rf %s", top);
	if (system(command) != 0)
		return 1;
	return CHECK_DONE();
}
