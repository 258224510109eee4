/*
 * Bytes of processes inside JSON: text as it is, anything else as base64.
 * Written straight into the answer's buffer, because it may be much.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/base64.h"
#include "base/buf.h"

/* Appends what stands between the quotes; `p` is UTF-8. */
void json_text_add(struct buf *b, const char *p, size_t n);

/*
 * How many of the bytes to take so that no character is cut at the end: `n`,
 * or up to 3 less. What is not UTF-8 anyway is not held back.
 */
size_t utf8_whole(const char *p, size_t n);
/* How many bytes at the start continue a character that began before: 0-3. */
size_t utf8_rest(const char *p, size_t n);

/* Appends a value, compact. */
void json_add(struct buf *b, const json_t *j);
/* A string for people; what is not UTF-8 becomes U+FFFD. */
json_t *json_lossy(const char *p, size_t n);
