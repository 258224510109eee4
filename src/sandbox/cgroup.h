/*
 * Control groups of sandboxes. Each sandbox has a group named after its slot
 * (bN) in every hierarchy that matters, in it the agent, and below it the
 * group `user` for everything that the agent starts:
 *
 * v2:	bN (memory, pids, io, cpuset)
 *	bN/agent
 *	bN/user (cpu quota, memory)
 * v1:	memory/bN pids/bN cpuacct/bN cpuset/bN
 *	cpu/bN (the agent)
 *	cpu/bN/user (quota)
 *	and in the unified tree bN, for kill and freeze, and bN/user
 *
 * On v1 io is not shared out: its controller does not see buffered writes.
 *
 * The agent is inside the memory and pids limits, but outside the cpu quota:
 * a throttled agent could neither answer nor reap.
 *
 * A group is used once: after cgroup.kill the kernel kills every later
 * CLONE_INTO_CGROUP child of the same group (seen on 6.1 and 6.18).
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/conf.h"
#include "base/err.h"
#include "wire/warden.h"

enum { CGROUP_V1_MAX = 5 };

struct cgroup_host {
	bool v2;                  /* the controllers are in the unified tree */
	int unified_fd;           /* our parent group there */
	int v1_fd[CGROUP_V1_MAX]; /* by v1_table; -1: not on this host */
	bool cpu_accounts;        /* cpuacct is a part of cpu's hierarchy */
	bool cpusets;             /* processors can be chosen */
	char path[CONF_PATH];     /* of the parent group, for people */
};

struct cgroup_limits {
	uint64_t mem_bytes, cpus_milli, pids;
};

/* A whole processor. Who has less waits longer for one: in weight, and with
 * the time slice of everybody (base/slice.h). */
enum { CGROUP_CPU_MILLI = 1000 };

/* Finds the hierarchies and makes our parent group in each. */
int cgroup_host_open(struct cgroup_host *h, const struct conf *c,
		     struct err *e) MUST_CHECK;

/*
 * Makes the groups of a slot, without limits: first the one of the unified
 * tree (a descriptor to clone a process into), then the v1 ones.
 */
int cgroup_make(const struct cgroup_host *h, unsigned slot,
		struct err *e) MUST_CHECK;
int cgroup_make_v1(const struct cgroup_host *h, unsigned slot,
		   struct err *e) MUST_CHECK;
/*
 * v2 only: when nobody is in bN (any more), splits it into agent and user, the
 * latter open to `agent_uid`. Returns a descriptor of the agent's group to
 * clone into.
 */
int cgroup_split(const struct cgroup_host *h, unsigned slot, uid_t agent_uid,
		 struct err *e) MUST_CHECK;
/* v1 only: the group `user` of the unified tree, open to `agent_uid`. */
int cgroup_make_user(const struct cgroup_host *h, unsigned slot,
		     uid_t agent_uid, struct err *e) MUST_CHECK;
int cgroup_limit(const struct cgroup_host *h, unsigned slot,
		 const struct cgroup_limits *l, struct err *e) MUST_CHECK;

/* The groups of a sandbox that runs; they lead nowhere when it is gone. */
struct cgroup_fds {
	bool v2;
	int fd[3]; /* v2: its group; v1: memory, cpu, pids; else -1 */
};
int cgroup_fds_open(struct cgroup_fds *f, const struct cgroup_host *h,
		    unsigned slot, struct err *e) MUST_CHECK;
void cgroup_fds_close(struct cgroup_fds *f);
/*
 * Other limits for one that runs. EBUSY: it uses more memory than that, and
 * nothing was changed. With less memory than before it may take a while: the
 * kernel has to drop what is above.
 */
int cgroup_resize(const struct cgroup_fds *f, const struct cgroup_limits *from,
		  const struct cgroup_limits *to, struct err *e) MUST_CHECK;

/*
 * In a child that was cloned into the unified group: joins the v1 groups, as
 * the agent, or (`user`) as the agent's children will. 0 or -errno.
 */
int cgroup_join(const struct cgroup_host *h, unsigned slot,
		bool user) MUST_CHECK;
/* On v1, who has joined as a user process: back to where the agent is. */
int cgroup_leave_quota(const struct cgroup_host *h, unsigned slot) MUST_CHECK;
/* Where the agent's children are born, and on v1 what they join then (-1 on
 * v2): see wire/agent_args.h. */
int cgroup_open_user(const struct cgroup_host *h, unsigned slot, int *into_fd,
		     int *join_fd, struct err *e) MUST_CHECK;

/*
 * The unified group of a slot: a descriptor that leads nowhere when the group
 * is gone, and never to the next owner of the slot.
 */
int cgroup_open(const struct cgroup_host *h, unsigned slot,
		struct err *e) MUST_CHECK;
/* The same for its group `user`. */
int cgroup_open_user_group(const struct cgroup_host *h, unsigned slot,
			   struct err *e) MUST_CHECK;
enum { CGROUP_FREEZE_MS = 5000 };
/*
 * Freezes, and waits until it is so; ETIMEDOUT leaves it to a thaw. `proc_fd`
 * is the host's /proc for the group of a microVM, which may hold threads of the
 * kernel; -1 for others.
 */
int cgroup_freeze(int group_fd, int proc_fd, struct err *e) MUST_CHECK;
/*
 * For a group that was asked to freeze: does it hold threads of the kernel, so
 * that it will never report frozen, while no other thread of it runs?
 */
bool cgroup_still_beside_kernel(int group_fd, int proc_fd);
/*
 * The same for who does not wait: cgroup_events() has EPOLLPRI when it is
 * worth to ask cgroup_frozen() again. Returns a descriptor that ends it, so
 * that nothing has to be opened then. No error when the group is gone by then.
 */
int cgroup_freeze_begin(int group_fd, struct err *e) MUST_CHECK;
int cgroup_freeze_end(int freezer_fd, struct err *e) MUST_CHECK;
int cgroup_events(int group_fd, struct err *e) MUST_CHECK;
bool cgroup_frozen(int events_fd);
/* No error when it does not stand still, or is gone. */
int cgroup_thaw(int group_fd, struct err *e) MUST_CHECK;
/* The same of a slot, or of its group `user`, without a descriptor of it. */
int cgroup_thaw_slot(const struct cgroup_host *h, unsigned slot, bool user,
		     struct err *e) MUST_CHECK;
/* Is it sure that nobody asked it to stand still? */
bool cgroup_goes_on(const struct cgroup_host *h, unsigned slot);

/* Asks the kernel to take back what memory it can; as long as it takes. */
void cgroup_reclaim(const struct cgroup_fds *f);

/* Kills every process of the slot; it may take a moment until all are gone. */
int cgroup_kill(const struct cgroup_host *h, unsigned slot,
		struct err *e) MUST_CHECK;
/* Removes the groups: 0, also when there are none; -EBUSY while not empty. */
int cgroup_remove(const struct cgroup_host *h, unsigned slot) MUST_CHECK;
/* Slots that have a group, in no order: calls `fn` for each. */
int cgroup_each(const struct cgroup_host *h, void (*fn)(void *ctx, unsigned),
		void *ctx, struct err *e) MUST_CHECK;
/*
 * Looks for a process in a group whose slot is not marked in `owned`. Returns 1
 * and the slot, 0 when all such groups are empty, or -errno if unknown.
 */
int cgroup_find_populated(const struct cgroup_host *h,
			  const unsigned char *owned, unsigned n_owned,
			  unsigned *slot, struct err *e) MUST_CHECK;
void cgroup_use(const struct cgroup_host *h, unsigned slot,
		struct sandbox_use *u);
uint64_t cgroup_cpu_us(const struct cgroup_host *h, unsigned slot);
/* Of all sandboxes and workers. */
uint64_t cgroup_cpu_us_all(const struct cgroup_host *h);
/* Of files that it changed, and that are not on disk. */
uint64_t cgroup_dirty_bytes(const struct cgroup_host *h, unsigned slot);
uint64_t cgroup_mem_bytes(const struct cgroup_host *h, unsigned slot);

/* Processors that all may use together; ENOTSUP: they cannot be chosen. */
int cgroup_cpus(const struct cgroup_host *h, cpu_set_t *out,
		struct err *e) MUST_CHECK;
/* Those that a sandbox may use; NULL: all of them. */
int cgroup_set_cpus(const struct cgroup_host *h, unsigned slot,
		    const cpu_set_t *set, struct err *e) MUST_CHECK;
/* "0-3,8" and back; 0 or -errno. */
int cpus_parse(const char *text, cpu_set_t *out) MUST_CHECK;
int cpus_text(const cpu_set_t *set, char *out, size_t cap) MUST_CHECK;

/*
 * Mounts a read-only view of the own group at the directory `at_fd`
 * (/sys/fs/cgroup of the sandbox), inside the new cgroup namespace.
 *
 * Views of v1 are copies of mounts of our parent groups, which have to be at
 * CGROUP_PARENTS/NAME in the caller's mount namespace: a mount of its own for
 * each sandbox would be compared with those of all others when it is made.
 * cgroup_parent_mount() copies the one of row `i`: -1 if there is none (and no
 * error), else its NAME, too. On v1 cgroup_view() leaves the caller in `at_fd`.
 */
#define CGROUP_PARENTS "/groups"
int cgroup_parent_mount(const struct cgroup_host *h, unsigned i,
			const char **name, struct err *e) MUST_CHECK;
int cgroup_view(const struct cgroup_host *h, unsigned slot, int at_fd,
		struct err *e) MUST_CHECK;
