/*
 * Work below one directory, the root of the image that is being made. Nothing
 * here follows a symbolic link or leaves the root, whatever the tree holds:
 * every path goes through openat2(2) with RESOLVE_BENEATH and
 * RESOLVE_NO_SYMLINKS (tree_open_inside() follows links, but as if chrooted),
 * and what is done by name is done to the last component, of a directory that
 * is open.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "worker/path.h"

/* "" is the root. A descriptor (O_CLOEXEC), or -errno. */
int tree_open(int root_fd, const char *path, int flags, mode_t mode);
/* Links are followed as a process with that root would. */
int tree_open_inside(int root_fd, const char *path, int flags, mode_t mode);

/*
 * The directory that holds `p` (O_PATH). Missing ones are made, 0755, of
 * root. A link or a file on the way is an error.
 */
int tree_parent(int root_fd, const struct path *p, struct err *e) MUST_CHECK;

/* The same, but links on the way are followed as if chrooted. */
int tree_parent_inside(int root_fd, const struct path *p,
		       struct err *e) MUST_CHECK;

/* Removes everything in a directory. 0 or -errno. */
int tree_clear(int dir_fd);
/* Removes `name` and what is below it; nothing there is fine. 0 or -errno. */
int tree_remove(int dir_fd, const char *name);
