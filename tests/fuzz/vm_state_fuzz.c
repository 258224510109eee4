/*
 * What lies beside the disk of a microVM and may have been brought from
 * elsewhere: its shape (sandbox/vm/state.c), and the memory it had, which is
 * put into a QEMU (sandbox/vm/ram.c). Nothing is written outside of the
 * memory; what is refused says why. The first byte says which of the two it
 * is, and of the memory how much of the file is right from the start.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "sandbox/vm/state.h"
#include "scratch.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SHAPE = 1, WHOLE = 2, PAGES = 32, AT = 3 * RAM_PAGE };
enum { BYTES = PAGES * RAM_PAGE, MEMORY_START = 2 * RAM_PAGE };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	scratch_make();
	return 0;
}

static int put(const char *name, const void *p, size_t n)
{
	int fd = openat(top_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
			0600);

	if (fd < 0 || write_full(fd, p, n) < 0)
		abort();
	return fd;
}

static void fuzz_shape(const uint8_t *p, size_t n)
{
	AUTO_CLOSE int fd = put(STATE_SHAPE, p, n);
	struct state_shape s;
	struct err e = { 0 };
	int r = state_shape(top_fd, &s, &e);

	assert(r == -e.code && (r == 0 || e.msg[0]));
	if (r < 0)
		return;
	assert(n == 2 * ID_LEN + 1 && id_valid(s.key) && id_valid(s.id));
	assert(memcmp(p, s.key, ID_LEN) == 0 &&
	       memcmp(p + ID_LEN + 1, s.id, ID_LEN) == 0);
}

/* The memory of a QEMU, with pages beside it that are not. */
static int make_memory(void)
{
	static uint8_t page[RAM_PAGE];
	int fd = put("mem", NULL, 0), i;

	memset(page, 'q', sizeof(page));
	for (i = 0; i < AT / RAM_PAGE + PAGES + 3; i++)
		if (write_full(fd, page, sizeof(page)) < 0)
			abort();
	return fd;
}

static void check_page(int mem_fd, int file_fd, int i, bool in_here)
{
	uint8_t was[RAM_PAGE], is[RAM_PAGE];

	memset(was, 'q', sizeof(was));
	if (in_here && pread(file_fd, was, sizeof(was),
			     MEMORY_START + (off_t)i * RAM_PAGE) < 0)
		abort();
	assert(pread(mem_fd, is, sizeof(is), AT + (off_t)i * RAM_PAGE) ==
	       sizeof(is));
	assert(memcmp(was, is, sizeof(is)) == 0);
}

static void fuzz_memory(const uint8_t *p, size_t n, bool whole)
{
	const struct ram_head head = { RAM_MAGIC, BYTES, 0 };
	const struct ram_map map = {
		.process_fd = top_fd, .pid_fd = -1, .at = AT, .bytes = BYTES
	};
	AUTO_CLOSE int file_fd = put("changed", p, n), mem_fd = make_memory();
	uint8_t bits[PAGES / 8] = { 0 };
	struct err e = { 0 };
	int r, i;

	if (whole && (pwrite(file_fd, &head, sizeof(head), 0) < 0 ||
		      pwrite(file_fd, p, n < sizeof(bits) ? n : sizeof(bits),
			     RAM_PAGE) < 0 ||
		      ftruncate(file_fd, MEMORY_START + BYTES) < 0))
		abort();
	r = ram_load(file_fd, &map, &e);
	assert(r == -e.code && (r == 0 || e.msg[0]) && (!whole || r == 0));
	if (pread(file_fd, bits, sizeof(bits), RAM_PAGE) < 0)
		abort();
	for (i = -AT / RAM_PAGE; i < PAGES + 3; i++)
		check_page(mem_fd, file_fd, i,
			   r == 0 && i >= 0 && i < PAGES &&
				   bits[i / 8] >> (i % 8) & 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0] & SHAPE)
		fuzz_shape(data + 1, size - 1);
	else
		fuzz_memory(data + 1, size - 1, data[0] & WHOLE);
	return 0;
}
