/* Both ends of the pipes to the client: records and bytes out, bytes in. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/file/file.h"
#include "base/fd.h"

enum { OUT_BYTES = 64 * 1024 };

static struct buf out;
static unsigned notes;

int out_flush(struct err *e)
{
	int r = write_full(STDOUT_FILENO, buf_data(&out), buf_len(&out));

	buf_clear(&out);
	if (r == 0)
		return 0;
	errno = -r;
	return err_sys(e, "write the answer");
}

int out_bytes(const void *p, size_t n, struct err *e)
{
	buf_add(&out, p, n);
	return buf_len(&out) < OUT_BYTES ? 0 : out_flush(e);
}

int out_record(const struct file_record *r, struct err *e)
{
	file_record_put(&out, r);
	return buf_len(&out) < OUT_BYTES ? 0 : out_flush(e);
}

int out_note(struct err *e, const char *fmt, ...)
{
	char text[FILE_ERROR_MAX];
	struct file_record r = { .kind = FILE_NOTE, .note = text };
	va_list ap;

	if (notes++ >= FILE_NOTES_MAX)
		return 0;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return out_record(&r, e);
}

/*
 * A client that went without a word (with its api) would leave us waiting for
 * ever; one that is only slow is given up by the api long before this.
 */
ssize_t in_read(void *p, size_t n, struct err *e)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	ssize_t got;
	int r;

	do
		r = poll(&in, 1, IDLE_MS);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return err_set(e, ETIMEDOUT, "no data came for %d s",
			       IDLE_MS / 1000);
	do
		got = read(STDIN_FILENO, p, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? err_sys(e, "read what was sent") : got;
}

void grow_pipe_of(int fd)
{
	/* Refused above the user's share of pipe memory: then it stays. */
	if (fcntl(fd, F_SETPIPE_SZ, IO_BYTES) < 0)
		return;
}
