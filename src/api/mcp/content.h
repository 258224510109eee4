/* What tools answer with: text and images, from bytes that may be anything. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* An item of text; what is not UTF-8 becomes U+FFFD. */
json_t *content_text(const char *p, size_t n);
/* A list with one. */
json_t *content_one(const char *p, size_t n);
/* {"type": "image", ...} */
json_t *content_image(const char *p, size_t n, const char *mime);

/* "image/png"..., by the first bytes; NULL: no image that models can see. */
const char *image_type(const char *p, size_t n);
/* Not text: has NULs, or is no UTF-8 but for a character cut at the end. */
bool is_binary(const char *p, size_t n);
