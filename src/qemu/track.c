/*
 * Three system calls, before close.c takes them away. A kernel that does not
 * know them leaves everything as it is.
 */
#include "qemu/track.h"

#include <stdint.h>
#include <sys/syscall.h>

#include "qemu/call.h"

__attribute__((constructor(101))) static void start(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = TRACK_FEATURES };
	long fd = call(SYS_userfaultfd, TRACK_FLAGS, 0, 0);

	if (fd < 0)
		return;
	if (call(SYS_ioctl, fd, (long)UFFDIO_API, (long)(intptr_t)&api) == 0)
		call(SYS_dup3, fd, TRACK_FD, O_CLOEXEC);
	call(SYS_close, fd, 0, 0);
}
