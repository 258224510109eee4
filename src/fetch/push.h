/* Uploads to a registry. */
#pragma once

#include "fetch/session.h"

struct push_source {
	const char *digest;
	uint64_t size;
	/* Fills `p` with the next `n` bytes of it; -errno. */
	int (*bytes)(void *p, size_t n, struct err *e);
	/* The registry has so many. */
	int (*sent)(uint64_t bytes, struct err *e);
};

/*
 * A blob: what fits into one piece goes in one request, more of it in pieces
 * that are each kept until the registry has them.
 */
int push_blob(struct session *s, const struct push_source *from,
	      struct err *e) MUST_CHECK;
int push_manifest(struct session *s, const char *reference,
		  const char *media_type, const void *p, size_t n,
		  struct err *e) MUST_CHECK;
