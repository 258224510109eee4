/* Base64 (RFC 4648), with padding. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

void base64_add(struct buf *b, const void *p, size_t n);
/* Appends the bytes, or -EINVAL: a foreign letter, no or wrong padding. */
int base64_get(struct buf *b, const char *s, size_t n) MUST_CHECK;
