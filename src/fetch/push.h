/* Uploads to a registry. */
#pragma once

#include "fetch/session.h"

/* Fills `p` with the next `n` bytes of what is sent; -errno. */
typedef int bytes_fn(void *ctx, void *p, size_t n, struct err *e);

/*
 * A blob of `size` bytes: what fits into one piece goes in one request, more
 * of it in pieces that are each kept until the registry has them. `sent` hears
 * how far it is.
 */
int push_blob(struct session *s, const char *digest, uint64_t size,
	      bytes_fn *bytes, int (*sent)(uint64_t bytes, struct err *e),
	      void *ctx, struct err *e) MUST_CHECK;
int push_manifest(struct session *s, const char *reference,
		  const char *media_type, const void *p, size_t n,
		  struct err *e) MUST_CHECK;
