/*
 * The last thing before QEMU's own code: what only its start needed is taken
 * away (seccomp/qemu_main.policy). Debian's small QEMU has no filter of its own
 * that would do it.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "qemu/call.h"

static const struct sock_filter code[] = {
#include "seccomp/qemu_main.inc"
};

/* Without a number: after those that have one. */
__attribute__((constructor)) static void close_behind(void)
{
	const struct sock_fprog prog = {
		.len = sizeof(code) / sizeof(code[0]),
		.filter = (struct sock_filter *)code,
	};

	if (call(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		 SECCOMP_FILTER_FLAG_TSYNC, (long)(intptr_t)&prog) != 0)
		call(SYS_exit_group, 126, 0, 0);
}
