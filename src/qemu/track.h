/*
 * What of us runs inside of QEMU, before QEMU does: a library that the dynamic
 * linker loads from a descriptor. It leaves in its place one through which the
 * kernel tells which pages were written, see sandbox/vm/written.h; only the
 * process itself can make that.
 */
#pragma once

#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/userfaultfd.h>

/* Where the library is, and then what it made. */
enum { TRACK_FD = 10 };

/* Newer than the headers of some compilers. The first: of faults in the kernel
 * nothing is told, so that nobody can have it wait. */
enum {
	TRACK_FLAGS = O_CLOEXEC | O_NONBLOCK | 1, /* UFFD_USER_MODE_ONLY */
	TRACK_FEATURES = 1 << 13 | 1 << 15,       /* WP_UNPOPULATED, WP_ASYNC */
};
