/*
 * Starts the microVM tier's sandbox: QEMU in place of the agent, in the slot,
 * groups and namespaces of a container, with less than a container has: no
 * capability in any namespace, a root with nothing but QEMU and its kernel.
 * Whoever takes QEMU over from inside has a process that can do nothing.
 *
 * Its listening sockets go to QEMU, which carries what is said there to ports
 * of the guest. One of them is the agent's: the api cannot tell the difference.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "guest/words.h"
#include "sandbox/cgroup.h"
#include "sandbox/container/part.h"
#include "wire/warden.h"

enum {
	/* What the guest's own kernel takes of its memory, and QEMU besides:
	 * its code for emulation, its heap. */
	VM_KERNEL_BYTES = 64 << 20,
	VM_QEMU_BYTES = 192 << 20,
	VM_PIDS = 64, /* threads of QEMU */
};

/* Opened once. */
struct vm_host {
	const struct cgroup_host *cg;
	int proc_fd;
	int mnt_fd;          /* mount namespace of the host */
	char dir[CONF_PATH]; /* with vmlinux, initrd and disk.ext4 */
	int template_fd;     /* disk.ext4: a small empty file system */
	uint64_t tsc_khz;    /* for emulation */
	bool kvm;
};

/* What one VM has of the host. */
struct vm_files {
	int base_fd;              /* the image, read-only */
	int disk_fd;              /* its own */
	int port_fd[GUEST_PORTS]; /* listening, where its lines begin */
};

struct vm_started {
	pid_t pid;
	int pid_fd;
	int talk_fd;    /* a struct err, or an end of file: QEMU runs */
	int console_fd; /* what the guest writes to its console */
};

/* Is what it needs there? ENOTSUP with what to do about it. */
int vm_host_open(struct vm_host *h, struct err *e) MUST_CHECK;
/* The groups' limits of a VM with this spec. */
struct cgroup_limits vm_limits(const struct launch_spec *s);
/* Everything stays the caller's. The part is finished, its groups have their
 * limits. */
int vm_start(const struct vm_host *h, const struct launch_spec *s,
	     const struct part *p, const struct vm_files *f,
	     struct vm_started *out, struct err *e) MUST_CHECK;
