/*
 * carrel-worker: everything that parses foreign archives or looks at foreign
 * trees, in a process that can do nothing else. `carrel-worker unpack` fills
 * an image's volume from a tar on stdin, `carrel-worker apply` from a snapshot;
 * `carrel-worker view` looks at states of disks, `carrel-worker base` makes
 * the disk of an image for microVMs; descriptors and answers are in
 * wire/worker.h.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "wire/worker.h"
#include "worker/apply.h"
#include "worker/base.h"
#include "worker/confine.h"
#include "worker/count.h"
#include "worker/look.h"
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

static int complete(int root_fd, struct err *e)
{
	int r = prepare(root_fd, WORKER_SHIM_FD, e);

	if (r < 0)
		return err_wrap(e, "prepare the image");
	return syncfs(root_fd) < 0 ? err_sys(e, "write the image to disk") : 0;
}

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
	r = complete(j->root_fd, e);
	if (r < 0)
		return r;
	log_info("event=unpacked entries=%llu bytes=%llu skipped=%llu",
		 (unsigned long long)j->n.entries,
		 (unsigned long long)j->n.bytes,
		 (unsigned long long)j->n.skipped);
	return report_done(j->report, j->n.entries, j->n.bytes, e);
}

static int unpack_image(struct report *report, struct err *e)
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

static int run_unpack(const char *arg)
{
	struct report report = { .fd = STDOUT_FILENO };
	struct err e = { 0 };

	(void)arg;
	if (unpack_image(&report, &e) == 0)
		return 0;
	report_error(&report, &e);
	return 1;
}

static int apply_state(struct report *report, struct err *e)
{
	AUTO_CLOSE int root_fd = confine_apply(e);
	uint64_t entries = 0, bytes = 0;
	int r;

	if (root_fd < 0)
		return err_wrap(e, "confine the worker");
	r = apply(root_fd, WORKER_STATE_FD, WORKER_UPPER_FD, report, e);
	if (r == 0)
		r = complete(root_fd, e);
	if (r == 0)
		r = count_tree(root_fd, report, &entries, &bytes, e);
	if (r < 0)
		return r;
	log_info("event=applied entries=%llu bytes=%llu",
		 (unsigned long long)entries, (unsigned long long)bytes);
	return report_done(report, entries, bytes, e);
}

static int run_apply(const char *arg)
{
	struct report report = { .fd = STDOUT_FILENO };
	struct err e = { 0 };

	(void)arg;
	if (apply_state(&report, &e) == 0)
		return 0;
	report_error(&report, &e);
	return 1;
}

static int make_base(struct report *report, const char *room, struct err *e)
{
	uint64_t entries = 0, bytes = 0, max;
	int r = confine_base(e);

	if (r < 0)
		return err_wrap(e, "confine the worker");
	if (parse_u64(room, UINT64_MAX, &max) < 0)
		return err_set(e, EINVAL, "not a number of bytes: %s", room);
	r = base_make(WORKER_ROOT_FD, WORKER_BASE_FD, max, &entries, &bytes, e);
	if (r < 0)
		return r;
	log_info("event=based entries=%llu bytes=%llu",
		 (unsigned long long)entries, (unsigned long long)bytes);
	return report_done(report, entries, bytes, e);
}

static int run_base(const char *room)
{
	struct report report = { .fd = STDOUT_FILENO };
	struct err e = { 0 };

	if (make_base(&report, room, &e) == 0)
		return 0;
	report_error(&report, &e);
	return 1;
}

static int view_states(struct look *l, const char *sides, struct err *e)
{
	int r = look_describe(l, sides, e);

	if (r == 0)
		r = confine_viewer(2 * (int)l->n, e);
	if (r < 0)
		return err_wrap(e, "confine the worker");
	return look(l, STDIN_FILENO, e);
}

static int run_view(const char *sides)
{
	static struct look l = { .say.fd = STDOUT_FILENO };
	struct err e = { 0 };
	int r = view_states(&l, sides, &e);
	int told = say_end(&l.say, &e);

	buf_done(&l.say.b);
	return r < 0 || told < 0;
}

static const struct {
	const char *name;
	int (*run)(const char *arg); /* its exit code */
} modes[] = {
	{ "unpack", run_unpack },
	{ "apply", run_apply },
	{ "view", run_view },
	{ "base", run_base },
};

int main(int argc, char **argv)
{
	size_t i;

	log_init("worker", LOG_INFO);
	for (i = 0; argc > 1 && i < ARRAY_LEN(modes); i++)
		if (strcmp(argv[1], modes[i].name) == 0)
			return modes[i].run(argc > 2 ? argv[2] : "");
	die("usage: worker MODE (the warden starts this program)");
}
