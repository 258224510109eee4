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
	int talk_fd; /* what the child says: launch_hear() */
};

/* What a child says, in this order. */
enum launch_word {
	LAUNCH_NET = 1, /* I am in my network: the part had none */
	LAUNCH_RAN,     /* the agent runs */
	LAUNCH_FAILED,  /* it is gone, and may have said why */
};

/*
 * In two halves: the child is started as soon as the part's group can take it
 * and builds what depends on nothing else; launch_go() gives it the namespaces
 * of the finished part and the socket that the agent will listen on.
 *
 * The caller stands in the warden's small mount namespace, where /pool is the
 * pool and the directories of LAUNCH_DIRS are there and empty. At launch_go()
 * the volume spec->id and the image spec->image are in the pool, and the
 * groups have their limits.
 */
#define LAUNCH_DIRS \
	{ "t", "t/l", "t/u", "w", "r", "vdev", "vproc", "vsys", "vcover" }
int launch_begin(const struct launch_host *h, const struct launch_spec *s,
		 const struct part *p, struct launched *out,
		 struct err *e) MUST_CHECK;
/* Of both: a child that has failed is no error here, it tells so itself; the
 * second says LAUNCH_FAILED then. The first one after part_start(), if that
 * came after launch_begin(). */
int launch_groups(const struct launched *l, struct err *e) MUST_CHECK;
int launch_go(const struct launched *l, const struct launch_spec *s,
	      const struct part *p, int listen_fd, struct err *e) MUST_CHECK;

/* What launch_go() left attached for the root: when there is time for it, or at
 * the next one. */
void launch_tidy(void);

/*
 * Waits for the child's next word, or is told why there will be none. Who has
 * other things to do asks when the other end of talk_fd has hung up: nothing is
 * said after that.
 */
int launch_hear(int talk_fd, struct err *e) MUST_CHECK;

/* Puts the agent's program into a sealed memfd: an O_PATH descriptor. */
int launch_load_agent(const char *path, struct err *e) MUST_CHECK;
