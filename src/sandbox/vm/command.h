/* The command line of QEMU. Internal to this directory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "guest/words.h"
#include "sandbox/vm/launch.h"

/* Descriptors that QEMU is started with, behind the usual three. */
enum vm_fd {
	VM_FD_PORT = 3, /* listening: GUEST_PORTS of them */
	VM_FD_QMP = VM_FD_PORT + GUEST_PORTS, /* this one, too */
	VM_FD_BASE,
	VM_FD_DISK,
	VM_FD_RAM,
	VM_FD_TRACK, /* see qemu/track.h */
	VM_FD_END
};

enum { VM_ARGS_MAX = 80, VM_TEXT_MAX = 8 * 1024 };

struct vm_command {
	char *argv[VM_ARGS_MAX + 1]; /* ends at NULL */
	size_t n, used;
	bool full;
	char text[VM_TEXT_MAX]; /* that argv points into */
};

int vm_command(struct vm_command *c, const struct vm_host *h,
	       const struct launch_spec *s, enum vm_mode mode,
	       struct err *e) MUST_CHECK;
