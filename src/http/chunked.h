/*
 * The chunked transfer coding. The decoder takes bytes in any pieces and
 * copies nothing; extensions and trailers are refused, nobody needs them and
 * parsers disagree about them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Zero-initialise. */
struct http_chunked {
	uint64_t left;   /* bytes missing of the current chunk */
	unsigned digits; /* of its size so far */
	unsigned state;
};

enum http_chunk { HTTP_CHUNK_MORE, HTTP_CHUNK_DATA, HTTP_CHUNK_END };

/*
 * Looks at `n` bytes and says in `used` how many it took. HTTP_CHUNK_DATA:
 * the last `*data_n` of those taken are content. HTTP_CHUNK_MORE: all were
 * taken, more must come. HTTP_CHUNK_END: the body is complete; bytes not
 * taken belong to the next message. -EBADMSG: malformed, and stays so.
 */
int http_chunked_next(struct http_chunked *d, const char *p, size_t n,
		      size_t *used, size_t *data_n) MUST_CHECK;

/* Encoding: the line in front of `n` (> 0) bytes; they are followed by CRLF. */
enum { HTTP_CHUNK_LINE = 20 };
size_t http_chunk_line(char out[HTTP_CHUNK_LINE], size_t n);
void http_chunk_add(struct buf *b, const void *p, size_t n);
#define HTTP_LAST_CHUNK "0\r\n\r\n"
