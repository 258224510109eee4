/*
 * Fuzzes the applying of layers: the input is cut at its middle block into two
 * tars, of which the second goes over the first. As with whole archives, it is
 * a crash when anything appears beside the directory, or when something lies
 * in it that no archive may bring. Needs root, and is not confined.
 */
#include "base/auto.h"
#include "scratch.h"
#include "tar_input.h"
#include "unpacked.h"
#include "worker_parts.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int null_fd = -1;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	scratch_make();
	no_large_files();
	null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return null_fd < 0;
}

static int apply(struct job *j, const uint8_t *data, size_t n)
{
	static struct supply_fd from;
	AUTO_CLOSE int fd = input_fd(data, n);
	char diff[OCI_DIGEST_CAP];
	struct err e = { 0 };

	supply_fd_init(&from, fd);
	return layer_apply(j, &from.supply, diff, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct job job;
	struct report report = { .fd = null_fd };
	size_t half = n / 2 / TAR_BLOCK * TAR_BLOCK;
	AUTO_CLOSE int root_fd = unpacked_root();
	struct err e = { 0 };

	memset(&job, 0, sizeof(job));
	job.root_fd = root_fd;
	job.report = &report;
	job.archive.in_bytes = n;
	if (apply(&job, data, half) == 0 &&
	    apply(&job, data + half, n - half) == 0)
		(void)!later_apply(&job.dirs, root_fd, &e);
	job_done(&job);
	unpacked_check(root_fd);
	if (tree_remove(top_fd, "root") < 0)
		abort();
	return 0;
}
