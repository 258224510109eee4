/*
 * The base of an image: a tree with everything that is hard about one becomes
 * a file system, which the tools of others and the kernel read as it was.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "worker/base.h"
#include "worker/erofs.h"

enum { MANY = 3000, PATH_CAP = 512 };

static char top[] = "/tmp/erofs_test.XXXXXX";

/* A shell command with the test's directory as $T. */
static int sh(const char *text)
{
	int status = system(text);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *below(const char *rel)
{
	static char path[2][PATH_CAP];
	static unsigned turn;
	char *out = path[turn++ % 2];

	snprintf(out, PATH_CAP, "%s/%s", top, rel);
	return out;
}

static void put(const char *rel, size_t size, char with)
{
	AUTO_CLOSE int fd =
		open(below(rel), O_WRONLY | O_CREAT | O_TRUNC, 0644);
	char block[1000];

	memset(block, with, sizeof(block));
	while (size > 0) {
		size_t n = size < sizeof(block) ? size : sizeof(block);

		if (write(fd, block, n) != (ssize_t)n)
			abort();
		block[0]++;
		size -= n;
	}
}

/* Sizes around what lies behind an inode, and around blocks. */
static void make_files(void)
{
	static const size_t sizes[] = {
		0,    1,    31,   32,   4031, 4032, 4033, 4095,   4096,
		4097, 8127, 8128, 8129, 8191, 8192, 8193, 200000, 262144
	};
	char name[32];
	size_t i;

	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		snprintf(name, sizeof(name), "tree/files/%zu", sizes[i]);
		put(name, sizes[i], (char)('a' + i));
	}
}

/* Names of all lengths; some come before "." and "..". */
static void make_names(void)
{
	static const char *const odd[] = { "!",   "-",   "+x", ".a",  "..a",
					   "...", "a b", "\n", "\xff" };
	char name[300];
	size_t i;
	int n;

	for (i = 0; i < ARRAY_LEN(odd); i++) {
		snprintf(name, sizeof(name), "tree/many/%s", odd[i]);
		put(name, 3, 'n');
		snprintf(name, sizeof(name), "tree/few/%s", odd[i]);
		put(name, 3, 'n');
	}
	for (i = 0; i < MANY; i++) {
		n = snprintf(name, sizeof(name), "tree/many/%zu", i * 7919);
		memset(name + n, 'x', sizeof(name) - (size_t)n);
		name[sizeof("tree/many/") - 1 + 8 + i % 248] = '\0';
		put(name, i % 3, 'm');
	}
	memset(name, 'l', sizeof(name));
	memcpy(name, "tree/", 5);
	name[5 + 255] = '\0';
	CHECK(mkdir(below(name), 0700) == 0);
}

static void make_links(void)
{
	static char target[4096];
	static const size_t sizes[] = { 1, 100, 4032, 4033, 4095 };
	char name[32];
	size_t i;

	CHECK(link(below("tree/files/4097"), below("tree/few/same")) == 0);
	CHECK(link(below("tree/files/4097"), below("tree/again")) == 0);
	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		memset(target, 't', sizes[i]);
		target[sizes[i]] = '\0';
		snprintf(name, sizeof(name), "tree/link%zu", sizes[i]);
		CHECK(symlink(target, below(name)) == 0);
	}
}

static void make_odd(void)
{
	struct timespec old[2] = { { -5000000000, 7 }, { -5000000000, 7 } };
	struct timespec late[2] = { { 5000000000, 999999999 },
				    { 5000000000, 999999999 } };
	AUTO_CLOSE int fd = -1;

	CHECK(mkfifo(below("tree/fifo"), 0600) == 0);
	CHECK(mknod(below("tree/char"), S_IFCHR | 0666, makedev(5, 1)) == 0);
	CHECK(mknod(below("tree/block"), S_IFBLK | 0660, makedev(259, 70000)) ==
	      0);
	CHECK(mknod(below("tree/white"), S_IFCHR, makedev(0, 0)) == 0);
	CHECK(mknod(below("tree/socket"), S_IFSOCK | 0755, 0) == 0);
	CHECK(chown(below("tree/files/1"), 65534, 65535) == 0);
	CHECK(chmod(below("tree/files/31"), 06755) == 0);
	CHECK(lchown(below("tree/link1"), 1000, 1001) == 0);
	CHECK(chmod(below("tree/few"), 03711) == 0);
	fd = open(below("tree/sparse"), O_WRONLY | O_CREAT, 0400);
	CHECK(ftruncate(fd, 3 << 20) == 0 && pwrite(fd, "x", 1, 1 << 20) == 1);
	CHECK(utimensat(AT_FDCWD, below("tree/files/32"), old, 0) == 0);
	CHECK(utimensat(AT_FDCWD, below("tree/few"), late, 0) == 0);
}

/* Some of them move the end of a content out of its inode's block. */
static void make_attrs(void)
{
	static char large[1900];

	memset(large, 'v', sizeof(large));
	CHECK(setxattr(below("tree/few"), "user.dir", "d", 1, 0) == 0);
	CHECK(setxattr(below("tree/many"), "user.dir", large, sizeof(large),
		       0) == 0);
	CHECK(setxattr(below("tree/files/1"), "user.a", "", 0, 0) == 0);
	CHECK(setxattr(below("tree/files/1"), "user.b", "bcd", 3, 0) == 0);
	CHECK(setxattr(below("tree/files/4032"), "user.c", "x", 1, 0) == 0);
	CHECK(setxattr(below("tree/files/8193"), "user.large", large,
		       sizeof(large), 0) == 0);
	CHECK(setxattr(below("tree/files/4097"), "user.shared", "s", 1, 0) ==
	      0);
}

static void make_tree(void)
{
	CHECK(mkdtemp(top) != NULL);
	setenv("T", top, 1);
	CHECK(sh("mkdir -p $T/tree/files $T/tree/few $T/tree/many $T/tree/none "
		 "$T/tree/a/b/c/d/e $T/mnt && chmod 1777 $T/tree") == 0);
	make_files();
	make_names();
	make_links();
	make_attrs();
	make_odd();
}

static int base_to(const char *rel, uint64_t max, struct err *e)
{
	AUTO_CLOSE int root_fd = open(below("tree"), O_PATH | O_DIRECTORY);
	AUTO_CLOSE int fd =
		open(below(rel), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	uint64_t entries = 0, bytes = 0;
	int r = base_make(root_fd, fd, max, &entries, &bytes, e);

	return r < 0 ? r : entries > MANY && bytes > 3 << 20;
}

static void test_tools(void)
{
	if (sh("command -v fsck.erofs dump.erofs >/dev/null") != 0) {
		printf("# SKIPPED: no fsck.erofs here (erofs-utils)\n");
		return;
	}
	CHECK(sh("fsck.erofs $T/base >$T/log 2>&1 || { cat $T/log; false; }") ==
	      0);
	CHECK(sh("dump.erofs --path=/files/8129 $T/base >$T/log 2>&1 && "
		 "grep -q 'Size: 8129 ' $T/log || { cat $T/log; false; }") ==
	      0);
}

static ino_t ino(const char *rel)
{
	struct stat st = { 0 };

	return lstat(below(rel), &st) == 0 ? st.st_ino : 0;
}

static bool same_attr(const char *path, const char *name)
{
	static char a[EROFS_BLOCK], b[EROFS_BLOCK];
	char rel[64];
	ssize_t n, k;

	snprintf(rel, sizeof(rel), "tree/%s", path);
	n = getxattr(below(rel), name, a, sizeof(a));
	snprintf(rel, sizeof(rel), "mnt/%s", path);
	k = getxattr(below(rel), name, b, sizeof(b));
	return n >= 0 && n == k && memcmp(a, b, (size_t)n) == 0;
}

static void test_mounted(void)
{
	static const struct {
		const char *path, *name;
	} attrs[] = {
		{ "few", "user.dir" },      { "many", "user.dir" },
		{ "files/1", "user.a" },    { "files/1", "user.b" },
		{ "files/4032", "user.c" }, { "files/8193", "user.large" },
		{ "again", "user.shared" },
	};
	size_t i;

	/* Sizes and links of directories are the file system's own. */
	CHECK(sh("list() { cd $T/$1 && find . \\( -type d -printf "
		 "'%P|%y|%m|%U|%G|%T@\\0' \\) -o -printf "
		 "'%P|%y|%m|%U|%G|%T@|%s|%n|%l\\0' | sort -z >$T/$1.list; "
		 "find . -type f -print0 | sort -z | xargs -0 sha256sum "
		 ">$T/$1.sums; find . \\( -type b -o -type c \\) | sort | "
		 "xargs stat -c '%n %t %T' >$T/$1.dev; }; "
		 "list tree && list mnt && test -s $T/mnt.sums && cmp "
		 "$T/tree.list $T/mnt.list && "
		 "cmp $T/tree.sums $T/mnt.sums && cmp $T/tree.dev "
		 "$T/mnt.dev") == 0);
	for (i = 0; i < ARRAY_LEN(attrs); i++)
		CHECK(same_attr(attrs[i].path, attrs[i].name));
	CHECK(listxattr(below("mnt/files/1"), NULL, 0) ==
	      sizeof("user.a") + sizeof("user.b"));
	CHECK(listxattr(below("mnt/files/0"), NULL, 0) == 0);
	CHECK(ino("mnt/again") == ino("mnt/few/same"));
	CHECK(ino("mnt/again") == ino("mnt/files/4097"));
	CHECK(ino("mnt/again") != ino("mnt/files/4096"));
	CHECK(ino("mnt/a/b/..") == ino("mnt/a") && ino("mnt/a") != 0);
	CHECK(access(below("mnt/many/nothing"), F_OK) < 0 && errno == ENOENT);
}

static void test_mount(void)
{
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    sh("mount -t erofs -o loop,ro $T/base $T/mnt") != 0) {
		printf("# SKIPPED: no erofs can be mounted here\n");
		return;
	}
	test_mounted();
	CHECK(sh("umount $T/mnt") == 0);
}

static void test_room(void)
{
	struct err e = { 0 };

	CHECK(base_to("small", 100000, &e) == -ENOSPC);
	CHECK(strstr(e.msg, "no room") != NULL);
}

int main(void)
{
	struct err e = { 0 };

	if (geteuid() != 0) {
		printf("1..0 # SKIP devices and mounts need root\n");
		return 77;
	}
	umask(022);
	make_tree();
	CHECK(base_to("base", UINT64_MAX, &e) == 1);
	if (e.code)
		printf("# %s\n", e.msg);
	CHECK(base_to("twin", UINT64_MAX, &e) == 1);
	CHECK(sh("cmp $T/base $T/twin") == 0);
	test_tools();
	test_mount();
	test_room();
	CHECK(sh("rm -rf $T") == 0);
	return CHECK_DONE();
}
