/*
 * A copy of a directory and all that is in it, where the file system has no
 * snapshots. Data is shared where it can be (FICLONE), else copied, holes left
 * out. What is copied was a sandbox's: names, links, depth and numbers are an
 * attacker's, but nobody changes it meanwhile.
 *
 * No link is followed, nothing but regular files and directories is opened, no
 * mount is entered. Depth costs memory, not descriptors or stack: the way back
 * up is "..", which must be the directory that we came from. Files with several
 * names are found again through links that are put aside, by inode number, and
 * removed at the end.
 */
#include "store/copytree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/auto.h"
#include "base/buf.h"

enum { XATTR_NAMES = 64 * 1024, XATTR_VALUE = 64 * 1024, COPY = 1 << 20 };

#define ASIDE ".links"

/* A directory that is to be copied, in the one that is being copied. */
struct todo {
	struct todo *next;
	char name[];
};

/* A directory on the way down. */
struct level {
	struct level *up;
	struct stat st;
	struct todo *todo;
};

struct copy {
	struct level *at;
	int from_fd, to_fd; /* of `at` */
	int aside_fd;
	char *names, *value; /* of attributes */
};

static int open_dir(int dir_fd, const char *name)
{
	return openat(dir_fd, name,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- facts --- */

static int copy_xattr(struct copy *c, int from_fd, int to_fd, const char *name)
{
	ssize_t n = fgetxattr(from_fd, name, c->value, XATTR_VALUE);

	if (n < 0)
		return -errno;
	return fsetxattr(to_fd, name, c->value, (size_t)n, 0) < 0 ? -errno : 0;
}

static int copy_xattrs(struct copy *c, int from_fd, int to_fd)
{
	ssize_t n = flistxattr(from_fd, c->names, XATTR_NAMES), i;
	int r = 0;

	if (n < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (i = 0; i < n && r == 0; i += (ssize_t)strlen(c->names + i) + 1)
		r = copy_xattr(c, from_fd, to_fd, c->names + i);
	return r;
}

/* The owner first: a change of it takes mode bits away. */
static int copy_facts(int fd, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };

	if (fchown(fd, st->st_uid, st->st_gid) < 0 ||
	    fchmod(fd, st->st_mode & 07777) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* --- files --- */

static int copy_range(int from_fd, int to_fd, off_t at, off_t end)
{
	off_t to = at;

	while (at < end) {
		size_t want = end - at < COPY ? (size_t)(end - at) : COPY;
		ssize_t n = copy_file_range(from_fd, &at, to_fd, &to, want, 0);

		if (n <= 0)
			return n < 0 ? -errno : 0;
	}
	return 0;
}

static int copy_data(int from_fd, int to_fd, off_t size)
{
	off_t at = 0, end;
	int r = 0;

	if (ioctl(to_fd, FICLONE, from_fd) == 0)
		return 0;
	if (ftruncate(to_fd, size) < 0)
		return -errno;
	while (r == 0 && at < size) {
		at = lseek(from_fd, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO ? 0 : -errno;
		end = lseek(from_fd, at, SEEK_HOLE);
		if (end < 0)
			return -errno;
		r = copy_range(from_fd, to_fd, at, end);
		at = end;
	}
	return r;
}

static int copy_file(struct copy *c, const char *name, const struct stat *st)
{
	AUTO_CLOSE int from_fd =
		openat(c->from_fd, name,
		       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_CLOSE int to_fd = -1;
	struct stat now;
	int r;

	if (from_fd < 0 || fstat(from_fd, &now) < 0)
		return -errno;
	if (!S_ISREG(now.st_mode) || now.st_ino != st->st_ino)
		return -ESTALE;
	to_fd = openat(c->to_fd, name,
		       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       0600);
	if (to_fd < 0)
		return -errno;
	r = copy_data(from_fd, to_fd, st->st_size);
	if (r == 0)
		r = copy_xattrs(c, from_fd, to_fd);
	return r < 0 ? r : copy_facts(to_fd, st);
}

static int copy_link(struct copy *c, const char *name)
{
	char target[4097];
	ssize_t n = readlinkat(c->from_fd, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlinkat(target, c->to_fd, name) < 0 ? -errno : 0;
}

/* Whiteouts, fifos, sockets, links: no content, and nothing to open. */
static int copy_special(struct copy *c, const char *name, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	int r;

	if (S_ISLNK(st->st_mode))
		r = copy_link(c, name);
	else
		r = mknodat(c->to_fd, name, st->st_mode, st->st_rdev) < 0
			    ? -errno
			    : 0;
	if (r < 0)
		return r;
	if (fchownat(c->to_fd, name, st->st_uid, st->st_gid,
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!S_ISLNK(st->st_mode) &&
	     fchmodat(c->to_fd, name, st->st_mode & 07777, 0) < 0) ||
	    utimensat(c->to_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int copy_plain(struct copy *c, const char *name, const struct stat *st)
{
	char aside[32];
	int r;

	snprintf(aside, sizeof(aside), "%llu", (unsigned long long)st->st_ino);
	if (st->st_nlink > 1 &&
	    linkat(c->aside_fd, aside, c->to_fd, name, 0) == 0)
		return 0;
	r = S_ISREG(st->st_mode) ? copy_file(c, name, st)
				 : copy_special(c, name, st);
	if (r < 0 || st->st_nlink < 2)
		return r;
	return linkat(c->to_fd, name, c->aside_fd, aside, 0) < 0 ? -errno : 0;
}

/* --- directories --- */

static int copy_entry(struct copy *c, const char *name)
{
	struct stat st;
	struct todo *t;
	size_t n = strlen(name) + 1;

	if (fstatat(c->from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return copy_plain(c, name, &st);
	if (st.st_dev != c->at->st.st_dev)
		return -EXDEV;
	if (mkdirat(c->to_fd, name, 0700) < 0)
		return -errno;
	t = xcalloc(1, sizeof(*t) + n);
	memcpy(t->name, name, n);
	t->next = c->at->todo;
	c->at->todo = t;
	return 0;
}

/* Everything but what is in directories below: these come next. */
static int copy_level(struct copy *c)
{
	AUTO_CLOSE int fd = open_dir(c->from_fd, ".");
	AUTO_DIR DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;
	int r = 0;

	if (!dir)
		return -errno;
	take_fd(&fd);
	while (r == 0 && (errno = 0, d = readdir(dir)) != NULL)
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = copy_entry(c, d->d_name);
	return r == 0 && errno != 0 ? -errno : r;
}

/* Takes the descriptors in any case. */
static int enter(struct copy *c, int from_fd, int to_fd)
{
	struct level *l = xcalloc(1, sizeof(*l));

	l->up = c->at;
	c->at = l;
	auto_close(&c->from_fd);
	auto_close(&c->to_fd);
	c->from_fd = from_fd;
	c->to_fd = to_fd;
	if (from_fd < 0 || to_fd < 0 || fstat(from_fd, &l->st) < 0)
		return -errno;
	return copy_level(c);
}

static int down(struct copy *c)
{
	struct todo *t = c->at->todo;
	int from_fd = open_dir(c->from_fd, t->name);
	int to_fd = open_dir(c->to_fd, t->name);

	c->at->todo = t->next;
	free(t);
	return enter(c, from_fd, to_fd);
}

static void drop_level(struct copy *c)
{
	struct level *l = c->at;

	while (l->todo) {
		struct todo *t = l->todo;

		l->todo = t->next;
		free(t);
	}
	c->at = l->up;
	free(l);
}

/* The directory is complete: its facts, then back to the one above. */
static int up(struct copy *c)
{
	int r = copy_xattrs(c, c->from_fd, c->to_fd), from_fd, to_fd;
	struct stat st;

	if (r == 0)
		r = copy_facts(c->to_fd, &c->at->st);
	drop_level(c);
	if (r < 0 || !c->at)
		return r;
	from_fd = open_dir(c->from_fd, "..");
	to_fd = open_dir(c->to_fd, "..");
	auto_close(&c->from_fd);
	auto_close(&c->to_fd);
	c->from_fd = from_fd;
	c->to_fd = to_fd;
	if (from_fd < 0 || to_fd < 0 || fstat(from_fd, &st) < 0)
		return -errno;
	return st.st_ino == c->at->st.st_ino && st.st_dev == c->at->st.st_dev
		       ? 0
		       : -ESTALE;
}

static int copy_all(struct copy *c, int from_fd, int to_fd)
{
	int r = enter(c, open_dir(from_fd, "."), open_dir(to_fd, "."));

	while (r == 0 && c->at)
		r = c->at->todo ? down(c) : up(c);
	while (c->at)
		drop_level(c);
	auto_close(&c->from_fd);
	auto_close(&c->to_fd);
	return r;
}

int copy_tree(const struct store_ops *ops, int from_fd, int dir_fd,
	      const char *name)
{
	AUTO_CLOSE int to_fd = open_dir(dir_fd, name), aside_fd = -1;
	AUTO_FREE char *names = xcalloc(1, XATTR_NAMES);
	AUTO_FREE char *value = xcalloc(1, XATTR_VALUE);
	struct copy c = {
		.from_fd = -1, .to_fd = -1, .names = names, .value = value
	};
	int r;

	if (to_fd < 0 || (mkdirat(dir_fd, ASIDE, 0700) < 0 && errno != EEXIST))
		return -errno;
	aside_fd = c.aside_fd = open_dir(dir_fd, ASIDE);
	r = aside_fd < 0 ? -errno : copy_all(&c, from_fd, to_fd);
	return r < 0 ? r : sweep_dir(ops, dir_fd, ASIDE);
}
