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
	int oom_fd; /* own oom_score_adj; -1: none */
	/* Their groups: born in the one, joins the other; -1: none. Without
	 * both, a child is where the agent is. */
	int into_fd, join_fd;
	unsigned nofile; /* open files of each; 0: the usual */
	bool sudo;       /* uid 0 may be asked for */
	unsigned cpus;   /* processors that each may use; 0: all */
};

struct plan {
	const struct confine *confine;
	char **argv, **env;
	const struct builtin *builtin; /* not NULL: instead of an exec */
	const char *cwd;               /* "": home, or / without one */
	int cwd_fd;                    /* used instead of cwd when not -1 */
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
/* The same, of a child that waits for its order: agent_settle() is called by
 * who gives it one. */
pid_t child_ahead(const struct confine *c, struct err *e) MUST_CHECK;
/* In the child: what cannot be given to clone3(). */
int child_join(const struct confine *c, struct err *e) MUST_CHECK;

/*
 * Once, and off the path of the first process: what all of them need, and the
 * agent's own filter. Until then the agent has handled nothing but words of
 * the host and the image's list of users; who sets the first process going
 * calls it right after that, so before a byte of what was started can be. A
 * failure ends the agent.
 */
void agent_settle(void);

/*
 * The two halves of what a child does: all that no plan is needed for, and the
 * rest. child_finish() returns only on failure; `*fd` is closed by exec, and is
 * where child_fail() tells the reason. In between a child may wait; it then
 * keeps this descriptor alone, which child_keep() moves to its place.
 */
int child_prepare(const struct confine *c, struct err *e) MUST_CHECK;
int child_keep(int *fd, struct err *e) MUST_CHECK;
int child_finish(const struct plan *p, int *fd, struct err *e) MUST_CHECK;
void child_fail(int fd, const struct err *e) __attribute__((noreturn));

/*
 * Starts the process: its pid, or -errno. `*status_fd` is then a pipe that
 * ends without a byte when the program runs, or carries a `struct err`.
 */
pid_t child_start(const struct plan *p, int *status_fd,
		  struct err *e) MUST_CHECK;
/* What came through it: 1 runs, 0 wait (EAGAIN), or -errno and the reason. */
int child_status(int status_fd, struct err *e) MUST_CHECK;
