/*
 * What a sandbox needs before its processes can start, and what does not
 * depend on its spec: a slot (its own range of ids), the groups of that slot,
 * a user namespace with the map and a cgroup namespace rooted at the groups.
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
	int userns_fd, cgroupns_fd;
};

enum part_kind {
	PART_SANDBOX, /* nothing nests in its user namespace */
	PART_WORKER,  /* may make namespaces of its own */
};

/*
 * `proc_fd` is the host's /proc. On failure nothing is left behind, but for
 * groups that the caller removes with cgroup_remove().
 */
int part_make(const struct cgroup_host *h, int proc_fd, enum part_kind kind,
	      struct part *p, struct err *e) MUST_CHECK;
void part_close(struct part *p);

/* The agent's own id: in no sandbox's map. */
static inline uint32_t part_agent_uid(const struct part *p)
{
	return p->base + 65536;
}
