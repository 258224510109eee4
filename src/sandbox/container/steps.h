/*
 * The steps of a launch, as the child runs them: all between clone and exec,
 * as the host's root until step_ids(). Internal to this directory.
 */
#pragma once

#include "sandbox/container/launch.h"

/* Descriptors that the agent gets; the launcher sorts them into place. */
enum {
	FD_LISTEN = 3,
	FD_OOM,
	FD_INTO,
	FD_JOIN,
	FD_TALK,
	FD_AGENT,
	FD_USERNS,
	FD_END
};

struct launch_ctx {
	const struct launch_host *host;
	const struct launch_spec *spec;
	unsigned slot;
	bool has_groups; /* from the beginning, or else after a word */
	bool has_net;    /* the part's; or else we make it */
	uint32_t base, agent_uid;
	int talk_fd;          /* to the warden */
	int oom_fd;           /* of our own process, from step_proc() on */
	int into_fd, join_fd; /* for the agent's children; step_groups() */
	/* From launch_go() on. */
	int userns_fd, cgroupns_fd, netns_fd, listen_fd;
	int root_fd; /* the sandbox's root */
};

typedef int step_fn(struct launch_ctx *l, struct err *e);

/* Before launch_go(). */
step_fn step_net; /* launch.c */
step_fn step_basics;
step_fn step_dev; /* view.c: /dev, /proc, /sys, at places of our own */
step_fn step_proc;
step_fn step_tell_net; /* launch.c */
step_fn step_sys;
step_fn step_groups; /* launch.c */
/* After it. */
step_fn step_spaces; /* launch.c */
step_fn step_root;   /* root.c */
step_fn step_machine_id;
step_fn step_volumes;
step_fn step_views;  /* view.c: moves them into the root */
step_fn step_pivot;  /* root.c */
step_fn step_limits; /* launch.c */
step_fn step_fds;
step_fn step_ids;
step_fn step_exec;

/* Of launch_go(), not of the child: the root of a sandbox, a mount that is
 * nowhere yet. launch_tidy() takes down what was needed for it. */
int root_make(const struct launch_spec *s, const struct part *p,
	      struct err *e) MUST_CHECK;

/* Opens a directory of the new root to mount on, making it when the image has
 * none; a link in its place is refused. */
int mount_point(const struct launch_ctx *l, const char *name,
		struct err *e) MUST_CHECK;
