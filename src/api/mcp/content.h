/* What tools answer with: text and images, from bytes that may be anything. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* An item of text; what is not UTF-8 becomes U+FFFD. */
json_t *content_text(const char *p, size_t n);
/* A list with one. */
json_t *content_one(const char *p, size_t n);
/* {"type": "image", ...} */
json_t *content_image(const char *p, size_t n, const char *mime);

/* "image/png"..., by the first bytes; NULL: no image that models can see. */
const char *image_type(const char *p, size_t n);
enum { IMAGE_TYPE_BYTES = 12 }; /* that image_type() looks at */
/* Not text: has NULs, or is no UTF-8 but for a character cut at the end. */
bool is_binary(const char *p, size_t n);

/* The first and the last of a stream that may be long. */
struct clip {
	struct buf head, tail;
	size_t half;
	uint64_t total;
};
void clip_add(struct clip *c, const char *p, size_t n);
/* Appends it, with a line between the halves that says what is missing. */
void clip_text(struct clip *c, struct buf *out);
void clip_done(struct clip *c);
/* Its last line that is not empty, at most `cap` - 1 bytes of it. */
void clip_last_line(const struct clip *c, char *out, size_t cap);
