/* What the host's warden and the first process of a guest agree on. */
#pragma once

/* Arguments of the guest's: "box.key=value", behind the "--" of the kernel's
 * command line. */
#define GUEST_WORD "box."
/* The virtio port that carries the agent's connection. */
#define GUEST_PORT "agent"
/* Disks, in the order they are given to QEMU. */
#define GUEST_BASE "/dev/vda"
#define GUEST_DISK "/dev/vdb"
