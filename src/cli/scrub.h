/* Text that leaves the house: what looks like a secret is taken out of it. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/*
 * Appends `n` bytes of text without our keys, values of names that sound
 * secret ("token=", "password: ", "\"api_key\": \""), passwords in addresses
 * and private keys. Works line by line; control bytes become '?'.
 */
void scrub(struct buf *out, const char *text, size_t n);
