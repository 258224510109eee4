/* Tars of the agent: what it packs it unpacks; and archives of bad people. */
#include "file_run.h"

#include <sys/sysmacros.h>

#include "check.h"
#include "wire/tar.h"

static void pad(void)
{
	size_t n = tar_padding(buf_len(&run_in));

	memset(buf_room(&run_in, n), 0, n);
	buf_fill(&run_in, n);
}

/* An entry as our own writer makes it, with what follows. */
static void add(char type, const char *path, const char *link,
		const char *content)
{
	struct tar_entry t = { .type = type,
			       .mode = 0644,
			       .mtime = { .tv_sec = 1000000000 } };

	snprintf(t.path, sizeof(t.path), "%s", path);
	snprintf(t.link, sizeof(t.link), "%s", link);
	t.size = strlen(content);
	tar_head_put(&run_in, &t);
	buf_puts(&run_in, content);
	pad();
}

static void add_end(void)
{
	memset(buf_room(&run_in, 1024), 0, 1024);
	buf_fill(&run_in, 1024);
}

/* The checksum of the header that starts `back` bytes before the end. */
static void fix_sum(size_t back)
{
	uint8_t *h = (uint8_t *)buf_data(&run_in) + buf_len(&run_in) - back;
	unsigned sum = 0;
	int i;

	memset(h + 148, ' ', 8);
	for (i = 0; i < TAR_BLOCK; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
}

/* Unpacks what was added into a new directory "in". */
static int go(void)
{
	struct buf kept = run_in;

	run_in = (struct buf){ 0 };
	RUN("file.remove", "in", "recursive");
	if (mkdir("in", 0755) < 0)
		abort();
	run_in = kept;
	add_end();
	return RUN("file.unpack", "in");
}
#define REFUSED(want, text)                     \
	(go() == 1 && run_why.code == (want) && \
	 (strstr(run_why.msg, text) ||          \
	  !printf("# %d %s\n", run_why.code, run_why.msg)))

static void test_round(void)
{
	char name[300], path[700];
	struct stat a, b;

	memset(name, 'n', sizeof(name));
	name[250] = '\0';
	CHECK(mkdir("src", 0755) == 0 && mkdir("src/ro", 0755) == 0);
	put_file("src/a", "text of a");
	CHECK(link("src/a", "src/ro/hard") == 0);
	CHECK(symlink("/etc/passwd", "src/ro/link") == 0);
	CHECK(mkfifo("src/fifo", 0640) == 0);
	CHECK(mknod("src/dev", S_IFCHR | 0600, makedev(1, 3)) == 0);
	snprintf(path, sizeof(path), "src/%s", name);
	CHECK(mkdir(path, 0755) == 0);
	snprintf(path, sizeof(path), "src/%s/%s", name, name);
	put_file(path, "far down");
	put_file("src/new\nline\xff", "odd");
	CHECK(chmod("src/a", 0750) == 0 && chmod("src/ro", 0555) == 0);
	CHECK(RUN("file.pack", "src") == 0);
	CHECK(buf_len(&run_out) % TAR_BLOCK == 0);
	run_in = run_out;
	run_out = (struct buf){ 0 };
	CHECK(go() == 0 && next_record() == FILE_UNPACKED);
	CHECK(rec.unpacked.entries == 8);
	CHECK_STR(get_file("in/a"), "text of a");
	CHECK(stat("in/a", &a) == 0 && stat("in/ro/hard", &b) == 0 &&
	      a.st_ino == b.st_ino && (a.st_mode & 07777) == 0750);
	CHECK(stat("src/a", &b) == 0 && a.st_mtime == b.st_mtime);
	CHECK(mode_of("in/ro") == (S_IFDIR | 0555));
	CHECK(S_ISLNK(mode_of("in/ro/link")) && S_ISFIFO(mode_of("in/fifo")));
	CHECK(!exists("in/dev"));
	snprintf(path, sizeof(path), "in/%s/%s", name, name);
	CHECK_STR(get_file(path), "far down");
	CHECK_STR(get_file("in/new\nline\xff"), "odd");
	CHECK(RUN("file.pack", "src/a") == 0);
	CHECK_STR(buf_str(&run_out), "a");
	CHECK(FAILS(ENOENT, "gone", "file.pack", "gone"));
	CHECK(FAILS(ENOENT, "gone", "file.unpack", "gone"));
	CHECK(FAILS(EBADMSG, "not a tar", "file.unpack", "made/up", "parents"));
	CHECK(S_ISDIR(mode_of("made/up")));
}

/* Names that would leave the directory, by themselves or over links. */
static void test_escapes(void)
{
	CHECK(mkdir("victim", 0755) == 0);
	put_file("victim/f", "untouched");
	add(TAR_FILE, "/abs", "", "x");
	CHECK(REFUSED(EBADMSG, "absolute"));
	add(TAR_FILE, "../victim/f", "", "x");
	CHECK(REFUSED(EBADMSG, "\"..\""));
	add(TAR_FILE, "a/../../victim/f", "", "x");
	CHECK(REFUSED(EBADMSG, "\"..\""));
	add(TAR_DIR, "..", "", "");
	CHECK(REFUSED(EBADMSG, "\"..\""));
	add(TAR_SYMLINK, "out", "../victim", "");
	add(TAR_FILE, "out/f", "", "x");
	CHECK(REFUSED(EXDEV, "out"));
	add(TAR_SYMLINK, "out", "/etc", "");
	add(TAR_FILE, "out/f", "", "x");
	CHECK(REFUSED(EXDEV, "out"));
	add(TAR_SYMLINK, "out", "../victim", "");
	add(TAR_FILE, "out/new/f", "", "x");
	CHECK(REFUSED(EXDEV, "out"));
	add(TAR_SYMLINK, "out", "../victim", "");
	add(TAR_DIR, "out", "", "");
	CHECK(REFUSED(EXDEV, "out"));
	add(TAR_HARDLINK, "h", "../victim/f", "");
	CHECK(REFUSED(EBADMSG, "\"..\""));
	add(TAR_HARDLINK, "h", "/etc/passwd", "");
	CHECK(REFUSED(EBADMSG, "absolute"));
	add(TAR_SYMLINK, "out", "../victim", "");
	add(TAR_HARDLINK, "h", "out/f", "");
	CHECK(REFUSED(EXDEV, "h"));
	/* Over a link that was written first: the link is replaced. */
	add(TAR_SYMLINK, "l", "../victim/f", "");
	add(TAR_FILE, "l", "", "mine");
	CHECK(go() == 0);
	CHECK_STR(get_file("in/l"), "mine");
	/* Links inside may be followed inside. */
	add(TAR_DIR, "d/", "", "");
	add(TAR_SYMLINK, "to-d", "d", "");
	add(TAR_FILE, "to-d/f", "", "inside");
	add(TAR_DIR, "to-d/", "", "");
	CHECK(go() == 0);
	CHECK_STR(get_file("in/d/f"), "inside");
	CHECK(S_ISLNK(mode_of("in/to-d")));
	CHECK_STR(get_file("victim/f"), "untouched");
	CHECK(!exists("victim/new") && !exists("/abs"));
}

static void test_replace(void)
{
	struct stat a, b;

	add(TAR_DIR, "d", "", "");
	add(TAR_FILE, "d", "", "x");
	CHECK(REFUSED(EISDIR, "d"));
	add(TAR_FILE, "f", "", "x");
	add(TAR_DIR, "f", "", "");
	CHECK(REFUSED(ENOTDIR, "f"));
	add(TAR_FILE, "f", "", "x");
	add(TAR_FILE, "f/g", "", "x");
	CHECK(REFUSED(ENOTDIR, "f/g"));
	add(TAR_FILE, "f", "", "one");
	add(TAR_HARDLINK, "f", "f", ""); /* to itself: it stays */
	add(TAR_FILE, "g", "", "two");
	add(TAR_HARDLINK, "g", "./f", "");
	CHECK(go() == 0);
	CHECK_STR(get_file("in/g"), "one");
	CHECK(stat("in/f", &a) == 0 && stat("in/g", &b) == 0 &&
	      a.st_ino == b.st_ino);
	add(TAR_DIR, "./", "", "");
	add(TAR_FILE, "deep/er/f", "", "made");
	CHECK(go() == 0);
	CHECK_STR(get_file("in/deep/er/f"), "made");
	add(TAR_FILE, ".", "", "");
	CHECK(REFUSED(EBADMSG, "no name"));
	add(TAR_HARDLINK, "h", "missing", "");
	CHECK(REFUSED(ENOENT, "h"));
}

static void test_odd_types(void)
{
	add(TAR_CHAR, "dev", "", "");
	add('V', "volume", "", "");
	add('Z', "what", "", "content that is skipped");
	add(TAR_PAX_GLOBAL, "g", "", "17 path=../evil\n");
	add(TAR_FILE, "f", "", "after");
	CHECK(go() == 0);
	CHECK(next_record() == FILE_NOTE && strstr(rec.note, "dev"));
	CHECK(next_record() == FILE_NOTE && strstr(rec.note, "volume"));
	CHECK(next_record() == FILE_NOTE && strstr(rec.note, "unknown"));
	CHECK(next_record() == FILE_UNPACKED && rec.unpacked.entries == 1);
	CHECK_STR(get_file("in/f"), "after");
	add(TAR_SPARSE, "s", "", "x");
	CHECK(REFUSED(ENOTSUP, "sparse"));
	add(TAR_PAX, "p", "", "22 GNU.sparse.major=1\n");
	add(TAR_FILE, "s", "", "x");
	CHECK(REFUSED(ENOTSUP, "sparse"));
	add('\0', "old/", "", "");
	add('7', "contiguous", "", "c");
	CHECK(go() == 0 && S_ISDIR(mode_of("in/old")));
	CHECK_STR(get_file("in/contiguous"), "c");
}

/* A NUL would make two names of one: as it is checked, and as it is used. */
static void test_pax_with_nul(void)
{
	static const char path[] = "14 path=a\0/..\n";
	static const char linkpath[] = "17 linkpath=a\0bc\n";
	static struct tar_extra x;
	struct err e = { 0 };

	CHECK(tar_pax_get(path, sizeof(path) - 1, &x, &e) == -EBADMSG);
	err_clear(&e);
	CHECK(tar_pax_get(linkpath, sizeof(linkpath) - 1, &x, &e) == -EBADMSG);
	err_clear(&e);
	CHECK(tar_pax_get("10 path=a\n", 10, &x, &e) == 0);
}

static void test_pax_with_long_path(void)
{
	static char name[FILE_PATH_MAX + 2];
	static struct tar_extra x;
	struct buf pax = { 0 };
	struct err e = { 0 };

	memset(name, 'n', sizeof(name) - 1);
	tar_pax_put(&pax, "path", name, FILE_PATH_MAX);
	CHECK(tar_pax_get(buf_data(&pax), buf_len(&pax), &x, &e) == 0);
	buf_clear(&pax);
	tar_pax_put(&pax, "path", name, FILE_PATH_MAX + 1);
	CHECK(tar_pax_get(buf_data(&pax), buf_len(&pax), &x, &e) == -EBADMSG);
	buf_done(&pax);
}

/* A record whose length ends before its line does. */
static void test_pax_without_line_end(void)
{
	static const char text[] = "11 path=abc9 path=x\n";
	static struct tar_extra x;
	struct err e = { 0 };

	CHECK(tar_pax_get(text, sizeof(text) - 1, &x, &e) == -EBADMSG);
}

static void test_sizes_that_lie(void)
{
	struct tar_entry t = { .type = TAR_SYMLINK, .mode = 0777, .size = 600 };

	/* A link has no content; the reader ignores its size. */
	snprintf(t.path, sizeof(t.path), "link");
	snprintf(t.link, sizeof(t.link), "f");
	tar_head_put(&run_in, &t);
	add(TAR_FILE, "f", "", "x");
	add(TAR_FILE, "g", "", "y");
	CHECK(go() == 0 && S_ISLNK(mode_of("in/link")) && exists("in/g"));
	CHECK_STR(get_file("in/f"), "x");
	t.type = TAR_PAX;
	t.size = TAR_PAX_MAX + 1;
	tar_head_put(&run_in, &t);
	CHECK(REFUSED(EBADMSG, "an extended header is too large"));
}

static void test_pax(void)
{
	struct stat st;

	add(TAR_PAX, "p", "", "18 path=long name\n");
	add(TAR_FILE, "short", "", "x");
	CHECK(go() == 0 && exists("in/long name") && !exists("in/short"));
	add(TAR_PAX, "p", "", "22 mtime=1500000000.5\n");
	add(TAR_FILE, "f", "", "x");
	CHECK(go() == 0 && stat("in/f", &st) == 0 &&
	      st.st_mtim.tv_sec == 1500000000 &&
	      st.st_mtim.tv_nsec == 500000000);
	add(TAR_PAX, "p", "", "13 mtime=-1.5\n");
	add(TAR_FILE, "f", "", "x");
	CHECK(REFUSED(EBADMSG, "malformed")); /* the length is wrong */
	add(TAR_PAX, "p", "", "14 mtime=-1.5\n");
	add(TAR_FILE, "f", "", "x");
	CHECK(go() == 0 && stat("in/f", &st) == 0 && st.st_mtim.tv_sec == -2);
	add(TAR_LONG_NAME, "././@LongLink", "", "by/gnu");
	add(TAR_LONG_LINK, "././@LongLink", "", "target");
	add(TAR_SYMLINK, "x", "y", "");
	CHECK(go() == 0 && S_ISLNK(mode_of("in/by/gnu")));
	/* A size that lies: content would be read as a header. */
	add(TAR_PAX, "p", "", "9 size=0\n");
	add(TAR_FILE, "f", "", "some content");
	CHECK(REFUSED(EBADMSG, "checksum"));
	add(TAR_PAX, "p", "", "28 size=9223372036854775807\n");
	add(TAR_FILE, "f", "", "x");
	CHECK(REFUSED(EBADMSG, "cut off"));
	add(TAR_PAX, "p", "", "29 size=18446744073709551615\n");
	add(TAR_FILE, "f", "", "x");
	CHECK(REFUSED(EBADMSG, "malformed"));
	for (size_t i = 0; i < 9; i++) {
		static const char *const bad[] = {
			"path=x\n",    "0 path=x\n",  "9 path=x",
			"99 path=x\n", " 9 path=x\n", "9 pathxx\n",
			"9\n",         "-9 path=x\n", "2 \n",
		};

		add(TAR_PAX, "p", "", bad[i]);
		add(TAR_FILE, "f", "", "x");
		CHECK(REFUSED(EBADMSG, "malformed"));
	}
	add(TAR_PAX, "p", "", "16 path=../../x\n");
	add(TAR_FILE, "f", "", "x");
	CHECK(REFUSED(EBADMSG, ""));
}

static void test_broken(void)
{
	uint8_t *h;

	buf_puts(&run_in, "no tar at all");
	CHECK(REFUSED(EBADMSG, "checksum"));
	buf_puts(&run_in, "\x1f\x8b gzip");
	CHECK(REFUSED(EBADMSG, "gzip"));
	CHECK(go() == 0); /* nothing but its end */
	RUN("file.remove", "in", "recursive");
	CHECK(mkdir("in", 0755) == 0);
	add(TAR_FILE, "f", "", "content");
	run_in.len -= TAR_BLOCK; /* the content is missing */
	CHECK(FAILS(EBADMSG, "cut off", "file.unpack", "in"));
	add(TAR_FILE, "f", "", "content");
	run_in.len -= 1; /* a byte of padding */
	CHECK(FAILS(EBADMSG, "cut off", "file.unpack", "in"));
	add(TAR_FILE, "f", "", "content");
	CHECK(RUN("file.unpack", "in") == 0); /* no end mark: as GNU tar */
	add(TAR_FILE, "f", "", "");
	h = (uint8_t *)run_in.p + run_in.off;
	memset(h + 124, 0xff, 12); /* size: -1, in binary */
	fix_sum(TAR_BLOCK);
	CHECK(REFUSED(EBADMSG, "number"));
	add(TAR_FILE, "f", "", "");
	h = (uint8_t *)run_in.p + run_in.off;
	memset(h + 124, 0x7f, 12);
	h[124] = 0x80; /* size: too large */
	fix_sum(TAR_BLOCK);
	CHECK(REFUSED(EBADMSG, "number"));
	add(TAR_FILE, "f", "", "");
	h = (uint8_t *)run_in.p + run_in.off;
	memset(h, 'a', 100); /* a name without an end */
	memset(h + 345, 'b', 155);
	fix_sum(TAR_BLOCK);
	CHECK(go() == 0);
	add(TAR_FILE, "f", "", "");
	h = (uint8_t *)run_in.p + run_in.off;
	memcpy(h + 100, "99999", 5);
	fix_sum(TAR_BLOCK);
	CHECK(REFUSED(EBADMSG, "number"));
}

static void test_numbers(void)
{
	struct tar_entry t = { .type = TAR_FILE, .size = 9663676416 }, u;
	struct err e = { 0 };
	uint8_t block[TAR_BLOCK] = { 0 };

	CHECK(tar_head_get(block, &u, &e) == 0);
	snprintf(t.path, sizeof(t.path), "big");
	tar_head_put(&run_in, &t);
	CHECK(buf_len(&run_in) == 3 * TAR_BLOCK); /* pax, its content, it */
	buf_clear(&run_in);
	t.size = 8589934591; /* the largest of ustar */
	tar_head_put(&run_in, &t);
	CHECK(buf_len(&run_in) == TAR_BLOCK);
	CHECK(tar_head_get((uint8_t *)buf_data(&run_in), &u, &e) == 1);
	CHECK(u.size == t.size);
	buf_clear(&run_in);
}

int main(void)
{
	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		return 77;
	}
	top_make();
	test_round();
	test_escapes();
	test_replace();
	test_odd_types();
	test_pax_with_nul();
	test_pax_without_line_end();
	test_sizes_that_lie();
	test_pax_with_long_path();
	test_pax();
	test_broken();
	test_numbers();
	if (chdir("/") < 0)
		return 1;
	top_remove();
	buf_done(&run_in);
	buf_done(&run_out);
	return CHECK_DONE();
}
