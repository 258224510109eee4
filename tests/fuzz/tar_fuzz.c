/*
 * Fuzzes the unpacking of tars, and the preparation of what came out, into a
 * directory of its own. Besides the sanitizers' findings it is a crash when
 * anything appears beside that directory, or when something lies in it that
 * no archive may bring: a device, a set-id file.
 *
 * Needs root for owners; nothing here is confined, so run it where a write
 * outside would be noticed and hurt nobody.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "scratch.h"
#include "unpacked.h"
#include "worker_parts.h"

static int shim_fd = -1, null_fd = -1;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int bytes_fd(const void *p, size_t n)
{
	int fd = memfd_create("bytes", MFD_CLOEXEC);

	if (fd < 0 || write_full(fd, p, n) < 0 || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return fd;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	scratch_make();
	null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	shim_fd = bytes_fd("shim", 4);
	no_large_files();
	return null_fd < 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct job job;
	struct report report = { .fd = null_fd };
	AUTO_CLOSE int tar_fd = bytes_fd(data, n);
	AUTO_CLOSE int root_fd = unpacked_root();
	struct err e = { 0 };

	memset(&job, 0, sizeof(job));
	job.root_fd = root_fd;
	job.report = &report;
	if (unpack(&job, tar_fd, &e) == 0 && lseek(shim_fd, 0, SEEK_SET) == 0)
		(void)!prepare(root_fd, shim_fd, &e);
	job_done(&job);
	unpacked_check(root_fd);
	if (tree_remove(top_fd, "root") < 0)
		abort();
	return 0;
}
