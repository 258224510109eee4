/*
 * The disk of another life, laid over an image (host.lay): a tar that somebody
 * else's machine made. A crash, too: anything that appears or changes beside
 * its root, and a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The agent's files are not in the library. */
#include "agent/file/lay.c"
#include "agent/file/out.c"
#include "agent/file/sparse.c"
#include "agent/file/tar_in.c"
#include "agent/file/tree.c"
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
		if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ||
		    S_ISSOCK(st.st_mode))
			abort();
		if (S_ISDIR(st.st_mode))
			check_tree(dir_open(dir_fd, name, true));
	}
}

/* What a link of the root leads to is as it was. */
static void check_victim(void)
{
	if (unlinkat(top_fd, "victim/file", 0) < 0 ||
	    unlinkat(top_fd, "victim", AT_REMOVEDIR) < 0)
		abort();
}

static void put(const char *path)
{
	AUTO_CLOSE int fd = openat(top_fd, path, O_WRONLY | O_CREAT, 0644);

	if (fd < 0)
		abort();
}

static void make(void)
{
	static const char *const dirs[] = { "root", "root/d", "victim" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(top_fd, dirs[i], 0755) < 0)
			abort();
	put("root/a");
	put("root/d/b");
	put("victim/file");
	if (symlinkat("../victim", top_fd, "root/l") < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	AUTO_CLOSE int fd = input_fd(data, n);
	char root[sizeof(top) + 8];
	const struct file_job j = { .path = root };
	struct err e = { 0 };
	int r;

	make();
	snprintf(root, sizeof(root), "%s/root", top);
	if (dup2(fd, STDIN_FILENO) < 0)
		abort();
	notes = 0;
	r = job_lay(&j, &e);
	if (r < 0 && (e.code != -r || !e.msg[0]))
		abort();
	err_clear(&e);
	if (out_flush(&e) < 0)
		abort();
	check_tree(openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	check_victim();
	if (tree_unlink(top_fd, "root", "root", &e) < 0)
		abort();
	return 0;
}
