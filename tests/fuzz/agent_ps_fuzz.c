/*
 * What `ps` tells of processes that chose their names and arguments: files as
 * /proc has them, then records, which the host reads. Files are parts of the
 * input, each up to a byte of 0x1e: stat, status, cmdline.
 */
#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../src/agent/ps.c"
#include "scratch.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { END = 0x1e, PID = 7 };

static const char *const files[] = { "7/stat", "7/status", "7/cmdline" };
static int out_fd;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	scratch_make();
	out_fd = memfd_create("out", MFD_CLOEXEC);
	if (out_fd < 0 || mkdirat(top_fd, "7", 0755) < 0 ||
	    dup2(out_fd, STDOUT_FILENO) < 0)
		abort();
	return 0;
}

static void put_file(const char *name, const uint8_t *p, size_t n)
{
	AUTO_CLOSE int fd = openat(
		top_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write_full(fd, p, n) < 0)
		abort();
}

static void check_told(void)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct ps record;
	int n;

	if (lseek(out_fd, 0, SEEK_SET) < 0)
		abort();
	while (buf_read(&b, out_fd, 64 * 1024) > 0)
		;
	if (buf_len(&b) == 0)
		return;
	n = ps_get(&b, &record);
	assert(n > 0 && (size_t)n == buf_len(&b));
	assert(record.kind == PS_TASK && record.task.pid == PID);
	assert(record.args_len <= PS_ARGS_MAX + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++) {
		const uint8_t *end = size ? memchr(data, END, size) : NULL;
		size_t n = end ? (size_t)(end - data) : size;

		put_file(files[i], data, n);
		data += n + (end != NULL);
		size -= n + (end != NULL);
	}
	if (ftruncate(out_fd, 0) < 0 || lseek(out_fd, 0, SEEK_SET) < 0 ||
	    put_task(top_fd, PID) < 0)
		abort();
	check_told();
	return 0;
}
