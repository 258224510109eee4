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
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"
#include "base/fd.h"

/* Where a link leads: what it names is written, the link stays. */
static int follow(const char *path, char real[PATH_MAX], struct err *e)
{
	AUTO_CLOSE int fd = open(path, O_PATH | O_CLOEXEC);
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
		return err_set(e, EINVAL, "%.160s is no regular file", shown);
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

	/* Not ours to give: then it is ours. */
	if (old && geteuid() == 0 && fchown(fd, old->st_uid, old->st_gid) < 0 &&
	    errno != EPERM && errno != EINVAL)
		return -errno;
	return fchmod(fd, j->has_mode ? j->mode : mode) < 0 ? -errno : 0;
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
	r = fresh_place(&f, p->name, true, shown, e);
	return r < 0 ? r : out_record(&done, e);
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
