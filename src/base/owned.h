/* Directories that belong to a role: made, or given their owner again. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* `path` below `parent_fd`, with its owner and mode: a descriptor, or -errno.
 * A link is refused. */
int owned_dir_at(int parent_fd, const char *path, uid_t uid, gid_t gid,
		 unsigned mode, struct err *e) MUST_CHECK;
/*
 * The same for one that others look into: it gets its name when it has its
 * owner and mode. Several may do this at once.
 */
int owned_new_dir_at(int parent_fd, const char *name, uid_t uid, gid_t gid,
		     unsigned mode, struct err *e) MUST_CHECK;
/* One that everybody may enter; made if it is not there. */
int owned_top(const char *path, struct err *e) MUST_CHECK;
