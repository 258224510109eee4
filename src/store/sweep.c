/*
 * Emptying the trash. Its files were a sandbox's: an attacker chose names,
 * links, depth and numbers.
 *
 * No recursion and no stack of descriptors: a directory that is not empty is
 * moved up into trash/ itself and gets its turn there. So depth costs nothing,
 * few descriptors are enough, and a sweep that is killed at any point leaves a
 * trash that the next one continues with.
 *
 * A tree of btrfs is destroyed whole, unless subvolumes are nested in it: the
 * kernel then answers ENOTEMPTY. Such a tree is emptied like a directory, with
 * one difference: directories cannot leave their subvolume (EXDEV), so they
 * move up to its root, while nested subvolumes move on to trash/.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "store/ops.h"

struct sweep {
	const struct store_ops *ops;
	int trash_fd;   /* subvolumes move up to here... */
	int top_fd;     /* ...and directories: the root of their subvolume */
	uint64_t done;  /* removed or moved so far: are we getting on? */
	int failed;     /* last errno of what could not be removed... */
	char name[256]; /* ...and its name */
};

static void fail(struct sweep *w, const char *name, int code)
{
	w->failed = code;
	snprintf(w->name, sizeof(w->name), "%s", name);
}

/* A directory, not through a link and not of another mount. */
static int open_dir(int dir_fd, const char *name)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve =
			RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH,
	};

	return (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
}

/*
 * Inode numbers are unique within a subvolume, and so are the numbers of
 * subvolumes, which readdir() returns for them: names made of them do not meet.
 */
static int move_up(int dir_fd, const struct dirent *d, int to_fd, char kind)
{
	char name[32];

	snprintf(name, sizeof(name), "%c%llu", kind,
		 (unsigned long long)d->d_ino);
	return renameat2(dir_fd, d->d_name, to_fd, name, RENAME_NOREPLACE);
}

static int remove_plain(struct sweep *w, int dir_fd, const struct dirent *d)
{
	int r = unlinkat(dir_fd, d->d_name, 0);

	if (r < 0 && errno == EISDIR)
		r = unlinkat(dir_fd, d->d_name, AT_REMOVEDIR);
	if (r < 0 && (errno == ENOTEMPTY || errno == EEXIST))
		r = move_up(dir_fd, d, w->top_fd, 'd');
	return r < 0 ? -errno : 1;
}

/* A subvolume with others in it. A read-only one cannot be moved. */
static int move_subvolume(struct sweep *w, int dir_fd, const struct dirent *d)
{
	AUTO_CLOSE int fd = open_dir(dir_fd, d->d_name);

	if (fd < 0)
		return -errno;
	w->ops->unseal(fd);
	return move_up(dir_fd, d, w->trash_fd, 's') < 0 ? -errno : 1;
}

/* Nothing of that name is left in the directory, unless it failed. */
static void remove_entry(struct sweep *w, int dir_fd, const struct dirent *d)
{
	int r = w->ops->destroy(dir_fd, d->d_name);

	if (r == 0)
		r = remove_plain(w, dir_fd, d);
	else if (r == -ENOTEMPTY)
		r = move_subvolume(w, dir_fd, d);
	if (r > 0)
		w->done++;
	else if (r != -ENOENT)
		fail(w, d->d_name, -r);
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void empty_dir(struct sweep *w, int fd)
{
	AUTO_DIR DIR *dir = fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		close(fd);
		fail(w, "a directory in trash/", errno);
		return;
	}
	while (errno = 0, (d = readdir(dir)) != NULL)
		if (!is_dot(d->d_name))
			remove_entry(w, dirfd(dir), d);
	if (errno)
		fail(w, "a directory in trash/", errno);
}

static int passes(struct sweep *w);

/* Of a subvolume in trash/: the kernel destroys it when none is nested in it.
 */
static void empty_subvolume(struct sweep *w, const struct dirent *d)
{
	AUTO_CLOSE int fd = open_dir(w->trash_fd, d->d_name);
	struct sweep in = { .ops = w->ops,
			    .trash_fd = w->trash_fd,
			    .top_fd = fd };
	int r = fd < 0 ? -errno : 0;

	if (r == 0) {
		w->ops->unseal(fd);
		r = passes(&in);
	}
	w->done += in.done;
	if (r < 0)
		fail(w, d->d_name, -r);
	else if (in.failed)
		fail(w, in.name, in.failed);
	if (w->ops->destroy(w->trash_fd, d->d_name) > 0)
		w->done++;
}

/* An entry of the top: the trash, or a subvolume that is emptied. */
static void sweep_one(struct sweep *w, const struct dirent *d)
{
	int fd, r = w->ops->destroy(w->top_fd, d->d_name);

	if (r > 0) {
		w->done++;
		return;
	}
	if (r == -ENOTEMPTY) {
		if (w->top_fd == w->trash_fd)
			empty_subvolume(w, d);
		else
			remove_entry(w, w->top_fd, d);
		return;
	}
	fd = open_dir(w->top_fd, d->d_name);
	if (fd >= 0)
		empty_dir(w, fd);
	else if (errno != ENOTDIR && errno != ELOOP && errno != ENOENT)
		fail(w, d->d_name, errno);
	if (unlinkat(w->top_fd, d->d_name, fd >= 0 ? AT_REMOVEDIR : 0) == 0)
		w->done++;
	/* Not empty: something below failed, and that is the better news. */
	else if (errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
		fail(w, d->d_name, errno);
}

/* One pass sees what was there at its start, and perhaps more. */
static int pass(struct sweep *w)
{
	AUTO_CLOSE int fd =
		openat(w->top_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_DIR DIR *dir = NULL;
	struct dirent *d;
	int seen = 0;

	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir)
		return -errno;
	take_fd(&fd);
	while (errno = 0, (d = readdir(dir)) != NULL) {
		if (is_dot(d->d_name))
			continue;
		seen++;
		sweep_one(w, d);
	}
	return errno ? -errno : seen;
}

/* Until nothing is left, or nothing goes any more. */
static int passes(struct sweep *w)
{
	uint64_t before;
	int r;

	do {
		before = w->done;
		w->failed = 0;
		r = pass(w);
	} while (r > 0 && w->done > before);
	return r;
}

int sweep_dir(const struct store_ops *ops, int dir_fd, const char *name)
{
	AUTO_CLOSE int fd = open_dir(dir_fd, name);
	struct sweep w = { .ops = ops, .trash_fd = fd, .top_fd = fd };
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = passes(&w);
	if (r < 0 || w.failed)
		return r < 0 ? r : -w.failed;
	return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int sweep_trash(struct store *s, struct err *e)
{
	AUTO_CLOSE int fd =
		openat(s->root_fd, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct sweep w = { .ops = s->ops, .trash_fd = fd, .top_fd = fd };
	int r;

	if (fd < 0)
		return err_sys(e, "open trash/");
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? 1 : err_sys(e, "lock trash/");
	r = passes(&w);
	if (r < 0)
		return err_set(e, -r, "read trash/: %s", strerror(-r));
	if (w.failed)
		return err_set(e, w.failed, "sweep the pool: %s: %s", w.name,
			       strerror(w.failed));
	return 0;
}
