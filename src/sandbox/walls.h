/*
 * The walls of a sandbox, by name. In a normal build every wall stands and
 * WALL() is the constant 1. A test build (make WALLS_TEST=1) can leave exactly
 * one out (configuration key `wall_off`), to show that its escape test fails
 * without it.
 */
#pragma once

#include "base/err.h"

#define WALLS(X)                                                       \
	X(SECCOMP, "seccomp")   /* the filter of user processes */     \
	X(NNP, "nnp")           /* no_new_privs */                     \
	X(CAPS, "caps")         /* capabilities dropped */             \
	X(USERNS, "userns")     /* own user namespace, entered last */ \
	X(NSLIMIT, "nslimit")   /* nothing nests */                    \
	X(IDMAP, "idmap")       /* own id range */                     \
	X(PROCMASK, "procmask") /* dangerous files of /proc covered */ \
	X(PROCSYS, "procsys")   /* /proc/sys and friends read-only */  \
	X(NETNS, "netns")       /* own network namespace */            \
	X(PIDNS, "pidns")       /* own pid namespace */                \
	X(IPCNS, "ipcns")       /* own ipc namespace */                \
	X(CGROUPNS, "cgroupns") /* own cgroup namespace */             \
	X(CGROUPRO, "cgroupro") /* its view is read-only */            \
	X(LIMITS, "limits")     /* cgroup limits */                    \
	X(NOSUID, "nosuid")     /* nosuid, nodev on the root */        \
	X(RLIMITS, "rlimits")   /* core dumps */                       \
	X(AGENTUID, "agentuid") /* agent's id outside the map */       \
	X(CLOSEFDS, "closefds") /* no descriptor inherited */          \
	X(DEVRO, "devro")       /* /dev read-only */                   \
	X(QUOTA, "quota")       /* disk limit */

enum wall {
#define X(id, name) WALL_##id,
	WALLS(X)
#undef X
		WALL_COUNT
};

#ifdef WALLS_TEST
extern unsigned walls_off; /* bit set */
#define WALL(id) (!(walls_off >> WALL_##id & 1U))
/* By name; "" takes none away. */
int walls_take_off(const char *name, struct err *e) MUST_CHECK;
#else
#define WALL(id) 1
#endif
