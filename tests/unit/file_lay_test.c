/* host.lay: the disk of another life over an image. */
#include "file_run.h"

#include <sys/xattr.h>

#include "check.h"
#include "wire/tar.h"

static void pad(void)
{
	size_t n = tar_padding(buf_len(&run_in));

	memset(buf_room(&run_in, n), 0, n);
	buf_fill(&run_in, n);
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
	tar_head_put(&run_in, &t);
	buf_puts(&run_in, content);
	pad();
}

static void add(char type, const char *path, const char *content)
{
	add_as(type, path, "", content, type == TAR_DIR ? 0755 : 0644, 0);
}

/* An extended header for the entry that is added next. */
static void add_pax(const char *text)
{
	struct tar_entry t = { .type = TAR_PAX, .path = "x" };

	t.size = strlen(text);
	tar_head_put(&run_in, &t);
	buf_puts(&run_in, text);
	pad();
}

static int go(void)
{
	memset(buf_room(&run_in, 1024), 0, 1024);
	buf_fill(&run_in, 1024);
	return RUN("host.lay", "root");
}
#define REFUSED(want, text)                     \
	(go() == 1 && run_why.code == (want) && \
	 (strstr(run_why.msg, text) ||          \
	  !printf("# %d %s\n", run_why.code, run_why.msg)))

static void start(void)
{
	buf_clear(&run_in);
	RUN("file.remove", "root", "recursive");
	RUN("file.remove", "beside", "recursive");
	if (mkdir("root", 0755) < 0 || mkdir("beside", 0755) < 0)
		abort();
	put_file("beside/file", "x");
	buf_clear(&run_in);
}

static void test_all_kinds(void)
{
	struct stat st, other;
	char value[16];

	start();
	mkdir("root/d", 0755);
	put_file("root/d/gone", "x");
	put_file("root/d/kept", "image");
	put_file("root/was", "file");
	mkdir("root/full", 0755);
	put_file("root/full/f", "x");
	add_as(TAR_DIR, "d/", "", "", 0750, 1000);
	add(TAR_FILE, "d/.wh.gone", "");
	add_pax("26 SCHILY.xattr.user.k=v1\n"
		"30 mtime=1234567890.123456789\n");
	add_as(TAR_FILE, "d/new", "", "theirs", 04751, 1000);
	add_as(TAR_HARDLINK, "d/twin", "d/new", "", 0, 0);
	add_as(TAR_SYMLINK, "link", "d", "", 0777, 1000);
	add_as(TAR_FIFO, "pipe", "", "", 0600, 7);
	add(TAR_DIR, "was/", "");
	add(TAR_FILE, "was/in", "1");
	add(TAR_FILE, "full", "2");
	CHECK(go() == 0);
	CHECK(next_record() == FILE_UNPACKED && rec.unpacked.entries == 9);
	CHECK_STR(get_file("root/d/new"), "theirs");
	CHECK_STR(get_file("root/d/kept"), "image");
	CHECK(!exists("root/d/gone") && !exists("root/d/.wh.gone"));
	CHECK(stat("root/d/new", &st) == 0 && st.st_uid == 1000 &&
	      (st.st_mode & 07777) == 04751 && st.st_nlink == 2 &&
	      st.st_mtim.tv_sec == 1234567890 &&
	      st.st_mtim.tv_nsec == 123456789);
	CHECK(stat("root/d/twin", &other) == 0 && other.st_ino == st.st_ino);
	CHECK(getxattr("root/d/new", "user.k", value, sizeof(value)) == 2);
	CHECK(stat("root/d", &st) == 0 && st.st_mtime == 1000000000 &&
	      (st.st_mode & 07777) == 0750 && st.st_gid == 1000);
	CHECK(lstat("root/link", &st) == 0 && S_ISLNK(st.st_mode) &&
	      st.st_uid == 1000 && st.st_mtime == 1000000000);
	CHECK(lstat("root/pipe", &st) == 0 && S_ISFIFO(st.st_mode) &&
	      st.st_uid == 7);
	CHECK_STR(get_file("root/was/in"), "1");
	CHECK_STR(get_file("root/full"), "2");
}

static void test_root(void)
{
	struct stat st;
	char value[16];

	start();
	if (setxattr("root", "user.old", "x", 1, 0) < 0)
		abort();
	add_pax("26 SCHILY.xattr.user.k=v1\n"
		"30 mtime=1234567890.123456789\n");
	add_as(TAR_DIR, "./", "", "", 01711, 7);
	add(TAR_FILE, "f", "1");
	CHECK(go() == 0);
	CHECK(stat("root", &st) == 0 && (st.st_mode & 07777) == 01711 &&
	      st.st_uid == 7 && st.st_mtim.tv_sec == 1234567890 &&
	      st.st_mtim.tv_nsec == 123456789);
	CHECK(getxattr("root", "user.k", value, sizeof(value)) == 2);
	CHECK(getxattr("root", "user.old", value, sizeof(value)) < 0);
	start();
	add(TAR_FILE, ".", "");
	CHECK(REFUSED(EBADMSG, "not what a disk"));
}

static void test_holes(void)
{
	enum { SIZE = 1 << 20 };
	struct tar_entry t = {
		.type = TAR_FILE, .mode = 0644, .size = SIZE, .path = "sparse"
	};
	struct stat st;
	char *p, three[3];
	int fd;

	start();
	tar_head_put(&run_in, &t);
	p = buf_room(&run_in, SIZE);
	memset(p, 0, SIZE);
	p[SIZE / 2] = 'x';
	p[SIZE / 2 - 1] = 'y';
	buf_fill(&run_in, SIZE);
	CHECK(go() == 0);
	CHECK(stat("root/sparse", &st) == 0 && st.st_size == SIZE);
	CHECK(st.st_blocks * 512 <= 64 * 1024);
	fd = open("root/sparse", O_RDONLY | O_CLOEXEC);
	CHECK(pread(fd, three, 3, SIZE / 2 - 1) == 3 &&
	      memcmp(three, "yx", 3) == 0);
	close(fd);
}

static void test_nowhere_else(void)
{
	start();
	add(TAR_FILE, "../x", "1");
	CHECK(REFUSED(EBADMSG, ".."));
	start();
	add(TAR_FILE, "/x", "1");
	CHECK(REFUSED(EBADMSG, "absolute"));
	start();
	add_as(TAR_SYMLINK, "l", "../beside", "", 0777, 0);
	add(TAR_FILE, "l/file", "1");
	CHECK(go() == 1);
	start();
	add_as(TAR_SYMLINK, "l", "../beside", "", 0777, 0);
	add(TAR_FILE, "l/.wh.file", "");
	CHECK(go() == 1);
	start();
	add_as(TAR_HARDLINK, "h", "../beside/file", "", 0644, 0);
	CHECK(REFUSED(EBADMSG, ".."));
	start();
	add_as(TAR_SYMLINK, "l", "../beside", "", 0777, 0);
	add_as(TAR_HARDLINK, "h", "l/file", "", 0644, 0);
	CHECK(go() == 1);
	CHECK_STR(get_file("beside/file"), "x");
}

static void test_marks(void)
{
	start();
	mkdir("root/d", 0755);
	add(TAR_FILE, "d/.wh...", "");
	CHECK(REFUSED(EBADMSG, "no name is removed"));
	start();
	add(TAR_FILE, ".wh...", "");
	CHECK(REFUSED(EBADMSG, "no name is removed"));
	start();
	add(TAR_FILE, ".wh.", "");
	CHECK(REFUSED(EBADMSG, "no name is removed"));
	CHECK_STR(get_file("beside/file"), "x");
	/* What is not there is gone already. */
	start();
	add(TAR_FILE, ".wh.nothing", "");
	CHECK(go() == 0);
	/* A directory that takes the place of a link is none of its target. */
	start();
	if (symlink("../beside", "root/l") < 0)
		abort();
	add(TAR_DIR, "l/", "");
	add(TAR_FILE, "l/file", "2");
	CHECK(go() == 0);
	CHECK_STR(get_file("root/l/file"), "2");
	CHECK_STR(get_file("beside/file"), "x");
}

static void test_not_for_us(void)
{
	start();
	add(TAR_CHAR, "dev", "");
	CHECK(REFUSED(EBADMSG, "not what a disk"));
	start();
	add_pax("22 GNU.sparse.major=1\n");
	add(TAR_FILE, "f", "1");
	CHECK(REFUSED(EBADMSG, "not what a disk"));
	start();
	add(TAR_FILE, "f", "1");
	CHECK(RUN("host.lay", "nowhere") == 1);
}

int main(void)
{
	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		return 77;
	}
	top_make();
	test_all_kinds();
	test_root();
	test_holes();
	test_nowhere_else();
	test_marks();
	test_not_for_us();
	if (chdir("/") < 0)
		return 1;
	top_remove();
	buf_done(&run_in);
	buf_done(&run_out);
	return CHECK_DONE();
}
