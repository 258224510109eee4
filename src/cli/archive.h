/*
 * Directories as tars, for `cp`. Both block, and run in a process of their
 * own beside the one that talks to the daemon.
 */
#pragma once

#include "base/err.h"

/* What is in a directory, on its file system or not; links are not followed. */
int archive_pack(int dir_fd, int out_fd, struct err *e) MUST_CHECK;
/*
 * Into a directory. The tar comes from a sandbox: nothing of it is made
 * outside of the directory, no link that is there is followed, nothing gets
 * special bits, and what is no file, directory or link is left out.
 */
int archive_unpack(int in_fd, int dir_fd, struct err *e) MUST_CHECK;
