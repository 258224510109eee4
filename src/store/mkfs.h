/* Runs mkfs.btrfs. Internal to src/store/. */
#pragma once

#include "base/err.h"

/* On the file `name` in that directory. */
int mkfs_btrfs(int dir_fd, const char *name, struct err *e) MUST_CHECK;
