/*
 * There is no library beside this one yet: three system calls, made by hand.
 * A kernel that does not know them leaves everything as it is.
 */
#include "qemu/track.h"

#include <stdint.h>
#include <sys/syscall.h>

static long call(long what, long a, long b, long c)
{
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(what), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return r;
}

__attribute__((constructor)) static void start(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = TRACK_FEATURES };
	long fd = call(SYS_userfaultfd, TRACK_FLAGS, 0, 0);

	if (fd < 0)
		return;
	if (call(SYS_ioctl, fd, (long)UFFDIO_API, (long)(intptr_t)&api) == 0)
		call(SYS_dup3, fd, TRACK_FD, O_CLOEXEC);
	call(SYS_close, fd, 0, 0);
}
