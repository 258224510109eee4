#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/auto.h"
#include "base/fd.h"

/*
 * The part that was asked for: from `first` to `last`, or without `first` the
 * last `last` bytes. One that is not there has the length 0.
 */
static void pick(const struct file_job *j, uint64_t size, struct file_record *r)
{
	uint64_t first = 0, end = size;

	if (j->has_first) {
		first = j->first < size ? j->first : size;
		if (j->has_last && j->last < size)
			end = j->last + 1;
	} else if (j->has_last) {
		first = j->last < size ? size - j->last : 0;
	}
	r->content.size = size;
	r->content.first = first;
	r->content.length = end > first ? end - first : 0;
}

static int send_plain(int fd, const char *path, uint64_t *left, struct err *e)
{
	AUTO_FREE char *p = xcalloc(1, IO_BYTES);

	while (*left > 0) {
		size_t want = *left < IO_BYTES ? (size_t)*left : IO_BYTES;
		ssize_t n = read(fd, p, want);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read %.160s", path);
		if (n == 0)
			return 0;
		r = write_full(STDOUT_FILENO, p, (size_t)n);
		if (r < 0) {
			errno = -r;
			return err_sys(e, "send %.160s", path);
		}
		*left -= (uint64_t)n;
	}
	return 0;
}

/* Pages go into the pipe as they are; what cannot be done so is read. */
static int send_pages(int fd, uint64_t *left)
{
	while (*left > 0) {
		size_t want = *left < IO_BYTES ? (size_t)*left : IO_BYTES;
		ssize_t n = splice(fd, NULL, STDOUT_FILENO, NULL, want, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		*left -= (uint64_t)n;
	}
	return 0;
}

int send_bytes(int fd, const char *path, uint64_t *left, struct err *e)
{
	int r = send_pages(fd, left);

	if (r < 0 && r != -EINVAL) {
		errno = -r;
		return err_sys(e, "send %.160s", path);
	}
	return *left > 0 ? send_plain(fd, path, left, e) : 0;
}

static int send_content(int fd, const char *path, uint64_t length,
			struct err *e)
{
	uint64_t left = length;
	int r;

	grow_pipe_of(STDOUT_FILENO);
	if (length == FILE_TO_END)
		return send_plain(fd, path, &left, e);
	r = send_bytes(fd, path, &left, e);
	if (r == 0 && left > 0)
		return err_set(e, EIO, "%.160s shrank while it was read", path);
	return r;
}

int job_read(const struct file_job *j, struct err *e)
{
	/* A fifo does not make us wait, nor a terminal its session's. */
	AUTO_CLOSE int fd =
		path_open(j->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	struct file_record r = { .kind = FILE_CONTENT };
	struct stat st;

	/* Sockets, and terminals and devices that are not there. */
	if (fd < 0 && (errno == ENXIO || errno == ENODEV))
		return err_set(e, EINVAL, "%.160s is not a regular file",
			       j->path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "%.160s", j->path);
	if (S_ISDIR(st.st_mode))
		return err_set(e, EISDIR, "%.160s: Is a directory", j->path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "%.160s is not a regular file",
			       j->path);
	if (st.st_size == 0)
		r.content.length = FILE_TO_END; /* of /proc, or really empty */
	else
		pick(j, (uint64_t)st.st_size, &r);
	if (r.content.first > 0 &&
	    lseek(fd, (off_t)r.content.first, SEEK_SET) < 0)
		return err_sys(e, "%.160s", j->path);
	if (out_record(&r, e) < 0 || out_flush(e) < 0)
		return -e->code;
	return send_content(fd, j->path, r.content.length, e);
}
