/*
 * Starts the microVM tier's sandbox: QEMU in place of the agent, in the slot,
 * groups and namespaces of a container, with less than a container has: no
 * capability in any namespace, a root with nothing but QEMU and its kernel.
 * Whoever takes QEMU over from inside has a process that can do nothing.
 *
 * Listening sockets go to QEMU, which carries each connection to a port of the
 * guest: the api cannot tell the difference to an agent's own.
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
	VM_PIDS = 64,       /* threads of QEMU, beside one of each processor */
	VM_IO_THREADS = 16, /* of them, those that wait for its disks */
	/* So many snapshots with all of its memory have room beside what is
	 * on its disk. */
	VM_STATES = 8,
};

/* Opened once. */
struct vm_host {
	const struct cgroup_host *cg;
	int proc_fd;
	int mnt_fd;          /* mount namespace of the host */
	char dir[CONF_PATH]; /* with vmlinux, initrd and disk.ext4 */
	int empty_fd;        /* disk.ext4: a small empty file system */
	int track_fd;        /* library of QEMU's, see qemu/track.h */
	uint64_t tsc_khz;    /* for emulation */
	bool kvm;
	bool small; /* VM_QEMU_SMALL is there */
	/* By what a state of a machine is bound to this host: size and time of
	 * QEMU, the small one, kernel and initrd; the processor. */
	uint64_t files[8];
	uint32_t cpu[4];
};

/*
 * How its memory begins. A template is booted with memory that others will
 * start from; what is restored maps such memory privately, and waits
 * (`-incoming defer`) to be told its devices; what is just booted gets empty
 * memory in the same way, so that all but templates look alike from outside.
 */
enum vm_mode {
	VM_TEMPLATE,
	VM_BOOT,
	VM_RESTORE,
	VM_PROBE, /* has neither disks nor lines: says that it is there */
};

/* Debian's QEMU, and its small one: KVM and the machine `microvm` alone, half
 * the memory, started in half the time. */
#define VM_QEMU "/usr/bin/qemu-system-x86_64"
#define VM_QEMU_SMALL "/usr/bin/qemu-system-x86_64-microvm"

/* What one VM is made of. */
struct vm_files {
	enum vm_mode mode;
	int base_fd;              /* disk of the image, read-only */
	int disk_fd;              /* its own */
	int ram_fd;               /* a memfd of vm_ram_bytes() */
	int console_fd;           /* where its console is written to */
	int port_fd[GUEST_PORTS]; /* listening, where its lines begin */
	int qmp_fd;               /* listening, for QEMU itself */
};

struct vm_started {
	pid_t pid;
	int pid_fd;
	int talk_fd; /* a struct err, or an end of file: QEMU runs */
};

/* Is what it needs there? ENOTSUP with what to do about it. */
int vm_host_open(struct vm_host *h, struct err *e) MUST_CHECK;
/* The QEMU for a machine of this host. */
const char *vm_program(const struct vm_host *h);
/* The groups' limits of a VM with this spec. */
struct cgroup_limits vm_limits(const struct launch_spec *s);
uint64_t vm_ram_bytes(const struct launch_spec *s);
unsigned vm_processors(const struct launch_spec *s);
/* What its volume may hold: the disk, and its memory in some snapshots. */
uint64_t vm_volume_bytes(const struct launch_spec *s);
/* Everything stays the caller's. The part is finished, its groups have their
 * limits. */
int vm_start(const struct vm_host *h, const struct launch_spec *s,
	     const struct part *p, const struct vm_files *f,
	     struct vm_started *out, struct err *e) MUST_CHECK;
