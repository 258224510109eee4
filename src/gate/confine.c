#include "gate/confine.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/privs.h"
#include "base/spaces.h"
#include "gate/record.h"
#include "role/root.h"

enum {
	KEEPER_FILES = 8192,
	DOOR_FILES = 256 * 1024, /* sockets of sandboxes, connections, pipes */
	LOCKED_BYTES = 64 * 1024 * 1024, /* keys and secrets, never on a disk */
};

static int limit_self(uint64_t files, struct err *e)
{
	const struct {
		__rlimit_resource_t what;
		uint64_t max;
	} limits[] = {
		{ RLIMIT_NOFILE, files },
		{ RLIMIT_MEMLOCK, LOCKED_BYTES },
		{ RLIMIT_CORE, 0 },
	};
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	size_t i;

	for (i = 0; i < ARRAY_LEN(limits); i++) {
		struct rlimit l;

		/* Who starts us may have set a lower one. */
		if (getrlimit(limits[i].what, &l) < 0)
			return err_sys(e, "read limit %d", (int)limits[i].what);
		if (l.rlim_max > limits[i].max)
			l.rlim_max = limits[i].max;
		l.rlim_cur = l.rlim_max;
		if (setrlimit(limits[i].what, &l) < 0)
			return err_sys(e, "set limit %d", (int)limits[i].what);
	}
	return sigaction(SIGPIPE, &ignore, NULL) < 0
		       ? err_sys(e, "ignore signals")
		       : 0;
}

static int install(const struct seccomp_filter *f, struct err *e)
{
	int r = seccomp_install(f);

	return r < 0 ? err_set(e, -r, "install the system-call filter: %s",
			       strerror(-r))
		     : 0;
}

int confine_child(const char *name, pid_t parent, struct err *e)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		return err_set(e, ESRCH, "the gate has gone");
	return prctl(PR_SET_NAME, name) < 0 ? err_sys(e, "set a name") : 0;
}

int confine_keeper(struct setup *s, struct err *e)
{
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) < 0)
		return err_spaces(e, errno,
				  CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC,
				  "leave the host's namespaces");
	if (root_enter(NULL, 0, e) < 0 || limit_self(KEEPER_FILES, e) < 0 ||
	    privs_drop(s->uid, s->gid, NULL, 0, e) < 0)
		return -e->code;
	return install(&filter_keeper, e);
}

int confine_starter(struct setup *s, struct err *e)
{
	/* Where the scribe listens, and nothing else. */
	const struct root_part log = { .path = GATE_LOG_DIR, .fd = s->log_fd };

	if (unshare(CLONE_NEWNS | CLONE_NEWIPC) < 0)
		return err_spaces(e, errno, CLONE_NEWNS | CLONE_NEWIPC,
				  "leave the host's namespaces");
	if (root_enter(&log, 1, e) < 0)
		return -e->code;
	auto_close(&s->log_fd);
	if (limit_self(DOOR_FILES, e) < 0 ||
	    privs_drop(s->uid, s->gid, NULL, 0, e) < 0)
		return -e->code;
	return install(&filter_starter, e);
}

int confine_door(struct err *e)
{
	return install(&filter_gate, e);
}
