#include "worker/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

enum { RACE_TRIES = 1024 };

static int open_resolved(int dir_fd, const char *path, int flags, mode_t mode,
			 __u64 resolve)
{
	struct open_how how = {
		.flags = (__u64)(unsigned)flags | O_CLOEXEC,
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = resolve | RESOLVE_NO_MAGICLINKS,
	};
	long fd;
	int i = 0;

	do /* EAGAIN: something was mounted or moved, anywhere on the host */
		fd = syscall(SYS_openat2, dir_fd, *path ? path : ".", &how,
			     sizeof(how));
	while (fd < 0 && errno == EAGAIN && ++i < RACE_TRIES);
	return fd < 0 ? -errno : (int)fd;
}

int tree_open(int root_fd, const char *path, int flags, mode_t mode)
{
	return open_resolved(root_fd, path, flags | O_NOFOLLOW, mode,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
				     RESOLVE_NO_XDEV);
}

int tree_open_inside(int root_fd, const char *path, int flags, mode_t mode)
{
	return open_resolved(root_fd, path, flags, mode, RESOLVE_IN_ROOT);
}

/* Opens the directory `name` of `*dir_fd`, made if missing, in its place. */
static int step_down(int *dir_fd, const char *name)
{
	int fd = tree_open(*dir_fd, name, O_PATH | O_DIRECTORY, 0);

	if (fd == -ENOENT) {
		if (mkdirat(*dir_fd, name, 0755) < 0)
			return -errno;
		fd = tree_open(*dir_fd, name, O_PATH | O_DIRECTORY, 0);
	}
	if (fd < 0)
		return fd;
	close(*dir_fd);
	*dir_fd = fd;
	return 0;
}

static int make_parents(int root_fd, char *path)
{
	AUTO_CLOSE int fd = tree_open(root_fd, "", O_PATH | O_DIRECTORY, 0);
	char *name;
	int r;

	if (fd < 0)
		return fd;
	while ((name = strsep(&path, "/"))) {
		r = step_down(&fd, name);
		if (r < 0)
			return r;
	}
	return take_fd(&fd);
}

static int parent_failed(const struct path *p, int r, struct err *e)
{
	if (r == -ELOOP || r == -ENOTDIR || r == -EEXIST)
		return err_set(e, EBADMSG,
			       "entry %.100s: its directory is a link or a "
			       "file in this archive",
			       p->s);
	errno = -r;
	return err_sys(e, "entry %.100s: open its directory", p->s);
}

static void parent_path(const struct path *p, char dir[ENTRY_PATH_MAX + 1])
{
	size_t n = p->name_at ? p->name_at - 1 : 0;

	memcpy(dir, p->s, n);
	dir[n] = '\0';
}

int tree_parent(int root_fd, const struct path *p, struct err *e)
{
	char dir[ENTRY_PATH_MAX + 1];
	int fd;

	parent_path(p, dir);
	fd = tree_open(root_fd, dir, O_PATH | O_DIRECTORY, 0);
	if (fd == -ENOENT)
		fd = make_parents(root_fd, dir);
	return fd >= 0 ? fd : parent_failed(p, fd, e);
}

/* Each from the root: a link may lead anywhere below it. */
static int make_parents_inside(int root_fd, char *dir)
{
	AUTO_CLOSE int fd = tree_open(root_fd, "", O_PATH | O_DIRECTORY, 0);
	char *name = dir, *end;

	while (fd >= 0 && name) {
		int sub;

		end = strchr(name, '/');
		if (end)
			*end = '\0';
		sub = tree_open_inside(root_fd, dir, O_PATH | O_DIRECTORY, 0);
		if (sub == -ENOENT) {
			if (mkdirat(fd, name, 0755) < 0)
				return -errno;
			sub = tree_open_inside(root_fd, dir,
					       O_PATH | O_DIRECTORY, 0);
		}
		auto_close(&fd);
		fd = sub;
		if (end)
			*end = '/';
		name = end ? end + 1 : NULL;
	}
	return fd < 0 ? fd : take_fd(&fd);
}

/*
 * One pass over a directory: removes all but directories that are not empty.
 * 1 when there is one, with its name.
 */
static int clear_pass(int dir_fd, char sub[ENTRY_NAME_MAX + 1])
{
	AUTO_DIR DIR *d = NULL;
	const struct dirent *de;
	int fd = tree_open(dir_fd, "", O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while ((errno = 0, de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 ||
		    strcmp(de->d_name, "..") == 0)
			continue;
		if (unlinkat(fd, de->d_name, 0) == 0)
			continue;
		if (errno != EISDIR && errno != EPERM)
			return -errno;
		if (unlinkat(fd, de->d_name, AT_REMOVEDIR) == 0)
			continue;
		if (errno != ENOTEMPTY)
			return -errno;
		snprintf(sub, ENTRY_NAME_MAX + 1, "%s", de->d_name);
		return 1;
	}
	return -errno;
}

/* Nobody else moves what is being filled: ".." is where we came from. */
static int open_up(int dir_fd)
{
	return open_resolved(dir_fd, "..", O_PATH | O_DIRECTORY, 0,
			     RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

/*
 * Descends into the first directory that is not empty and comes back up when
 * it is: one descriptor however deep the tree, and no recursion.
 */
int tree_clear(int dir_fd)
{
	AUTO_CLOSE int fd = tree_open(dir_fd, "", O_PATH | O_DIRECTORY, 0);
	char sub[ENTRY_NAME_MAX + 1] = "";
	size_t depth = 0;

	for (;;) {
		int r = fd < 0 ? fd : clear_pass(fd, sub), next;

		if (r < 0 || (r == 0 && depth == 0))
			return r;
		next = r ? tree_open(fd, sub, O_PATH | O_DIRECTORY, 0)
			 : open_up(fd);
		depth += r ? 1 : (size_t)-1;
		auto_close(&fd);
		fd = next;
	}
}

int tree_remove(int dir_fd, const char *name)
{
	AUTO_CLOSE int fd = -1;
	int r;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY)
		return -errno;
	fd = tree_open(dir_fd, name, O_PATH | O_DIRECTORY, 0);
	r = fd < 0 ? fd : tree_clear(fd);
	if (r < 0)
		return r;
	return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/*
 * Over links a tree could become deeper than any name is long: as deep as
 * other entries, it has to be.
 */
static int check_depth(int root_fd, int dir_fd)
{
	AUTO_CLOSE int fd = tree_open(dir_fd, "", O_PATH | O_DIRECTORY, 0);
	struct stat root, st;
	int i, up;

	if (fstat(root_fd, &root) < 0)
		return -errno;
	for (i = 0; i < ENTRY_DEPTH_MAX && fd >= 0; i++) {
		if (fstat(fd, &st) < 0)
			return -errno;
		if (st.st_ino == root.st_ino && st.st_dev == root.st_dev)
			return 0;
		up = open_up(fd);
		auto_close(&fd);
		fd = up;
	}
	return fd < 0 ? fd : -EMLINK;
}

static int open_followed(int root_fd, char *dir)
{
	AUTO_CLOSE int fd =
		tree_open_inside(root_fd, dir, O_PATH | O_DIRECTORY, 0);
	int r;

	if (fd == -ENOENT)
		fd = make_parents_inside(root_fd, dir);
	r = fd < 0 ? fd : check_depth(root_fd, fd);
	return r < 0 ? r : take_fd(&fd);
}

int tree_parent_inside(int root_fd, const struct path *p, struct err *e)
{
	char dir[ENTRY_PATH_MAX + 1];
	int fd;

	parent_path(p, dir);
	fd = tree_open(root_fd, dir, O_PATH | O_DIRECTORY, 0);
	if (fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR)
		fd = open_followed(root_fd, dir);
	if (fd == -EMLINK)
		return err_set(e, EBADMSG,
			       "entry %.100s: over 128 directories deep", p->s);
	return fd >= 0 ? fd : parent_failed(p, fd, e);
}
