/*
 * Making a process of the sandbox: from the agent, or from a broker (see
 * broker.h) on behalf of its sudo. All that can be prepared is prepared before
 * the fork; what the child does then is a fixed order of steps in child.c, and
 * a step that fails fails the spawn.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "agent/builtin.h"
#include "agent/users.h"
#include "base/err.h"

/* What the launcher gave for the processes of users. */
struct confine {
	int oom_fd;  /* own oom_score_adj; -1: none */
	int join_fd; /* their group; -1: none */
	bool join_v2;
	bool pinned; /* cpus holds the processors they may use */
	bool sudo;   /* uid 0 may be asked for */
	cpu_set_t cpus;
};

struct plan {
	const struct confine *confine;
	char **argv, **env;
	builtin_fn *builtin; /* not NULL: instead of an exec */
	const char *cwd;     /* "": home, or / without one */
	int cwd_fd;          /* used instead of cwd when not -1 */
	struct user user;
	int fds[3];
	bool tty;         /* fds[0] becomes the controlling terminal */
	bool with_parent; /* SIGKILL when its parent ends */
};

/*
 * A fork into the group of user processes, with their oom_score_adj: the pid,
 * 0 in the child (which calls child_join() first), or -errno.
 */
pid_t child_fork(const struct confine *c, struct err *e) MUST_CHECK;
/* In the child: what cannot be given to clone3(). */
int child_join(const struct confine *c, struct err *e) MUST_CHECK;

/*
 * Once, and off the path of the first process: what all of them need, and the
 * agent's own filter. Until then the agent has handled nothing but words of
 * the host; child_start() calls it right after its first fork, so before a
 * byte of what was started can be. A failure ends the agent.
 */
void agent_settle(void);

/*
 * Starts the process: its pid, or -errno. `*status_fd` is then a pipe that
 * ends without a byte when the program runs, or carries a `struct err`.
 */
pid_t child_start(const struct plan *p, int *status_fd,
		  struct err *e) MUST_CHECK;
/* What came through it: 1 runs, 0 wait (EAGAIN), or -errno and the reason. */
int child_status(int status_fd, struct err *e) MUST_CHECK;
