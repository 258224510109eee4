/* The chunked coding as a state machine that looks at each byte once. */
#include "http/chunked.h"

#include <errno.h>
#include <stdio.h>

#include "http/target.h"

enum { SIZE, SIZE_LF, DATA, DATA_CR, DATA_LF, END_CR, END_LF, DONE, BAD };
enum { DIGITS_MAX = 15 }; /* cannot overflow 64 bits */

static unsigned size_byte(struct http_chunked *d, char c)
{
	int v = http_hex_value(c);

	if (v >= 0 && d->digits < DIGITS_MAX) {
		d->left = d->left << 4 | (uint64_t)v;
		d->digits++;
		return SIZE;
	}
	return c == '\r' && d->digits > 0 ? SIZE_LF : BAD;
}

/* The state after one byte that is not content. */
static unsigned framing_byte(struct http_chunked *d, char c)
{
	switch (d->state) {
	case SIZE:
		return size_byte(d, c);
	case SIZE_LF:
		d->digits = 0;
		if (c != '\n')
			return BAD;
		return d->left > 0 ? DATA : END_CR;
	case DATA_CR:
		return c == '\r' ? DATA_LF : BAD;
	case DATA_LF:
		return c == '\n' ? SIZE : BAD;
	case END_CR:
		return c == '\r' ? END_LF : BAD;
	case END_LF:
		return c == '\n' ? DONE : BAD;
	default:
		return BAD;
	}
}

int http_chunked_next(struct http_chunked *d, const char *p, size_t n,
		      size_t *used, size_t *data_n)
{
	size_t i = 0;

	*data_n = 0;
	while (i < n && d->state != DATA && d->state != DONE && d->state != BAD)
		d->state = framing_byte(d, p[i++]);
	*used = i;
	if (d->state == BAD)
		return -EBADMSG;
	if (d->state == DONE)
		return HTTP_CHUNK_END;
	if (d->state != DATA || i == n)
		return HTTP_CHUNK_MORE;

	*data_n = n - i < d->left ? n - i : (size_t)d->left;
	*used += *data_n;
	d->left -= *data_n;
	if (d->left == 0)
		d->state = DATA_CR;
	return HTTP_CHUNK_DATA;
}

size_t http_chunk_line(char out[HTTP_CHUNK_LINE], size_t n)
{
	return (size_t)snprintf(out, HTTP_CHUNK_LINE, "%zx\r\n", n);
}

void http_chunk_add(struct buf *b, const void *p, size_t n)
{
	char line[HTTP_CHUNK_LINE];
	size_t head;

	if (n == 0) /* would end the body */
		return;
	head = http_chunk_line(line, n);
	buf_add(b, line, head);
	buf_add(b, p, n);
	buf_add(b, "\r\n", 2);
}
