/*
 * Starts the container tier's sandbox: the agent as PID 1 in namespaces of
 * its own, on a root made of image and volume. See launch.c for the order of
 * the steps and why it is that one.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "sandbox/cgroup.h"
#include "sandbox/container/part.h"
#include "wire/warden.h"

/* What all launches share; opened once. */
struct launch_host {
	const struct cgroup_host *cg;
	int proc_fd;  /* /proc of the host */
	int agent_fd; /* the agent: a sealed memfd, opened O_PATH */
};

struct launched {
	pid_t pid;
	int pid_fd;
	int err_fd; /* a struct err comes when a step failed; an end of file
		       alone means that the agent runs */
};

/*
 * The caller stands in the warden's small mount namespace, where /pool is the
 * pool and /l, /u, /r are empty directories; the volume spec->id and the image
 * spec->image are in the pool; the groups of `p` have their limits.
 */
int launch_start(const struct launch_host *h, const struct launch_spec *s,
		 const struct part *p, int listen_fd, struct launched *out,
		 struct err *e) MUST_CHECK;

/* Puts the agent's program into a sealed memfd: an O_PATH descriptor. */
int launch_load_agent(const char *path, struct err *e) MUST_CHECK;
