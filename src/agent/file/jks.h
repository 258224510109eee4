/*
 * Java's trust store (JKS): certificates by name, and at the end a SHA-1 of
 * all of it with a password that everybody knows ("changeit").
 */
#pragma once

#include "base/buf.h"

enum { JKS_MAX = 1 << 20 }; /* bytes of a store that is looked at */

/*
 * The store in `out`, with this certificate (DER) under `alias` in place of
 * what has that name. 1: done. 0: it is in there already, `out` is empty.
 * -EBADMSG: no such store, or not one of certificates alone with the usual
 * password; so not one to change.
 */
int jks_put(const void *store, size_t n, const char *alias, const void *der,
	    size_t der_n, struct buf *out) MUST_CHECK;
