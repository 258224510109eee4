/*
 * carrel-worker: everything that parses foreign archives, in a process that
 * can do nothing else. `carrel-worker unpack` fills an image's volume from a
 * tar on stdin; descriptors and answers are in wire/worker.h.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "wire/worker.h"
#include "worker/confine.h"
#include "worker/prepare.h"
#include "worker/unpack.h"

#ifdef SANITIZED
/*
 * Leaks are looked for where that is possible, in the fuzz target and the unit
 * tests: here the checker finds no /proc and may start no helper.
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static int fill(struct job *j, struct err *e)
{
	int r;

	r = unpack(j, STDIN_FILENO, e);
	if (r < 0)
		return r;
	if (j->n.executables == 0)
		return err_set(e, EBADMSG,
			       "not a root file system: no executable file in "
			       "the archive");
	r = prepare(j->root_fd, WORKER_SHIM_FD, e);
	if (r < 0)
		return err_wrap(e, "prepare the image");
	if (syncfs(j->root_fd) < 0)
		return err_sys(e, "write the image to disk");
	log_info("event=unpacked entries=%llu bytes=%llu skipped=%llu",
		 (unsigned long long)j->n.entries,
		 (unsigned long long)j->n.bytes,
		 (unsigned long long)j->n.skipped);
	return report_done(j->report, j->n.entries, j->n.bytes, e);
}

static int work(struct report *report, struct err *e)
{
	static struct job job; /* too large for a stack */
	int r;

	r = source_preload(e);
	if (r < 0)
		return r;
	job.root_fd = confine(e);
	if (job.root_fd < 0)
		return err_wrap(e, "confine the worker");
	job.report = report;
	r = fill(&job, e);
	job_done(&job);
	return r;
}

int main(int argc, char **argv)
{
	struct report report = { .fd = STDOUT_FILENO };
	struct err e = { 0 };

	log_init("worker", LOG_INFO);
	if (argc != 2 || strcmp(argv[1], "unpack") != 0)
		die("usage: worker unpack (the warden starts this program)");
	if (work(&report, &e) == 0)
		return 0;
	report_error(&report, &e);
	return 1;
}
