/*
 * The files of an image archive that came before anybody knew what they are:
 * one nameless file in the volume that is filled, and a table of what is where
 * in it. Everything is found by its name in the archive; links of the archive
 * are entries of the table and nothing else.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/oci.h"
#include "worker/supply.h"

struct spooled {
	char *name;
	char *link; /* the name that this is another name of, or NULL */
	uint64_t offset, size;
	char digest[OCI_DIGEST_CAP];
};

struct spool {
	int fd;
	uint64_t n_bytes;
	struct spooled *v;
	size_t n, cap;
};

/* In the empty directory `root_fd`. */
int spool_init(struct spool *s, int root_fd, struct err *e) MUST_CHECK;
void spool_done(struct spool *s);

/*
 * Begins an entry; the bytes follow, then spool_end() makes it known. The name
 * must be new.
 */
int spool_begin(struct spool *s, const char *name, struct err *e) MUST_CHECK;
int spool_add(struct spool *s, const void *p, size_t n,
	      struct err *e) MUST_CHECK;
void spool_end(struct spool *s, const char *digest);
/* `to` is the name that `name` means. */
int spool_link(struct spool *s, const char *name, const char *to,
	       struct err *e) MUST_CHECK;

/* Links are followed; NULL when there is nothing (yet). */
const struct spooled *spool_find(const struct spool *s, const char *name);
/* A small one, whole. */
int spool_read(const struct spool *s, const struct spooled *f, struct buf *b,
	       struct err *e) MUST_CHECK;
