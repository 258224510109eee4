#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"

int dir_open(int at, const char *name, bool one_fs)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS |
			   (one_fs ? RESOLVE_NO_XDEV : 0),
	};
	long fd = syscall(SYS_openat2, at, name, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int open_within(int root_fd, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			   RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};
	long fd = syscall(SYS_openat2, root_fd, *path ? path : ".", &how,
			  sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

const char *path_split(const char *path, char dir[FILE_PATH_MAX + 1])
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	memcpy(dir, path, n);
	dir[n] = '\0';
	return slash ? slash + 1 : path;
}

DIR *dir_stream(int fd)
{
	DIR *d = fdopendir(fd);

	if (!d)
		auto_close(&fd);
	return d;
}

const char *dir_next(DIR *d)
{
	const struct dirent *de;

	do {
		errno = 0;
		de = readdir(d);
	} while (de && (strcmp(de->d_name, ".") == 0 ||
			strcmp(de->d_name, "..") == 0));
	return de ? de->d_name : NULL;
}

int rename_at(int from, const char *name, int to, const char *as,
	      bool overwrite)
{
	unsigned flags = overwrite ? 0 : RENAME_NOREPLACE;

	return syscall(SYS_renameat2, from, name, to, as, flags) < 0 ? -errno
								     : 0;
}

size_t path_push(struct buf *path, const char *name)
{
	size_t len = buf_len(path);

	if (len == 0 || buf_data(path)[len - 1] != '/')
		buf_puts(path, "/");
	buf_puts(path, name);
	buf_str(path);
	return len;
}

void path_pop(struct buf *path, size_t len)
{
	path->len = path->off + len;
	buf_str(path);
}

/*
 * One pass over a directory: unlinks all but directories that are not empty.
 * 1 when there is one, with its name.
 */
static int unlink_pass(int dir_fd, char sub[NAME_MAX + 1])
{
	AUTO_DIR DIR *d = NULL;
	const char *name;
	int fd = dir_open(dir_fd, ".", true);

	if (fd < 0)
		return fd;
	d = dir_stream(fd);
	if (!d)
		return -ENOMEM;
	sub[0] = '\0';
	while ((name = dir_next(d))) {
		int r = unlinkat(fd, name, 0);

		if (r < 0 && errno == EISDIR)
			r = unlinkat(fd, name, AT_REMOVEDIR);
		if (r == 0 || errno == ENOENT)
			continue;
		memcpy(sub, name, strnlen(name, NAME_MAX));
		sub[strnlen(name, NAME_MAX)] = '\0';
		return errno == ENOTEMPTY || errno == EEXIST ? 1 : -errno;
	}
	return -errno;
}

/* Where a removal is: below the directories in `up`, each as it was left. */
struct descent {
	int fd;
	struct buf up; /* struct stat, of which only device and number count */
	struct buf path;
};

static void descent_done(struct descent *d)
{
	auto_close(&d->fd);
	buf_done(&d->up);
	buf_done(&d->path);
}

static int go_down(struct descent *d, const char *name)
{
	struct stat st;
	int fd = dir_open(d->fd, name, true);

	if (fd < 0)
		return fd;
	if (fstat(d->fd, &st) < 0) {
		close(fd);
		return -errno;
	}
	buf_add(&d->up, &st, sizeof(st));
	path_push(&d->path, name);
	close(d->fd);
	d->fd = fd;
	return 0;
}

/*
 * By "..", so that one descriptor is enough however deep the tree is. If the
 * directory was moved away meanwhile, ".." is not where we came from, and
 * nothing of that place is ours to remove.
 */
static int go_up(struct descent *d)
{
	struct stat st, was;
	int fd = openat(d->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *slash;

	if (fd < 0)
		return -errno;
	d->up.len -= sizeof(was);
	memcpy(&was, d->up.p + d->up.len, sizeof(was));
	if (fstat(fd, &st) < 0 || st.st_dev != was.st_dev ||
	    st.st_ino != was.st_ino) {
		close(fd);
		return -EAGAIN;
	}
	slash = strrchr(buf_str(&d->path), '/');
	path_pop(&d->path, slash ? (size_t)(slash - buf_data(&d->path)) : 0);
	close(d->fd);
	d->fd = fd;
	return 0;
}

static int descend(struct descent *d, char sub[NAME_MAX + 1])
{
	for (;;) {
		int r = unlink_pass(d->fd, sub);

		if (r == 0 && buf_len(&d->up) == 0)
			return 0;
		if (r == 0) {
			sub[0] = '\0';
			r = go_up(d);
		} else if (r == 1) {
			r = go_down(d, sub);
		}
		if (r < 0)
			return r;
	}
}

int tree_unlink(int at, const char *name, const char *shown, struct err *e)
{
	AUTO(descent_done)
	struct descent d = { .fd = dir_open(at, name, true) };
	char sub[NAME_MAX + 1] = "";
	int r = d.fd < 0 ? d.fd : 0;

	buf_puts(&d.path, shown);
	if (r == 0)
		r = descend(&d, sub);
	if (r == 0 && unlinkat(at, name, AT_REMOVEDIR) < 0) {
		sub[0] = '\0';
		r = -errno;
	}
	if (r == 0)
		return 0;
	if (sub[0])
		path_push(&d.path, sub);
	if (r == -EAGAIN)
		return err_set(e, EBUSY,
			       "%.160s was moved while it was removed",
			       buf_str(&d.path));
	errno = -r;
	return err_sys(e, "remove %.160s", buf_str(&d.path));
}
