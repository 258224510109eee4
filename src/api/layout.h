/*
 * An image as one tar, of documents and blobs: what an import is fed with
 * after a pull, and what an export sends.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha.h"
#include "image/oci.h"

struct api;

enum { LAYOUT_PARTS_MAX = OCI_LAYERS_MAX + 8 };

struct layout {
	struct api *api;
	struct layout_part {
		struct buf head; /* the tar's header, and a document */
		char digest[OCI_DIGEST_CAP]; /* "": only the head */
		uint64_t size;
	} *parts;
	size_t n_parts;
	/* Where it is. */
	size_t i;
	uint64_t at; /* in the blob */
	size_t zeros;
	int fd;
	struct sha256 sha;
};

void layout_init(struct layout *l, struct api *a);
void layout_done(struct layout *l);
void layout_add_text(struct layout *l, const char *path, const void *p,
		     size_t n);
void layout_add_blob(struct layout *l, const char *path,
		     const struct oci_blob *b);
/* All bytes of it. */
uint64_t layout_size(const struct layout *l);
/*
 * The next bytes: how many, 0 at the end, -errno. EBADMSG: a blob was not what
 * its name says; it is gone.
 */
ssize_t layout_read(struct layout *l, char *out, size_t cap,
		    struct err *e) MUST_CHECK;
