/*
 * Starts the relay of a VM's door (src/relay): beside QEMU, in its network and
 * its groups, with an id that is nobody else's and nothing of the host but its
 * descriptors.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "sandbox/cgroup.h"

struct relay_spec {
	const struct cgroup_host *cg;
	unsigned slot;
	uid_t uid;
	int vm_fd;      /* pidfd of QEMU */
	int program_fd; /* O_PATH */
	int line_fd;    /* to the guest's port */
	int listen_fd;  /* where the warden connects to */
};

/* Its pid. What fails before it runs goes to the log. */
pid_t relay_start(const struct relay_spec *s, int *pid_fd,
		  struct err *e) MUST_CHECK;
