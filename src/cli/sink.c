#include "cli/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/frame.h"

/*
 * O_NONBLOCK belongs to the open file, which we share with the shell and its
 * other children: setting it there breaks them. A pipe or terminal can be
 * opened once more, with flags of our own. Where that fails (a socket, a pipe
 * of another user) poll() promises room for at least PIPE_BUF bytes.
 */
static void sink_open(struct sink *s)
{
	char path[32];
	struct stat st;

	s->out_fd = s->fd;
	s->chunk = PIPE_BUF;
	if (fstat(s->fd, &st) < 0)
		return;
	if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)) {
		s->chunk = SSIZE_MAX; /* waits for nobody */
	} else if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
		int fd;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
		fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0)
			return;
		s->out_fd = fd;
		s->chunk = SSIZE_MAX;
	}
}

/* Bytes written, 0 when the reader is not ready, or -errno. */
static ssize_t write_some(struct sink *s, const char *p, size_t n)
{
	ssize_t r;

	do
		r = write(s->out_fd, p, n < s->chunk ? n : s->chunk);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno == EAGAIN ? 0 : -errno;
	s->written += (uint64_t)r;
	return r;
}

int sink_take(struct sink *s, uint64_t offset, const void *p, size_t n)
{
	const char *from = p;

	if (offset != s->received || n > WIRE_WINDOW ||
	    offset + n > s->acked + WIRE_WINDOW || s->eof)
		return -EBADMSG;
	s->received += n;
	if (s->out_fd < 0)
		sink_open(s);
	/* Without a poll() first, only what cannot block may be tried. */
	while (n > 0 && buf_len(&s->pending) == 0 && s->chunk != PIPE_BUF) {
		ssize_t r = write_some(s, from, n);

		if (r < 0)
			return (int)r;
		if (r == 0)
			break;
		from += r;
		n -= (size_t)r;
	}
	buf_add(&s->pending, from, n);
	return 0;
}

void sink_skip(struct sink *s, uint64_t n)
{
	s->received += n;
	s->written += n;
	s->acked += n;
}

int sink_flush(struct sink *s)
{
	ssize_t r = write_some(s, buf_data(&s->pending), buf_len(&s->pending));

	if (r < 0)
		return (int)r;
	buf_eat(&s->pending, (size_t)r);
	return 0;
}

void sink_close(struct sink *s)
{
	if (s->out_fd >= 0 && s->out_fd != s->fd)
		close(s->out_fd);
	close(s->fd);
	s->out_fd = s->fd = -1;
}

void sink_done(struct sink *s)
{
	buf_done(&s->pending);
}
