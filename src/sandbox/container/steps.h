/*
 * The steps of a launch, as the child runs them: all between clone and exec,
 * as the host's root until step_ids(). Internal to this directory.
 */
#pragma once

#include "sandbox/container/launch.h"

/* Descriptors that the agent gets; the launcher sorts them into place. */
enum { FD_LISTEN = 3, FD_OOM, FD_JOIN, FD_ERR, FD_AGENT, FD_USERNS, FD_END };

struct launch_ctx {
	const struct launch_host *host;
	const struct launch_spec *spec;
	const struct part *part;
	int listen_fd, err_fd;
	int root_fd; /* the sandbox's root, from step_root() on */
	int oom_fd;  /* of our own process, from step_proc() on */
};

typedef int step_fn(struct launch_ctx *l, struct err *e);

step_fn step_groups; /* launch.c */
step_fn step_basics;
step_fn step_root; /* root.c */
step_fn step_pivot;
step_fn step_dev; /* view.c: /dev, /proc, /sys */
step_fn step_proc;
step_fn step_sys;
step_fn step_limits;
step_fn step_fds;
step_fn step_ids;
step_fn step_exec;

/* Opens a directory of the new root to mount on, making it when the image has
 * none; a link in its place is refused. */
int mount_point(const struct launch_ctx *l, const char *name,
		struct err *e) MUST_CHECK;
