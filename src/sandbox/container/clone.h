/* clone3(): a child in its control group and namespaces from birth. */
#pragma once

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Like fork(): 0 in the child, its pid in the parent, or -errno. */
static inline pid_t clone_into(uint64_t flags, int cgroup_fd, int *pid_fd)
{
	struct clone_args a = { .flags =
					flags | CLONE_PIDFD | CLONE_INTO_CGROUP,
				.pidfd = (uint64_t)(uintptr_t)pid_fd,
				.exit_signal = SIGCHLD,
				.cgroup = (uint64_t)cgroup_fd };
	long pid = syscall(SYS_clone3, &a, sizeof(a));

	return pid < 0 ? (pid_t)-errno : (pid_t)pid;
}
