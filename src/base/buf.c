#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEEP_MAX = 64 * 1024 }; /* an empty buffer larger than this is freed */

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		abort();
	return p;
}

void *xrealloc(void *p, size_t size)
{
	void *moved = realloc(p, size);

	if (!moved)
		abort();
	return moved;
}

char *xstrdup(const char *s)
{
	char *p = strdup(s);

	if (!p)
		abort();
	return p;
}

void buf_done(struct buf *b)
{
	free(b->p);
	*b = (struct buf){ 0 };
}

char *buf_room(struct buf *b, size_t n)
{
	size_t want, cap;

	if (b->off > 0 && b->cap - b->len < n) {
		memmove(b->p, b->p + b->off, buf_len(b));
		b->len -= b->off;
		b->off = 0;
	}
	assert(n <= SIZE_MAX / 4);
	want = b->len + n;
	if (!b->p || want > b->cap) {
		cap = b->cap ? b->cap : 256;
		while (cap < want)
			cap *= 2;
		b->p = xrealloc(b->p, cap);
		b->cap = cap;
	}
	return b->p + b->len;
}

void buf_add(struct buf *b, const void *data, size_t n)
{
	if (n == 0)
		return;
	memcpy(buf_room(b, n), data, n);
	b->len += n;
}

void buf_puts(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	assert(n >= 0);
	va_start(ap, fmt);
	vsnprintf(buf_room(b, (size_t)n + 1), (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void buf_eat(struct buf *b, size_t n)
{
	assert(n <= buf_len(b));
	b->off += n;
	if (b->off == b->len) {
		b->off = b->len = 0;
		if (b->cap > KEEP_MAX)
			buf_done(b);
	}
}

void buf_clear(struct buf *b)
{
	buf_eat(b, buf_len(b));
}

char *buf_str(struct buf *b)
{
	*buf_room(b, 1) = '\0';
	return buf_data(b);
}

ssize_t buf_read(struct buf *b, int fd, size_t max)
{
	char *p = buf_room(b, max);
	ssize_t n;

	do
		n = read(fd, p, max);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	b->len += (size_t)n;
	return n;
}

ssize_t buf_write(struct buf *b, int fd)
{
	ssize_t n;

	do
		n = write(fd, buf_data(b), buf_len(b));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	buf_eat(b, (size_t)n);
	return n;
}
