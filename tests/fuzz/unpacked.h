/*
 * What an unpacker may leave behind, whatever it was given: nothing but the
 * directory "root" of the scratch file system, and in it no device, no socket,
 * no set-id file.
 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "large.h"
#include "scratch.h"
#include "worker/limits.h"

enum { DEPTH_MAX = 2 * ENTRY_DEPTH_MAX + 8 };

static int unpacked_root(void)
{
	if (mkdirat(top_fd, "root", 0755) < 0)
		abort();
	return openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

static void unpacked_check(int root_fd)
{
	check_tree(dup(root_fd), 0);
	check_top();
}
