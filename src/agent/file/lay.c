/*
 * host.lay: the disk of another life, laid over the image of this one: a tar
 * of what was written there, with marks for what was removed (an OCI layer,
 * worker/pack.c). It runs as root of a sandbox in which nothing else runs yet,
 * apart from its processes (builtin.h). Half of it is worth nothing: when it
 * fails, who asked throws the sandbox away.
 *
 * Every byte may be a stranger's, who then writes to a disk of his own. Names
 * lead nowhere else all the same: no link and no mount is followed. Pages of
 * zeros become holes. Directories get their times last. All is synced, which
 * costs nothing where the disk ends with its sandbox, and keeps it otherwise.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "agent/file/tar_in.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#define REMOVED ".wh."

enum {
	/* Directories whose times are remembered; later ones keep the new. */
	LATER_MAX = 1000 * 1000,
	LATER_BYTES = 64 << 20,
	ALIVE_MS = 10 * 1000,
};

struct later {
	char *path;
	struct timespec mtime;
};

struct lay {
	struct tar_in in;
	int root_fd;
	int dir_fd; /* of the entry before: the next one is often beside it */
	char dir[FILE_PATH_MAX + 1];
	struct later *later;
	size_t n_later, later_bytes;
	uint64_t entries, bytes;
};

static int fail(const struct lay *l, struct err *e)
{
	return err_sys(e, "/%.160s", l->in.entry.path);
}

/* --- names --- */

/* The directory of the entry; -EXDEV: something is mounted there. */
static int enter(struct lay *l, const char **name)
{
	char dir[FILE_PATH_MAX + 1];

	*name = path_split(l->in.entry.path, dir);
	if (l->dir_fd >= 0 && strcmp(l->dir, dir) == 0)
		return l->dir_fd;
	auto_close(&l->dir_fd);
	l->dir_fd = open_within(l->root_fd, dir, O_RDONLY | O_DIRECTORY);
	if (l->dir_fd < 0) {
		errno = -l->dir_fd;
		l->dir_fd = -1;
		return -errno;
	}
	memcpy(l->dir, dir, sizeof(dir));
	return l->dir_fd;
}

/* Nothing is there any more, whatever it was. */
static int clear_way(struct lay *l, int dir_fd, const char *name, struct err *e)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return fail(l, e);
	return tree_unlink(dir_fd, name, l->in.entry.path, e);
}

/* --- entries --- */

static int write_content(struct lay *l, int fd, struct err *e)
{
	uint64_t at = 0;
	const char *p;
	ssize_t n;

	while ((n = tar_in_piece(&l->in, &p, e)) > 0) {
		int r = sparse_write(fd, p, (size_t)n, at);

		if (r < 0) {
			errno = -r;
			return fail(l, e);
		}
		at += (uint64_t)n;
		l->bytes += (uint64_t)n;
	}
	if (n < 0)
		return (int)n;
	return ftruncate(fd, (off_t)at) < 0 ? fail(l, e) : 0;
}

static int set_attr(void *ctx, const char *name, const void *value, size_t n)
{
	/* Others are not ours to set, and none were sent. */
	if (strncmp(name, "user.", 5) != 0)
		return 0;
	return fsetxattr(*(int *)ctx, name, value, n, 0) < 0 ? -errno : 0;
}

static int drop_attrs(int fd)
{
	static char names[FILE_PATH_MAX * 16];
	ssize_t n = flistxattr(fd, names, sizeof(names)), at;

	if (n < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
		if (strncmp(names + at, "user.", 5) == 0 &&
		    fremovexattr(fd, names + at) < 0 && errno != ENODATA)
			return -errno;
	return 0;
}

/* In this order: a new owner takes set-id bits away. */
static int dress(struct lay *l, int fd, struct err *e)
{
	const struct tar_entry *t = &l->in.entry;
	int r = tar_pax_attrs(buf_data(&l->in.pax), buf_len(&l->in.pax),
			      set_attr, &fd);

	errno = -r;
	if (r < 0 || fchown(fd, t->uid, t->gid) < 0 || fchmod(fd, t->mode) < 0)
		return fail(l, e);
	return 0;
}

static int put_file(struct lay *l, int dir_fd, const char *name, struct err *e)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
					   l->in.entry.mtime };
	AUTO_CLOSE int fd = openat(
		dir_fd, name,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return fail(l, e);
	if (write_content(l, fd, e) < 0 || dress(l, fd, e) < 0)
		return -e->code;
	return futimens(fd, times) < 0 || fsync(fd) < 0 ? fail(l, e) : 0;
}

static int put_other(struct lay *l, int dir_fd, const char *name, struct err *e)
{
	const struct tar_entry *t = &l->in.entry;
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, t->mtime };
	bool link = t->type == TAR_SYMLINK;

	if ((link ? symlinkat(t->link, dir_fd, name)
		  : mkfifoat(dir_fd, name, 0600)) < 0 ||
	    fchownat(dir_fd, name, t->uid, t->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!link && fchmodat(dir_fd, name, t->mode, 0) < 0) ||
	    utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(l, e);
	return 0;
}

static int put_hardlink(struct lay *l, int dir_fd, const char *name,
			struct err *e)
{
	char dir[FILE_PATH_MAX + 1];
	AUTO_CLOSE int from = -1;
	const char *other;

	if (tar_name_clean(l->in.entry.link, "link target", e) < 0)
		return -e->code;
	other = path_split(l->in.entry.link, dir);
	from = *other ? open_within(l->root_fd, dir, O_PATH | O_DIRECTORY)
		      : -EISDIR;
	errno = -from;
	if (from < 0 || linkat(from, other, dir_fd, name, 0) < 0)
		return fail(l, e);
	return 0;
}

static void remember(struct lay *l)
{
	const struct tar_entry *t = &l->in.entry;
	size_t n = strlen(t->path) + 1;

	if (l->n_later == LATER_MAX || l->later_bytes + n > LATER_BYTES)
		return;
	if ((l->n_later & (l->n_later - 1)) == 0) /* 0, 1, 2, 4...: full */
		l->later =
			xrealloc(l->later, (l->n_later ? 2 * l->n_later : 1) *
						   sizeof(*l->later));
	l->later[l->n_later++] = (struct later){ xstrdup(t->path), t->mtime };
	l->later_bytes += n;
}

/* One that is there keeps what is in it. */
static int put_dir(struct lay *l, int dir_fd, const char *name, struct err *e)
{
	AUTO_CLOSE int fd = dir_open(dir_fd, name, true);
	int r;

	if (fd == -ENOTDIR || fd == -ELOOP) {
		if (unlinkat(dir_fd, name, 0) < 0)
			return fail(l, e);
		fd = -ENOENT;
	}
	if (fd == -ENOENT) {
		if (mkdirat(dir_fd, name, 0700) < 0)
			return fail(l, e);
		fd = dir_open(dir_fd, name, true);
	}
	r = fd < 0 ? fd : drop_attrs(fd);
	errno = -r;
	if (r < 0)
		return fail(l, e);
	remember(l);
	return dress(l, fd, e);
}

static int put_entry(struct lay *l, int dir_fd, const char *name, struct err *e)
{
	char type = l->in.entry.type;

	if (type == TAR_DIR)
		return put_dir(l, dir_fd, name, e);
	if (clear_way(l, dir_fd, name, e) < 0)
		return -e->code;
	if (type == TAR_FILE)
		return put_file(l, dir_fd, name, e);
	if (type == TAR_HARDLINK)
		return put_hardlink(l, dir_fd, name, e);
	return put_other(l, dir_fd, name, e);
}

/* The root itself, which is there. */
static int put_root(struct lay *l, struct err *e)
{
	int r = drop_attrs(l->root_fd);

	errno = -r;
	if (r < 0)
		return fail(l, e);
	remember(l);
	l->entries++;
	return dress(l, l->root_fd, e);
}

/* A mark names what is beside it, and nothing above. */
static int take_away(struct lay *l, int dir_fd, const char *name, struct err *e)
{
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return err_set(e, EBADMSG, "/%.160s: no name is removed",
			       l->in.entry.path);
	return clear_way(l, dir_fd, name, e);
}

static bool is_known(char type)
{
	return type == TAR_FILE || type == TAR_DIR || type == TAR_SYMLINK ||
	       type == TAR_FIFO || type == TAR_HARDLINK;
}

static int take_entry(struct lay *l, struct err *e)
{
	const char *name;
	int dir_fd;

	if (tar_name_clean(l->in.entry.path, "entry", e) < 0)
		return -e->code;
	if (!l->in.entry.path[0] && l->in.entry.type == TAR_DIR)
		return put_root(l, e);
	if (l->in.sparse || !l->in.entry.path[0] || !is_known(l->in.entry.type))
		return err_set(e, EBADMSG,
			       "/%.160s: not what a disk is told as",
			       l->in.entry.path);
	dir_fd = enter(l, &name);
	if (dir_fd == -EXDEV)
		return out_note(e, "/%.400s: left out, something is mounted",
				l->in.entry.path);
	errno = -dir_fd;
	if (dir_fd < 0)
		return fail(l, e);
	l->entries++;
	if (str_starts(name, REMOVED))
		return take_away(l, dir_fd, name + strlen(REMOVED), e);
	return put_entry(l, dir_fd, name, e);
}

/* A disk that is slow, not one that stands still. */
static int say_alive(const struct lay *l, uint64_t *said_ms, struct err *e)
{
	const struct file_record r = { .kind = FILE_SO_FAR,
				       .unpacked = { l->entries, l->bytes } };
	uint64_t now = clock_boot_ms();

	if (now - *said_ms < ALIVE_MS)
		return 0;
	*said_ms = now;
	return out_record(&r, e) < 0 ? -e->code : out_flush(e);
}

static int set_times(const struct lay *l, struct err *e)
{
	uint64_t said_ms = clock_boot_ms();
	size_t i = l->n_later;

	while (i > 0) {
		const struct later *d = &l->later[--i];
		const struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
						   d->mtime };
		AUTO_CLOSE int fd = open_within(l->root_fd, d->path,
						O_RDONLY | O_DIRECTORY);

		/* A later entry may have taken its place. */
		if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
			continue;
		if (fd < 0 || futimens(fd, times) < 0 || fsync(fd) < 0)
			return err_sys(e, "set the time of /%.160s", d->path);
		if (say_alive(l, &said_ms, e) < 0)
			return -e->code;
	}
	return 0;
}

static int lay_all(struct lay *l, struct err *e)
{
	int r;

	while ((r = tar_in_next(&l->in, e)) > 0)
		if (take_entry(l, e) < 0)
			return -e->code;
	return r < 0 ? r : set_times(l, e);
}

static void lay_done(struct lay *l)
{
	size_t i;

	for (i = 0; i < l->n_later; i++)
		free(l->later[i].path);
	free(l->later);
	auto_close(&l->dir_fd);
	auto_close(&l->root_fd);
	tar_in_done(&l->in);
	free(l);
}

int job_lay(const struct file_job *j, struct err *e)
{
	struct lay *l = xcalloc(1, sizeof(*l));
	struct file_record done = { .kind = FILE_UNPACKED };
	int r;

	l->dir_fd = -1;
	l->root_fd = open(j->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	grow_pipe_of(STDIN_FILENO);
	r = l->root_fd < 0 ? err_sys(e, "%.160s", j->path) : lay_all(l, e);
	done.unpacked.entries = l->entries;
	done.unpacked.bytes = l->bytes;
	lay_done(l);
	return r < 0 ? r : out_record(&done, e);
}
