/*
 * Unpacks a tar below a directory and nowhere else: every name is opened by
 * the kernel with RESOLVE_BENEATH, so that neither "..", nor a link of the
 * archive or of the place, leads out. Names that try are refused, and with
 * them the rest of the archive.
 *
 * Files replace what has their name, directories are joined with those that
 * are there and leave their modes alone. All of it belongs to who unpacks it.
 * New directories get their mode and time last: one that may not be written to
 * could not be filled.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "agent/file/tar_in.h"
#include "base/auto.h"
#include "base/fd.h"

enum {
	MODE_MASK = 01777,
	LATER_MAX = 100 * 1000, /* directories beyond get their mode at once */
	RACE_TRIES = 1024,
};

struct later {
	char *path;
	mode_t mode;
	struct timespec mtime;
};

struct unpacker {
	struct tar_in in;
	int root_fd;
	int dir_fd; /* of the entry before: the next one is often beside it */
	char dir[FILE_PATH_MAX + 1];
	struct later *later;
	size_t n_later;
	uint64_t entries, bytes;
};

/* --- names --- */

static int open_beneath(const struct unpacker *u, const char *path, int flags,
			uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd;
	int i = 0;

	do /* EAGAIN: something was moved while the kernel looked */
		fd = syscall(SYS_openat2, u->root_fd, *path ? path : ".", &how,
			     sizeof(how));
	while (fd < 0 && errno == EAGAIN && ++i < RACE_TRIES);
	return fd < 0 ? -errno : (int)fd;
}

static int open_dir(const struct unpacker *u, const char *path)
{
	return open_beneath(u, path, O_PATH | O_DIRECTORY, 0);
}

/* The directory `path` with those above it. */
static int make_dirs(const struct unpacker *u, char *path)
{
	AUTO_CLOSE int fd = open_dir(u, "");
	char *end = path, *name = path;

	while (fd >= 0 && *name) {
		char was;
		int sub;

		end = name + strcspn(name, "/");
		was = *end;
		*end = '\0';
		sub = open_dir(u, path);
		if (sub == -ENOENT) {
			if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
				sub = -errno;
			else
				sub = open_dir(u, path);
		}
		*end = was;
		auto_close(&fd);
		fd = sub;
		name = end + (was ? 1 : 0);
	}
	return take_fd(&fd);
}

/* The directory of the entry, made if it is missing; and its own name. */
static int enter(struct unpacker *u, const char **name, struct err *e)
{
	char dir[FILE_PATH_MAX + 1];

	*name = path_split(u->in.entry.path, dir);
	if (u->dir_fd >= 0 && strcmp(u->dir, dir) == 0)
		return u->dir_fd;
	auto_close(&u->dir_fd);
	u->dir_fd = open_dir(u, dir);
	if (u->dir_fd == -ENOENT)
		u->dir_fd = make_dirs(u, dir);
	if (u->dir_fd < 0) {
		errno = -u->dir_fd;
		u->dir_fd = -1;
		if (errno == EXDEV)
			return err_set(e, EXDEV,
				       "%.160s: a link leads out of the "
				       "directory that is unpacked into",
				       u->in.entry.path);
		return err_sys(e, "%.160s", u->in.entry.path);
	}
	memcpy(u->dir, dir, sizeof(dir));
	return u->dir_fd;
}

/* --- entries --- */

static int fail(const struct unpacker *u, struct err *e)
{
	return err_sys(e, "unpack %.160s", u->in.entry.path);
}

/* Makes way for something that is no directory. */
static int clear_way(struct unpacker *u, int dir_fd, const char *name,
		     struct err *e)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	return fail(u, e);
}

static int write_content(struct unpacker *u, int fd, struct err *e)
{
	const char *p;
	ssize_t n;

	while ((n = tar_in_piece(&u->in, &p, e)) > 0) {
		int r = write_full(fd, p, (size_t)n);

		if (r < 0) {
			errno = -r;
			return fail(u, e);
		}
		u->bytes += (uint64_t)n;
	}
	return (int)n;
}

static int put_file(struct unpacker *u, int dir_fd, const char *name,
		    struct err *e)
{
	const struct tar_entry *t = &u->in.entry;
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, t->mtime };
	AUTO_CLOSE int fd = -1;
	int r = clear_way(u, dir_fd, name, e);

	if (r < 0)
		return r;
	fd = openat(dir_fd, name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(u, e);
	r = write_content(u, fd, e);
	if (r == 0 &&
	    (fchmod(fd, t->mode & MODE_MASK) < 0 || futimens(fd, times) < 0))
		r = fail(u, e);
	return r;
}

static int put_symlink(struct unpacker *u, int dir_fd, const char *name,
		       struct err *e)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
					   u->in.entry.mtime };
	int r = clear_way(u, dir_fd, name, e);

	if (r == 0 && symlinkat(u->in.entry.link, dir_fd, name) < 0)
		r = fail(u, e);
	if (r == 0 && utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = fail(u, e);
	return r;
}

static int put_fifo(struct unpacker *u, int dir_fd, const char *name,
		    struct err *e)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
					   u->in.entry.mtime };
	int r = clear_way(u, dir_fd, name, e);

	if (r == 0 && mkfifoat(dir_fd, name, u->in.entry.mode & 0777) < 0)
		r = fail(u, e);
	if (r == 0 && utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = fail(u, e);
	return r;
}

/* The other name is one of the archive: below the same directory. */
static int put_hardlink(struct unpacker *u, int dir_fd, const char *name,
			struct err *e)
{
	char dir[FILE_PATH_MAX + 1];
	AUTO_CLOSE int from = -1;
	const char *other;
	struct stat a, b;

	if (tar_name_clean(u->in.entry.link, "link target", e) < 0)
		return -e->code;
	other = path_split(u->in.entry.link, dir);
	from = *other ? open_dir(u, dir) : -EISDIR;
	if (from < 0) {
		errno = -from;
		return fail(u, e);
	}
	if (linkat(from, other, dir_fd, name, 0) == 0)
		return 0;
	if (errno != EEXIST)
		return fail(u, e);
	if (fstatat(from, other, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
	    fstatat(dir_fd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return 0;
	if (clear_way(u, dir_fd, name, e) < 0)
		return -e->code;
	return linkat(from, other, dir_fd, name, 0) < 0 ? fail(u, e) : 0;
}

static int dress_dir(const struct unpacker *u, const struct later *l,
		     struct err *e)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, l->mtime };
	AUTO_CLOSE int fd = open_beneath(u, l->path, O_RDONLY | O_DIRECTORY,
					 RESOLVE_NO_SYMLINKS);

	/* Somebody has moved or removed it: it is not ours any more. */
	if (fd < 0)
		return 0;
	if (fchmod(fd, l->mode & MODE_MASK) < 0 || futimens(fd, times) < 0)
		return err_sys(e, "set the mode of %.160s", l->path);
	return 0;
}

static int put_dir(struct unpacker *u, int dir_fd, const char *name,
		   struct err *e)
{
	struct later l = { u->in.entry.path, u->in.entry.mode,
			   u->in.entry.mtime };
	AUTO_CLOSE int fd = -1;

	if (mkdirat(dir_fd, name, 0700) < 0) {
		if (errno != EEXIST)
			return fail(u, e);
		fd = open_dir(u, u->in.entry.path);
		errno = fd < 0 ? -fd : 0;
		return fd < 0 ? fail(u, e) : 0;
	}
	if (u->n_later == LATER_MAX)
		return dress_dir(u, &l, e);
	if ((u->n_later & (u->n_later - 1)) == 0) /* 0, 1, 2, 4...: full */
		u->later =
			xrealloc(u->later, (u->n_later ? 2 * u->n_later : 1) *
						   sizeof(*u->later));
	l.path = xstrdup(l.path);
	u->later[u->n_later++] = l;
	return 0;
}

static int dress_dirs(struct unpacker *u, struct err *e)
{
	size_t i = u->n_later;
	int r = 0;

	while (i > 0 && r == 0)
		r = dress_dir(u, &u->later[--i], e);
	return r;
}

static const char *odd_kind(char type)
{
	return type == TAR_CHAR || type == TAR_BLOCKDEV ? "it is a device"
							: "its type is unknown";
}

static int put_entry(struct unpacker *u, struct err *e)
{
	const char *name;
	int dir_fd;

	if (tar_name_clean(u->in.entry.path, "entry", e) < 0)
		return -e->code;
	if (!u->in.entry.path[0]) /* "./": the directory that is there */
		return u->in.entry.type == TAR_DIR
			       ? 0
			       : err_set(e, EBADMSG, "an entry has no name");
	if (u->in.sparse)
		return err_set(e, ENOTSUP,
			       "%.160s is stored as a sparse file: pack it "
			       "without that",
			       u->in.entry.path);
	dir_fd = enter(u, &name, e);
	if (dir_fd < 0)
		return dir_fd;
	u->entries++;
	switch ((enum tar_type)u->in.entry.type) {
	case TAR_FILE:
		return put_file(u, dir_fd, name, e);
	case TAR_DIR:
		return put_dir(u, dir_fd, name, e);
	case TAR_SYMLINK:
		return put_symlink(u, dir_fd, name, e);
	case TAR_HARDLINK:
		return put_hardlink(u, dir_fd, name, e);
	case TAR_FIFO:
		return put_fifo(u, dir_fd, name, e);
	case TAR_CHAR:
	case TAR_BLOCKDEV:
	case TAR_CONTIGUOUS:
	case TAR_PAX:
	case TAR_PAX_GLOBAL:
	case TAR_LONG_NAME:
	case TAR_LONG_LINK:
	case TAR_SPARSE:
	default:
		break;
	}
	u->entries--;
	return out_note(e, "%.400s: left out, %s", u->in.entry.path,
			odd_kind(u->in.entry.type));
}

static int unpack_all(struct unpacker *u, struct err *e)
{
	int r;

	while ((r = tar_in_next(&u->in, e)) > 0) {
		r = put_entry(u, e);
		if (r < 0)
			break;
	}
	return r;
}

int unpack_into(int root_fd, struct err *e)
{
	struct unpacker *u = xcalloc(1, sizeof(*u));
	struct file_record done = { .kind = FILE_UNPACKED };
	size_t i;
	int r;

	u->root_fd = root_fd;
	u->dir_fd = -1;
	r = unpack_all(u, e);
	if (r == 0)
		r = dress_dirs(u, e);
	done.unpacked.entries = u->entries;
	done.unpacked.bytes = u->bytes;
	if (r == 0)
		r = out_record(&done, e);
	for (i = 0; i < u->n_later; i++)
		free(u->later[i].path);
	free(u->later);
	auto_close(&u->dir_fd);
	tar_in_done(&u->in);
	free(u);
	return r;
}

int job_unpack(const struct file_job *j, struct err *e)
{
	AUTO_CLOSE int fd = -1;

	if (j->parents && make_parents(j->path, e) < 0)
		return -e->code;
	fd = open(j->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "%.160s", j->path);
	grow_pipe_of(STDIN_FILENO);
	return unpack_into(fd, e);
}
