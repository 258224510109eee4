/*
 * A file from what comes in, in place of the one that has the name. That one
 * lends its mode and its owner, and if we might not write to it, then we do
 * not replace it either.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"
#include "base/fd.h"

/* Where a link leads: what it names is written, the link stays. */
static int follow(const char *path, char real[PATH_MAX], struct err *e)
{
	AUTO_CLOSE int fd = path_open(path, O_PATH);
	char self[32];
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "%.160s is a link that leads nowhere", path);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, real, PATH_MAX);
	if (n < 0 || n == PATH_MAX || real[0] != '/')
		return err_set(e, ELOOP, "%.160s leads too far", path);
	real[n] = '\0';
	return 0;
}

/* What is there: 1 with `st`, 0, or an error if it is not to be replaced. */
static int look(const struct place *p, const char *shown, struct stat *st,
		struct err *e)
{
	if (fstatat(p->dir_fd, p->name, st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "%.160s", shown);
	if (S_ISDIR(st->st_mode))
		return err_set(e, EISDIR, "%.160s: Is a directory", shown);
	if (!S_ISREG(st->st_mode))
		return err_set(e, EINVAL, "%.160s is not a regular file",
			       shown);
	if (faccessat(p->dir_fd, p->name, W_OK, 0) < 0)
		return err_sys(e, "%.160s", shown);
	return 1;
}

static int receive(int fd, const char *shown, struct file_record *done,
		   struct err *e)
{
	AUTO_FREE char *p = xcalloc(1, IO_BYTES);
	struct sha256 sum;
	ssize_t n;

	grow_pipe_of(STDIN_FILENO);
	sha256_init(&sum);
	while ((n = in_read(p, IO_BYTES, e)) > 0) {
		int r = write_full(fd, p, (size_t)n);

		if (r < 0) {
			errno = -r;
			return err_sys(e, "write %.160s", shown);
		}
		sha256_add(&sum, p, (size_t)n);
		done->written.size += (uint64_t)n;
	}
	sha256_end(&sum, done->written.sha);
	return (int)n;
}

/* Owner first: a change of it takes set-id bits away. */
static int dress(int fd, const struct file_job *j, const struct stat *old)
{
	mode_t mode = old ? old->st_mode & FILE_MODE_MAX : 0644;

	int r = j->owner ? owner_give(fd) : 0;

	if (r < 0)
		return r;
	/* Not ours to give: then it is ours. */
	if (old && !j->owner && geteuid() == 0 &&
	    fchown(fd, old->st_uid, old->st_gid) < 0 && errno != EPERM &&
	    errno != EINVAL)
		return -errno;
	return fchmod(fd, j->has_mode ? j->mode : mode) < 0 ? -errno : 0;
}

/* A new file has none, so these are all. */
static int set_attrs(int fd, const struct file_job *j, const char *shown,
		     struct err *e)
{
	char name[FILE_ATTR_NAME_MAX + 1];
	size_t i;

	for (i = 0; i < j->n_attrs; i++) {
		const char *value = j->attr[i] + strcspn(j->attr[i], "=") + 1;

		snprintf(name, (size_t)(value - j->attr[i]), "%s", j->attr[i]);
		if (fsetxattr(fd, name, value, strlen(value), 0) < 0)
			return err_sys(e, "set attribute %.64s of %.160s", name,
				       shown);
	}
	return 0;
}

/*
 * A file that got its name when it was complete was created, as far as the
 * kernel tells, but never written. Those who watch wait for the latter, which
 * is also what it says when nothing but this time changes.
 */
static void tell_written(const struct place *p)
{
	const struct timespec now[2] = { { .tv_nsec = UTIME_OMIT },
					 { .tv_nsec = UTIME_NOW } };

	if (utimensat(p->dir_fd, p->name, now, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* replaced already: who did it is told */
}

static int tell_entry(const struct file_job *j, const struct place *p,
		      struct err *e)
{
	AUTO(buf_done) struct buf shown = { 0 };
	int r = path_show(j->path, &shown, e);

	return r < 0 ? r
		     : out_entry(p->dir_fd, p->name, buf_data(&shown), false,
				 e);
}

static int write_at(const struct file_job *j, struct place *p,
		    const char *shown, struct err *e)
{
	AUTO(fresh_done) struct fresh f = { .fd = -1 };
	struct file_record done = { .kind = FILE_WRITTEN };
	struct stat old;
	int there = look(p, shown, &old, e), r;

	if (there < 0)
		return there;
	r = fresh_open(&f, p->dir_fd, shown, e);
	if (r == 0)
		r = receive(f.fd, shown, &done, e);
	if (r < 0)
		return r;
	r = dress(f.fd, j, there ? &old : NULL);
	if (r < 0) {
		errno = -r;
		return err_sys(e, "set owner and mode of %.160s", shown);
	}
	r = set_attrs(f.fd, j, shown, e);
	if (r == 0)
		r = fresh_place(&f, p->name, true, shown, e);
	if (r < 0)
		return r;
	tell_written(p);
	if (j->detail && tell_entry(j, p, e) < 0)
		return -e->code;
	return out_record(&done, e);
}

int job_write(const struct file_job *j, struct err *e)
{
	AUTO(place_done) struct place p = { .dir_fd = -1 };
	char real[PATH_MAX];
	const char *path = j->path;
	struct stat st;
	int r = 0;

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
		r = follow(path, real, e);
		path = real;
	}
	if (r == 0 && path[strlen(path) - 1] == '/')
		r = err_set(e, EISDIR,
			    "%.160s: a file's name has no slash at "
			    "its end",
			    path);
	if (r == 0)
		r = place_open(&p, path, j->parents, e);
	return r < 0 ? r : write_at(j, &p, j->path, e);
}
