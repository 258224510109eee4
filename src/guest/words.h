/* What the host's warden and the first process of a guest agree on. */
#pragma once

/* Arguments of the guest's: "box.key=value", behind the "--" of the kernel's
 * command line. */
#define GUEST_WORD "box."
/*
 * Lines between the two, as virtio ports: each is a listening socket on the
 * host, in the sandbox's run directory. In the order they are given to QEMU,
 * which is a part of every saved state.
 */
enum guest_port {
	GUEST_PORT_AGENT,   /* the agent's connection */
	GUEST_PORT_CONTROL, /* what the host wants of the guest itself */
	GUEST_PORT_DOOR,    /* connections out and in: wire/door.h */
	GUEST_PORTS
};
#define GUEST_PORT_NAMES                          \
	{                                         \
		[GUEST_PORT_AGENT] = "agent",     \
		[GUEST_PORT_CONTROL] = "control", \
		[GUEST_PORT_DOOR] = "door",       \
	}
/* What a guest says on its console that was only asked whether it boots, by the
 * word "probe=1". */
#define GUEST_PROBED "guest: here"
/* With the word "look=1" there is no sandbox: the disk's content goes to who is
 * at the agent's line. */
/* Disks, in the order they are given to QEMU. */
#define GUEST_BASE "/dev/vda"
#define GUEST_DISK "/dev/vdb"
