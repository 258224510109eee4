/*
 * Words that the agent's file work is asked by (agent/file/job.c): words of
 * the input, each up to a zero, the first the name. What reaches a job is
 * within what it may be given; what does not is refused in one line.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../../src/agent/file/job.c"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS_MAX = 24 };

static int said_fd;
static unsigned reached;

static int check(const struct file_job *j, struct err *e)
{
	size_t i;

	reached++;
	assert(*j->path && (!j->to || *j->to));
	assert(!j->has_mode || j->mode <= FILE_MODE_MAX);
	assert(j->depth <= INT64_MAX && j->limit <= INT64_MAX);
	assert(j->first <= INT64_MAX && j->last <= INT64_MAX);
	assert(j->uid < UINT32_MAX && j->gid < UINT32_MAX);
	assert(!j->within || *j->within == '/');
	assert(j->n_attrs <= FILE_ATTRS_MAX);
	for (i = 0; i < j->n_attrs; i++) {
		assert(str_starts(j->attr[i], "user."));
		assert(strcspn(j->attr[i], "=") <= FILE_ATTR_NAME_MAX);
		assert(strchr(j->attr[i], '='));
	}
	return j->follow ? err_set(e, ENOENT, "%s: no", j->path) : 0;
}

int within_choose(const char *dir, struct err *e)
{
	(void)dir;
	(void)e;
	return 0;
}

#define JOB(name)                                               \
	int job_##name(const struct file_job *j, struct err *e) \
	{                                                       \
		return check(j, e);                             \
	}
JOB(stat)
JOB(list)
JOB(read)
JOB(write)
JOB(mkdir)
JOB(move)
JOB(copy)
JOB(remove)
JOB(chmod)
JOB(watch)
JOB(pack)
JOB(unpack)
JOB(merge)
JOB(lay)
JOB(door)

void entry_details(void)
{
}

int owner_choose(const char *word, struct err *e)
{
	return *word ? 0 : err_set(e, EINVAL, "no owner");
}

int out_flush(struct err *e)
{
	(void)e;
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	said_fd = memfd_create("said", MFD_CLOEXEC);
	return said_fd < 0;
}

/* With its descriptor 2 in a file, to be looked at. */
static int run(int argc, char **argv)
{
	AUTO_CLOSE int err_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	int r;

	if (err_fd < 0 || ftruncate(said_fd, 0) < 0 ||
	    lseek(said_fd, 0, SEEK_SET) < 0 || dup2(said_fd, STDERR_FILENO) < 0)
		abort();
	r = builtin_file(argc, argv);
	if (dup2(err_fd, STDERR_FILENO) < 0)
		abort();
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[WORDS_MAX + 1] = { 0 }, text[2048];
	int argc = 0, r;
	size_t n;

	if (size == 0 || size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	for (n = 0; n < size && argc < WORDS_MAX; n += strlen(text + n) + 1)
		argv[argc++] = text + n;
	reached = 0;
	r = run(argc, argv);
	assert(reached <= 1 && (r == 0 || r == 1));
	assert(r == 1 || reached == 1);
	/* Whoever is refused is told why, but for a name that is none. */
	n = (size_t)lseek(said_fd, 0, SEEK_END);
	assert((r == 1 && find(argv[0])) == (n > 0));
	return 0;
}
