#include "sandbox/vm/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/spaces.h"
#include "sandbox/container/clone.h"
#include "sandbox/mount.h"
#include "wire/relay.h"

enum { FILES = 4096, PROGRAM = 3, FDS };

typedef int step_fn(const struct relay_spec *s, struct err *e);

static int step_groups(const struct relay_spec *s, struct err *e)
{
	int r = cgroup_join(s->cg, s->slot, true);

	return r < 0 ? err_set(e, -r, "%s", strerror(-r)) : 0;
}

static int step_spaces(const struct relay_spec *s, struct err *e)
{
	return setns(s->vm_fd, CLONE_NEWNET | CLONE_NEWCGROUP) < 0
		       ? err_sys(e, "setns")
		       : 0;
}

/* Nothing, read-only. */
static int step_root(const struct relay_spec *s, struct err *e)
{
	static const struct mount_opt opts[] = { { "source", "relay" },
						 { "mode", "0555" },
						 { "size", "4k" },
						 { 0 } };
	AUTO_CLOSE int root_fd = -1, at_fd = -1;

	(void)s;
	root_fd = mount_new("tmpfs", opts, VIEW_FLAGS | MOUNT_ATTR_RDONLY, e);
	if (root_fd < 0)
		return root_fd;
	/* Over /proc: a directory that is surely there. */
	at_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at_fd < 0)
		return err_sys(e, "open /proc");
	if (mount_at(root_fd, at_fd, e) < 0)
		return -e->code;
	if (fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(e, "pivot_root");
	return 0;
}

static int step_limits(const struct relay_spec *s, struct err *e)
{
	static const struct {
		int what;
		rlim_t most;
	} limits[] = {
		{ RLIMIT_CORE, 1 }, /* see container/launch.c */
		{ RLIMIT_NOFILE, FILES },
		{ RLIMIT_MEMLOCK, 0 },
		{ RLIMIT_MSGQUEUE, 0 },
	};
	size_t i;

	(void)s;
	for (i = 0; i < ARRAY_LEN(limits); i++) {
		const struct rlimit to = { limits[i].most, limits[i].most };

		if (setrlimit(limits[i].what, &to) < 0)
			return err_sys(e, "setrlimit");
	}
	return 0;
}

/* All but these are closed by exec, the program itself included. */
static int step_fds(const struct relay_spec *s, struct err *e)
{
	int fds[FDS] = { [RELAY_FD_LINE] = s->line_fd,
			 [RELAY_FD_LISTEN] = s->listen_fd,
			 [STDERR_FILENO] = STDERR_FILENO,
			 [PROGRAM] = s->program_fd };
	int i;

	/* First out of the way, so that no move hits one still to be moved */
	for (i = 0; i < FDS; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64);
		if (fds[i] < 0)
			return err_sys(e, "dup");
	}
	for (i = 0; i < FDS; i++)
		if (dup3(fds[i], i, i == PROGRAM ? O_CLOEXEC : 0) < 0)
			return err_sys(e, "dup");
	return close_range(FDS, ~0U, CLOSE_RANGE_CLOEXEC) < 0
		       ? err_sys(e, "close_range")
		       : 0;
}

static int step_ids(const struct relay_spec *s, struct err *e)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct none[2] = { 0 };
	int cap;

	for (cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
			return err_sys(e, "drop capability %d", cap);
	if (setgroups(0, NULL) < 0 || setresgid(s->uid, s->uid, s->uid) < 0 ||
	    setresuid(s->uid, s->uid, s->uid) < 0)
		return err_sys(e, "become id %u", s->uid);
	if (syscall(SYS_capset, &head, none) < 0)
		return err_sys(e, "drop capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	return 0;
}

static int step_exec(const struct relay_spec *s, struct err *e)
{
	const char *argv[] = { "relay", NULL }, *env[] = { NULL };

	(void)s;
	syscall(SYS_execveat, PROGRAM, "", argv, env, AT_EMPTY_PATH);
	return err_sys(e, "execveat");
}

static const struct {
	const char *name;
	step_fn *fn;
} steps[] = {
	{ "join groups", step_groups }, { "enter namespaces", step_spaces },
	{ "enter root", step_root },    { "resource limits", step_limits },
	{ "descriptors", step_fds },    { "identity", step_ids },
	{ "start", step_exec },
};

static void __attribute__((noreturn)) child(const struct relay_spec *s)
{
	struct err e = { 0 };
	sigset_t none;
	size_t i;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (i = 0; i < ARRAY_LEN(steps); i++)
		if (steps[i].fn(s, &e) < 0) {
			log_err("relay: %s: %s", steps[i].name, e.msg);
			break;
		}
	_exit(127);
}

pid_t relay_start(const struct relay_spec *s, int *pid_fd, struct err *e)
{
	AUTO_CLOSE int group_fd =
		s->cg->v2 ? cgroup_open_user_group(s->cg, s->slot, e)
			  : cgroup_open(s->cg, s->slot, e);
	const uint64_t flags =
		CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS;
	pid_t pid;

	if (group_fd < 0)
		return group_fd;
	pid = clone_into(flags, group_fd, pid_fd);
	if (pid == 0)
		child(s);
	return pid < 0 ? err_spaces(e, -pid, flags, "clone") : pid;
}
