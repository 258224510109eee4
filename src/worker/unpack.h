/*
 * Unpacks a tar stream into an empty directory, as an image's root: a root
 * file system, or the layers of an image (layout.h).
 *
 * Our own extraction over libarchive's reader: what is wanted here is the
 * opposite of a general one (no overwriting through links, no devices, no
 * privileged bits or attributes, hard limits), and it must be small enough to
 * read. Everything in the archive is an attacker's.
 *
 * Kept: names as bytes, types, content with holes, permissions, times of
 * change, hard links, `user.*` attributes, ids below 65536.
 * Dropped: set-id bits of files (nothing set-id ever lies in the pool; under
 * no_new_privs they would do nothing inside), all other attributes and ACLs,
 * device nodes and sockets. Ids from 65536 up become 65534.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "worker/report.h"
#include "worker/source.h"
#include "worker/whiteout.h"

struct counts {
	uint64_t entries;
	uint64_t bytes;       /* of content, holes not counted */
	uint64_t skipped;     /* devices and sockets */
	uint64_t executables; /* regular files with an x bit */
};

/* Directories whose times are set at the end: records, one after another. */
struct later {
	char *p;
	size_t len, cap;
};

struct job {
	int root_fd;
	struct supply_fd tar;
	struct source archive; /* what comes in */
	struct source *src;    /* where entries come from: that, or a layer */
	struct report *report;
	struct counts n;
	uint64_t unchecked; /* bytes since the pool's free space was checked */
	struct later dirs;
	bool in_layer;         /* names of whiteouts mean something */
	struct seen seen;      /* of the layer */
	uint64_t layers_bytes; /* of the plain tars of layers so far */
};

/* `j` is zeroed but for root_fd and report. */
int unpack(struct job *j, int tar_fd, struct err *e) MUST_CHECK;
/* The entries of `src`, to its end. */
int unpack_entries(struct job *j, struct err *e) MUST_CHECK;
void job_done(struct job *j);
