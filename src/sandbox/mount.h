/*
 * The mount API by descriptors: nothing here walks a path in a tree that a
 * sandbox can write. Thin wrappers with errors that name what failed.
 */
#pragma once

#include <stdint.h>
#include <sys/mount.h>

#include "base/err.h"

#define VIEW_FLAGS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

struct mount_opt {
	const char *key;   /* the list ends at NULL */
	const char *value; /* NULL: a flag */
};

/* A new file system, not attached anywhere: descriptor of its root. */
int mount_new(const char *type, const struct mount_opt *opts,
	      unsigned attr_flags, struct err *e) MUST_CHECK;
/* Attaches a detached mount onto the directory or file `at_fd`. */
int mount_at(int mnt_fd, int at_fd, struct err *e) MUST_CHECK;
/*
 * A detached copy of the mount that holds `path` (relative to dir_fd, ""
 * means dir_fd itself), rooted there and private, with these attributes added;
 * with `userns_fd` >= 0 its ids are mapped by that user namespace.
 */
int mount_clone(int dir_fd, const char *path, uint64_t attr_flags,
		int userns_fd, struct err *e) MUST_CHECK;
/*
 * Opens `name` below `dir_fd` (O_PATH) without following any link or crossing
 * a mount. 0 or more, or -errno.
 */
int open_beneath(int dir_fd, const char *name, int flags);
