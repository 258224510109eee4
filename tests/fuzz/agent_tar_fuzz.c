/*
 * The agent's unpacking of tars into a directory of its own. A crash, too:
 * anything that appears or changes beside that directory, a device, a set-id
 * file. Checksums are made right first, or nothing would be looked at.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The agent's files are not in the library. */
#include "agent/file/out.c"
#include "agent/file/owner.c"
#include "agent/file/place.c"
#include "agent/file/tar_in.c"
#include "agent/file/tree.c"
#include "agent/file/unpack.c"
#include "agent/users.c"
#include "large.h"
#include "scratch.h"
#include "tar_input.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)argc;
	(void)argv;
	scratch_make();
	no_large_files();
	if (dup2(null_fd, STDOUT_FILENO) < 0)
		abort();
	return 0;
}

static void check_tree(int dir_fd)
{
	AUTO_DIR DIR *d = dir_stream(dir_fd);
	const char *name;
	struct stat st;

	if (!d)
		abort();
	while ((name = dir_next(d))) {
		if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			abort();
		if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ||
		    S_ISSOCK(st.st_mode) || st.st_mode & (S_ISUID | S_ISGID))
			abort();
		if (S_ISDIR(st.st_mode))
			check_tree(dir_open(dir_fd, name, true));
	}
}

/* Nothing but "root" and "victim", which is empty. */
static void check_top(void)
{
	AUTO_DIR DIR *d = dir_stream(dir_open(top_fd, ".", true));
	const char *name;

	while (d && (name = dir_next(d)))
		if (strcmp(name, "root") != 0 && strcmp(name, "victim") != 0)
			abort();
	if (!d || unlinkat(top_fd, "victim", AT_REMOVEDIR) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	AUTO_CLOSE int tar_fd = input_fd(data, n);
	AUTO_CLOSE int root_fd = -1;
	struct err e = { 0 };
	int r;

	if (mkdirat(top_fd, "root", 0755) < 0 ||
	    mkdirat(top_fd, "victim", 0755) < 0 ||
	    dup2(tar_fd, STDIN_FILENO) < 0)
		abort();
	root_fd = openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	notes = 0;
	r = unpack_into(root_fd, &e);
	if (r < 0 && e.code != -r)
		abort();
	err_clear(&e);
	if (out_flush(&e) < 0)
		abort();
	check_tree(dup(root_fd));
	check_top();
	if (tree_unlink(top_fd, "root", "root", &e) < 0)
		abort();
	return 0;
}
