/*
 * The first process of a microVM: a small warden for one sandbox. It finds
 * its disks and its line to the host, and then does what the warden of a host
 * does: the same launch, of the same agent, behind the same walls. Users,
 * sudo, limits and the protocol are those of a container because they are one.
 *
 *	main.c		the steps, in order
 *	machine.c	modules, views, the root that launches start from
 *	disk.c		image and volume
 *	bridge.c	the host's line, and the agent's socket
 *	settle.c	what is done ahead, for those who start as this one
 *	control.c	what the host asks of us
 *	door.c		what goes out, and in: a process of its own
 *	look.c		instead of a sandbox: what one wrote, for the host
 *
 * It is told what to do by its arguments (`box.key=value`, behind the "--" of
 * the kernel's command line), which come from the host's warden. What it says
 * goes to the console. When it ends, so does the machine.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "guest/words.h"
#include "sandbox/cgroup.h"
#include "sandbox/container/launch.h"
#include "sandbox/container/part.h"
#include "wire/guest.h"
#include "wire/warden.h"

struct control {
	struct guest_req req; /* what came of the next one... */
	size_t have;          /* ...so far */
	struct guest_rep rep; /* the last answer... */
	bool unsaid;          /* ...which was not taken yet */
};

struct guest {
	struct launch_spec spec;
	struct cgroup_host cg;
	struct launch_host launch;
	struct part part;
	struct launched box;
	int port_fd[GUEST_PORTS]; /* to the host */
	int listen_fd;            /* of the agent, until it has it */
	int group_fd;             /* of the sandbox: agent and users */
	bool settles;             /* others will start as this one */
	struct control control;
	bool looks; /* at a disk; there is no sandbox */
};

/* Where the agent listens, in the machine's own root. */
#define GUEST_AGENT_SOCK "agent.sock"

int machine_load(struct guest *g, struct err *e) MUST_CHECK;
int machine_root(struct guest *g, struct err *e) MUST_CHECK;
int machine_ports(struct guest *g, struct err *e) MUST_CHECK;
int disk_mount(struct guest *g, struct err *e) MUST_CHECK;
int settle(struct guest *g, struct err *e) MUST_CHECK;
/* To be read: nothing on it changes but what its journal says. */
int disk_mount_quiet(struct guest *g, struct err *e) MUST_CHECK;
int control_start(struct guest *g, struct err *e) MUST_CHECK;
/* Something happened to a port: serves what was asked. */
void control_look(struct guest *g);
/* In the sandbox's network, from now on. */
int door_start(struct guest *g, struct err *e) MUST_CHECK;
/* Until the sandbox has ended. */
int bridge_run(struct guest *g, struct err *e) MUST_CHECK;
/* What a sandbox wrote to this disk, to who is at the agent's line. */
int look_run(struct guest *g, struct err *e) MUST_CHECK;
