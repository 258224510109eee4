/*
 * What `carrel cp` does with a tar that a sandbox sends. A crash, too:
 * anything that appears or changes beside the directory, a device, a set-id
 * file. Checksums are made right first, or nothing would be looked at.
 */
#include <dirent.h>
#include <stdarg.h>

/* The command line's files are not in the library. */
#include "cli/unpack.c"
#include "scratch.h"
#include "tar_input.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

void complain(const char *fmt, ...)
{
	(void)fmt;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	scratch_make();
	return 0;
}

/* Takes the tree away; aborts at what must not be there. */
static void take_away(int at, const char *name)
{
	int fd = openat(at, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fdopendir(fd);
	struct dirent *ent;
	struct stat st;

	if (!d)
		abort();
	while ((ent = readdir(d))) {
		if (strcmp(ent->d_name, ".") == 0 ||
		    strcmp(ent->d_name, "..") == 0)
			continue;
		if (fstatat(fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			abort();
		if (S_ISDIR(st.st_mode)) {
			take_away(fd, ent->d_name);
			continue;
		}
		if ((!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) ||
		    st.st_mode &
			    (S_ISUID | S_ISGID | S_ISVTX) * S_ISREG(st.st_mode))
			abort();
		if (unlinkat(fd, ent->d_name, 0) < 0)
			abort();
	}
	closedir(d);
	if (unlinkat(at, name, AT_REMOVEDIR) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	AUTO_CLOSE int tar_fd = input_fd(data, n);
	struct err e = { 0 };
	int root_fd, r;

	if (mkdirat(top_fd, "root", 0755) < 0 ||
	    mkdirat(top_fd, "victim", 0755) < 0)
		abort();
	root_fd = openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = archive_unpack(tar_fd, root_fd, &e);
	if (r < 0 && e.code != -r)
		abort();
	close(root_fd);
	take_away(top_fd, "root");
	/* Empty, and nothing else beside it. */
	if (unlinkat(top_fd, "victim", AT_REMOVEDIR) < 0)
		abort();
	return 0;
}
