/*
 * A backup that somebody gives to `carrel restore`, unpacked: its sums, its
 * format, its files. What is taken has nothing odd in it, and all of its sums
 * are right. The first byte says which odd files there are, then comes the
 * format up to a zero, then the sums, in which "@N" is the sum of file N.
 */
#include <assert.h>

#include "../../src/cli/backup_check.c"
#include "scratch.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* LINK and the like are what no backup has. */
enum { NO_DATABASE = 1, LINK = 2, FIFO = 4, DEEP = 8, NO_SUMS = 16 };

static const char database[] = "SQLite format 3\0and pages";
static const char *const names[] = { BACKUP_REGISTRY, "audit/1.log" };

static void put(const char *name, const void *p, size_t n)
{
	AUTO_CLOSE int fd = openat(
		top_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write_full(fd, p, n) < 0)
		abort();
}

/* The sums are those that a fuzzer cannot find. */
static void put_sums(const char *p, size_t n)
{
	AUTO(buf_done) struct buf b = { 0 };
	char hex[SUM_HEX + 1];
	struct err e = { 0 };

	for (; n > 0; p++, n--) {
		if (n > 1 && p[0] == '@' && (p[1] == '0' || p[1] == '1')) {
			if (sum_file(top_fd, names[p[1] - '0'], hex, &e) < 0)
				abort();
			buf_puts(&b, hex);
			p++;
			n--;
		} else {
			buf_add(&b, p, 1);
		}
	}
	put(BACKUP_SUMS, buf_data(&b), buf_len(&b));
}

static void deep(bool there)
{
	char path[64] = "audit";
	unsigned i;

	for (i = 0; i <= DEPTH_MAX; i++)
		strcat(path, "/d");
	for (; strlen(path) > strlen("audit") && !there;
	     path[strlen(path) - 2] = '\0')
		if (unlinkat(top_fd, path, AT_REMOVEDIR) < 0)
			abort();
	for (i = 0; i <= DEPTH_MAX && there; i++) {
		path[strlen("audit") + 2 * (i + 1)] = '\0';
		if (mkdirat(top_fd, path, 0700) < 0)
			abort();
		path[strlen("audit") + 2 * (i + 1)] = '/';
	}
}

static void put_odd(uint8_t which)
{
	if ((which & LINK && symlinkat("/etc", top_fd, "audit/link") < 0) ||
	    (which & FIFO && mkfifoat(top_fd, "audit/fifo", 0600) < 0))
		abort();
	if (which & DEEP)
		deep(true);
}

static void take_odd(uint8_t which)
{
	if ((which & LINK && unlinkat(top_fd, "audit/link", 0) < 0) ||
	    (which & FIFO && unlinkat(top_fd, "audit/fifo", 0) < 0))
		abort();
	if (which & DEEP)
		deep(false);
	unlinkat(top_fd, BACKUP_SUMS, 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	scratch_make();
	if (mkdirat(top_fd, "registry", 0700) < 0 ||
	    mkdirat(top_fd, "audit", 0700) < 0)
		abort();
	put(names[1], "log", 3);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end;
	struct err e = { 0 };
	size_t n;
	int r;

	if (size < 2)
		return 0;
	end = memchr(data + 1, '\0', size - 1);
	n = end ? (size_t)(end - data) - 1 : size - 1;
	put(BACKUP_REGISTRY, database + (data[0] & NO_DATABASE),
	    sizeof(database) - 2);
	put(BACKUP_FORMAT, data + 1, n);
	if (!(data[0] & NO_SUMS))
		put_sums(end ? (const char *)end + 1 : "",
			 end ? size - n - 2 : 0);
	put_odd(data[0]);
	r = backup_check(top_fd, &e);
	assert(r == -e.code && (r == 0 || e.msg[0]));
	assert(r < 0 ||
	       (data[0] & (NO_DATABASE | LINK | FIFO | DEEP | NO_SUMS)) == 0);
	take_odd(data[0]);
	return 0;
}
