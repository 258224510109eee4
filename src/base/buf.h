/*
 * A growing byte buffer with a read position, for everything that is received
 * or sent in pieces. Memory is bounded by the caller: buf_add() takes what it
 * is given, so whoever feeds bytes from outside checks buf_len() against a
 * named limit first. Allocation failure aborts: sizes are small by contract.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct buf {
	char *p;    /* start of the allocation, or NULL */
	size_t off; /* first unread byte */
	size_t len; /* end of the bytes in use, from p */
	size_t cap;
};

void buf_done(struct buf *b);
static inline size_t buf_len(const struct buf *b)
{
	return b->len - b->off;
}
static inline char *buf_data(const struct buf *b)
{
	return b->p ? b->p + b->off : (char *)"";
}
/* Makes room for `n` more bytes and returns where they go. */
char *buf_room(struct buf *b, size_t n);
/* Marks `n` bytes written at buf_room() as used. */
static inline void buf_fill(struct buf *b, size_t n)
{
	b->len += n;
}
void buf_add(struct buf *b, const void *data, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Drops the first `n` unread bytes; gives memory back when it was large. */
void buf_eat(struct buf *b, size_t n);
void buf_clear(struct buf *b);
/* NUL-terminates the content (the NUL is not counted) and returns it. */
char *buf_str(struct buf *b);
/* One read(2) of at most `max` bytes: count, 0 at the end, or -errno. */
ssize_t buf_read(struct buf *b, int fd, size_t max);
/* One write(2) of what is there: count, or -errno. Eats what was written. */
ssize_t buf_write(struct buf *b, int fd);

/* Abort when memory is gone; for small objects of our own. */
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
