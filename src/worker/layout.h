/*
 * Archives of images: an OCI layout or a docker archive in a tar. Both are
 * documents that name each other, and layers; see image/oci.h.
 */
#pragma once

#include "worker/unpack.h"

enum layout_guess {
	GUESS_NONE, /* the entry says nothing */
	GUESS_TREE, /* a root file system */
	GUESS_IMAGE,
};

/* What the archive is, by one of its first entries. */
enum layout_guess layout_guess(struct archive_entry *ae);
/* The rest of the archive from `ae` on becomes a root file system. */
int layout_unpack(struct job *j, struct archive_entry *ae,
		  struct err *e) MUST_CHECK;
