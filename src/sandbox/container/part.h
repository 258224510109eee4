/*
 * What a sandbox needs before its processes can start, and what does not
 * depend on its spec: a slot (its own range of ids), the groups of that slot,
 * a user namespace with the map, a cgroup namespace rooted at the groups and a
 * network namespace with nothing but `lo`.
 * Parts can be made ahead, in idle time; a part is used once.
 *
 * The network takes longest of these. One that is made while somebody waits
 * comes without: the child of the launch makes it, which has a processor to
 * itself, and says so (launch_hear()).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/cgroup.h"
#include "sandbox/walls.h"
#include "wire/agent_args.h"

enum part_kind {
	PART_SANDBOX, /* nothing nests in its user namespace */
	PART_NO_NET,  /* the same, without a network */
	PART_WORKER,  /* makes its other namespaces itself */
};

struct part {
	unsigned slot;
	uint32_t base; /* host's id of the sandbox's 0 */
	enum part_kind kind;
	int group_fd; /* to clone the agent into */
	int userns_fd, cgroupns_fd, netns_fd;
	bool unfinished; /* until part_finish() */
	int birth_fd;    /* group that the helper is born in */
	pid_t helper;    /* to be reaped; 0: none, or it is somebody else's */
	int helper_fd, helper_pid_fd;
};

/*
 * In three moves, so that the caller can do other work while the namespaces
 * are being born: part_open() makes the unified group, part_start() the other
 * groups, and starts the helper, part_finish() takes its namespaces. `proc_fd`
 * is the host's /proc. When one
 * fails the part is closed, its helper gone; the groups are the caller's to
 * remove with cgroup_remove(). part_close() is fine in between.
 *
 * The group can be cloned into after part_open() on v1, on v2 only after
 * part_finish(): group_fd is -1 until then.
 */
int part_open(const struct cgroup_host *h, enum part_kind kind, struct part *p,
	      struct err *e) MUST_CHECK;
int part_start(const struct cgroup_host *h, struct part *p,
	       struct err *e) MUST_CHECK;
int part_finish(const struct cgroup_host *h, int proc_fd, struct part *p,
		struct err *e) MUST_CHECK;
/* Nothing open. */
#define PART_NONE                          \
	((struct part){ .group_fd = -1,    \
			.birth_fd = -1,    \
			.userns_fd = -1,   \
			.cgroupns_fd = -1, \
			.netns_fd = -1,    \
			.helper_fd = -1,   \
			.helper_pid_fd = -1 })
/* After part_finish(): lets the helper go, and waits for its end. part_close()
 * does so, too. */
void part_reap(struct part *p);
/* Lets it go, and leaves the rest to the caller: its pidfd, or -1 when there is
 * none. */
int part_release(struct part *p);
void part_close(struct part *p);

/* The agent's own id: in no sandbox's map, and not that of those it must be
 * safe from. */
static inline uint32_t part_agent_uid(const struct part *p)
{
	return p->base + (WALL(AGENTUID) ? SANDBOX_IDS : SANDBOX_UID);
}
