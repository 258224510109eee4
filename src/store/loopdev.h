/* Loop devices, by ioctl. Internal to src/store/. */
#pragma once

#include "base/err.h"

enum { LOOPDEV_PATH = 32 };

/* The device that has this file behind it: 0, -ENOENT when no device has it, or
 * another -errno when that is not known. */
int loopdev_find(int file_fd, char path[LOOPDEV_PATH]) MUST_CHECK;
/*
 * A new one, with direct I/O where the file system under the file can. It goes
 * away by itself when its last user does; the descriptor returned is one, a
 * mount is another.
 */
int loopdev_attach(int file_fd, char path[LOOPDEV_PATH],
		   struct err *e) MUST_CHECK;
