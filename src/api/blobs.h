/*
 * Blobs: what was pulled from registries, or is on its way out of here, by
 * its digest (state_dir/blobs, ours alone). A cache: each can be had again,
 * nothing waits for the disk, and what is read is compared with its name every
 * time. The oldest go when `blobs_size` is reached.
 *
 * HEX is whole; HEX.part is what came of it so far and goes on from there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/sha.h"
#include "image/oci.h"

struct api;

struct blobs {
	int dir_fd;
	struct list uses;
};

/* Embedded in who needs it: it is not removed meanwhile. */
struct blob_use {
	struct list node;
	char digest[OCI_DIGEST_CAP];
	bool writing;
};

int blobs_start(struct api *a, struct err *e) MUST_CHECK;
void blob_use(struct api *a, struct blob_use *u, const char *digest);
/* Harmless when it is not used. */
void blob_unuse(struct blob_use *u);
/* Is it there, whole? One that is becomes the youngest. */
bool blob_has(struct api *a, const struct oci_blob *b);
/* For reading; -errno. */
int blob_open(struct api *a, const char *digest, struct err *e) MUST_CHECK;
void blob_remove(struct api *a, const char *digest);

struct blob_write {
	struct api *api;
	struct blob_use use;
	char part[OCI_PATH_CAP]; /* its name so far; "": not open */
	int fd;
	uint64_t size;   /* that it will have; 0: not known */
	uint64_t at;     /* bytes that are there */
	uint64_t hashed; /* of them */
	struct sha256 sha;
};

/*
 * Goes on with what is there of it. EBUSY: somebody else writes it. Before
 * blob_write_add(), blob_write_hash() is called until it returns 0.
 */
int blob_write_begin(struct blob_write *w, struct api *a,
		     const struct oci_blob *b, struct err *e) MUST_CHECK;
/* One whose digest is not known yet; it starts at 0. */
int blob_write_new(struct blob_write *w, struct api *a,
		   struct err *e) MUST_CHECK;
/* Some of what was there already: 1: there is more of it. */
int blob_write_hash(struct blob_write *w, struct err *e) MUST_CHECK;
int blob_write_add(struct blob_write *w, const void *p, size_t n,
		   struct err *e) MUST_CHECK;
/*
 * It is whole: gets its name, and `digest` (may be NULL) says which. EBADMSG:
 * it is not what was asked for, and gone.
 */
int blob_write_end(struct blob_write *w, char digest[OCI_DIGEST_CAP],
		   struct err *e) MUST_CHECK;
/* Leaves what there is for another time. Harmless when it is over. */
void blob_write_stop(struct blob_write *w);
