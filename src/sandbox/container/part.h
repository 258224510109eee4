/*
 * What a sandbox needs before its processes can start, and what does not
 * depend on its spec: a slot (its own range of ids), the groups of that slot,
 * a user namespace with the map, a cgroup namespace rooted at the groups and a
 * network namespace with nothing but `lo`.
 * Parts can be made ahead, in idle time; a part is used once.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "sandbox/cgroup.h"

struct part {
	unsigned slot;
	uint32_t base; /* host's id of the sandbox's 0 */
	struct cgroup_box cg;
	int userns_fd, cgroupns_fd, netns_fd;
	/* Only between part_begin() and part_finish(). */
	pid_t helper; /* 0: none */
	int helper_fd;
};

enum part_kind {
	PART_SANDBOX, /* nothing nests in its user namespace */
	PART_WORKER,  /* may make namespaces of its own */
};

/*
 * In two halves, so that the caller can do other work while the namespaces
 * are being born: part_begin() makes the groups and starts the helper,
 * part_finish() takes its namespaces. `proc_fd` is the host's /proc. When
 * either fails the part is closed, its helper gone; the groups are the
 * caller's to remove with cgroup_remove(). part_close() is fine in between.
 */
int part_begin(const struct cgroup_host *h, int proc_fd, enum part_kind kind,
	       struct part *p, struct err *e) MUST_CHECK;
int part_finish(const struct cgroup_host *h, int proc_fd, struct part *p,
		struct err *e) MUST_CHECK;
void part_close(struct part *p);

/* The agent's own id: in no sandbox's map. */
static inline uint32_t part_agent_uid(const struct part *p)
{
	return p->base + 65536;
}
