/*
 * Fuzzes the unpacking of tars, and the preparation of what came out, into a
 * directory of its own. Besides the sanitizers' findings it is a crash when
 * anything appears beside that directory, or when something lies in it that
 * no archive may bring: a device, a set-id file.
 *
 * Needs root for owners; nothing here is confined, so run it where a write
 * outside would be noticed and hurt nobody.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
/* The worker's files are not in the library. */
#include "scratch.h"
#include "worker/entry.c"
#include "worker/later.c"
#include "worker/path.c"
#include "worker/prepare.c"
#include "worker/report.c"
#include "worker/source.c"
#include "worker/tree.c"
#include "worker/unpack.c"
#include "worker/users.c"

enum { DEPTH_MAX = ENTRY_DEPTH_MAX + 8 };

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
	const struct rlimit no_large = { 1 << 20, 1 << 20 };

	(void)argc;
	(void)argv;
	scratch_make();
	null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	shim_fd = bytes_fd("shim", 4);
	/* Only what is unpacked: libFuzzer's own files are small. */
	if (setrlimit(RLIMIT_FSIZE, &no_large) < 0)
		abort();
	signal(SIGXFSZ, SIG_IGN);
	return null_fd < 0;
}

static void check_tree(int dir_fd, int depth)
{
	AUTO_DIR DIR *d = fdopendir(dir_fd);
	const struct dirent *de;
	struct stat st;

	if (!d || depth > DEPTH_MAX)
		abort();
	while ((de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 ||
		    strcmp(de->d_name, "..") == 0)
			continue;
		if (fstatat(dir_fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			abort();
		if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ||
		    S_ISSOCK(st.st_mode) || st.st_uid >= ID_LIMIT ||
		    st.st_gid >= ID_LIMIT)
			abort();
		if (S_ISREG(st.st_mode) && (st.st_mode & (S_ISUID | S_ISGID)))
			abort();
		if (S_ISDIR(st.st_mode))
			check_tree(openat(dir_fd, de->d_name,
					  O_RDONLY | O_DIRECTORY | O_CLOEXEC),
				   depth + 1);
	}
}

/* Nothing but "root" may be in the top directory. */
static void check_top(void)
{
	AUTO_DIR DIR *d = fdopendir(dup(top_fd));
	const struct dirent *de;

	if (!d)
		abort();
	rewinddir(d);
	while ((de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 &&
		    strcmp(de->d_name, "..") != 0 &&
		    strcmp(de->d_name, "root") != 0)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct job job;
	struct report report = { .fd = null_fd };
	AUTO_CLOSE int tar_fd = bytes_fd(data, n);
	AUTO_CLOSE int root_fd = -1;
	struct err e = { 0 };

	if (mkdirat(top_fd, "root", 0755) < 0)
		abort();
	root_fd = openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	memset(&job, 0, sizeof(job));
	job.root_fd = root_fd;
	job.report = &report;
	if (unpack(&job, tar_fd, &e) == 0 && lseek(shim_fd, 0, SEEK_SET) == 0)
		(void)prepare(root_fd, shim_fd, &e);
	job_done(&job);
	check_tree(dup(root_fd), 0);
	check_top();
	if (tree_remove(top_fd, "root") < 0)
		abort();
	return 0;
}
