/*
 * A root of a role's own instead of the host's: an empty file system,
 * read-only, that holds what the role works with and nothing else. What is not
 * there cannot be opened, whoever's it is and whoever asks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A directory or a file, which is found where it was. */
struct root_part {
	const char *path;
	int fd;        /* what is put there: from root_apart(); -1: `path` */
	bool writable; /* by who may write to it */
	bool optional; /* a host may be without it */
};

/*
 * A directory as a mount that belongs to no namespace, with what is mounted
 * below it (in a container /etc/resolv.conf and /etc/hosts often are): a
 * descriptor from which no way leads up. Or -errno.
 */
int root_apart(int dir_fd, struct err *e) MUST_CHECK;
/*
 * Enters it, in a mount namespace that the caller has to itself. Descriptors
 * of the host's directories lead to the host: there must be none.
 */
int root_enter(const struct root_part *parts, size_t n,
	       struct err *e) MUST_CHECK;
