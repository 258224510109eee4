/*
 * A few system calls, before close.c takes them away. Where the kernel does not
 * know them, nothing stays in that place: the library is one open file for all
 * machines, and its offset would be a word between them.
 */
#include "qemu/track.h"

#include <stdint.h>
#include <sys/syscall.h>

#include "qemu/call.h"

__attribute__((constructor(101))) static void start(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = TRACK_FEATURES };
	long fd = call(SYS_userfaultfd, TRACK_FLAGS, 0, 0);

	if (fd < 0 ||
	    call(SYS_ioctl, fd, (long)UFFDIO_API, (long)(intptr_t)&api) != 0 ||
	    call(SYS_dup3, fd, TRACK_FD, O_CLOEXEC) < 0)
		call(SYS_close, TRACK_FD, 0, 0);
	if (fd >= 0)
		call(SYS_close, fd, 0, 0);
}
