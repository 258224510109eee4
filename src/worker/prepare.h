/*
 * Makes an unpacked tree a root that a sandbox can start from: directories to
 * mount on, the user, the `sudo` that asks the agent. Links in the tree are
 * followed, as if chrooted, only where an image may have them (/etc/passwd,
 * /usr/local/bin); what will be a mount point must be a real directory.
 */
#pragma once

#include "base/err.h"

/* `shim_fd`: the sudo program, open for reading at any position. */
int prepare(int root_fd, int shim_fd, struct err *e) MUST_CHECK;
