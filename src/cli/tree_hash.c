#include "cli/tree_hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

enum { DEPTH_MAX = 64 };

static int hash_at(int dir_fd, const char *name, struct sha256 *h,
		   unsigned depth, struct err *e);

static int hash_content(int fd, const char *name, struct sha256 *h,
			struct err *e)
{
	char block[64 * 1024];
	ssize_t n;

	while ((n = read(fd, block, sizeof(block))) > 0)
		sha256_add(h, block, (size_t)n);
	return n < 0 ? err_sys(e, "read %.100s", name) : 0;
}

static int hash_link(int dir_fd, const char *name, struct sha256 *h,
		     struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target));

	if (n < 0)
		return err_sys(e, "read the link %.100s", name);
	sha256_add(h, target, (size_t)n);
	return 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int hash_dir(int dir_fd, const char *name, struct sha256 *h,
		    unsigned depth, struct err *e)
{
	AUTO_CLOSE int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **list = NULL;
	int i, n, r = 0;

	if (depth == DEPTH_MAX)
		return err_set(e, ELOOP, "%.100s: over 64 directories deep",
			       name);
	n = fd < 0 ? -1 : scandirat(fd, ".", &list, NULL, by_bytes);
	if (n < 0)
		return err_sys(e, "open %.100s", name);
	for (i = 0; i < n; i++) {
		const char *sub = list[i]->d_name;

		if (r == 0 && strcmp(sub, ".") != 0 && strcmp(sub, "..") != 0)
			r = hash_at(fd, sub, h, depth + 1, e);
		free(list[i]);
	}
	free(list);
	return r;
}

/* Every name ends at its NUL, and is followed by what makes it complete. */
static int hash_at(int dir_fd, const char *name, struct sha256 *h,
		   unsigned depth, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	char head[64];
	int n, r = 0;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "%.100s", name);
	/* Where it starts may be called anything. */
	if (depth > 0)
		sha256_add(h, name, strlen(name) + 1);
	n = snprintf(head, sizeof(head), "%o %lld", (unsigned)st.st_mode,
		     S_ISREG(st.st_mode) ? (long long)st.st_size : 0LL);
	sha256_add(h, head, (size_t)n + 1);
	if (S_ISLNK(st.st_mode))
		return hash_link(dir_fd, name, h, e);
	if (S_ISREG(st.st_mode)) {
		fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return err_sys(e, "open %.100s", name);
		return hash_content(fd, name, h, e);
	}
	if (S_ISDIR(st.st_mode)) {
		r = hash_dir(dir_fd, name, h, depth, e);
		sha256_add(h, "", 1); /* the end of a directory */
	}
	return r;
}

int tree_hash(const char *path, struct sha256 *h, struct err *e)
{
	return hash_at(AT_FDCWD, path, h, 0, e);
}
