/*
 * The child half of a spawn. The order is the security of it:
 *
 *   group			while we still may
 *   session, filter		all that no plan is needed for; a child made
 *				ahead waits here (spare.c)
 *   processors, terminal,	everything else is closed
 *   0 1 2, limits, signals
 *   groups, gid, uid		SECBIT_NO_SETUID_FIXUP: keeps capabilities
 *   bounding set, securebits,	so each set is cleared by hand; uid 0 keeps
 *   ambient, permitted...	SUDO_CAPS, everybody else nothing
 *   directory			as the user, who may not see every one
 *   exec			or a builtin
 *
 * The file search is done by the user's own rights. Nothing of this may be
 * skipped: each step is MUST_CHECK, and the error goes to the client through
 * a pipe that exec closes.
 */
#include "agent/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/environ.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "sandbox/walls.h"
#include "seccomp/seccomp.h"
#include "wire/agent_args.h"

enum {
	STATUS_FD = 3, /* places in the child */
	CWD_FD = 4,
	SOFT_NOFILE = 1024,
};

/* Written by the agent itself, so that the child is born with it. */
static int oom_adjust(const struct confine *c, const char *value, struct err *e)
{
	/* EACCES: the host gave us more than that, and it stays. */
	if (c->oom_fd >= 0 && pwrite(c->oom_fd, value, strlen(value), 0) < 0 &&
	    errno != EACCES)
		return err_sys(e, "set oom_score_adj to %s", value);
	return 0;
}

/*
 * Once, before the first fork or in the child that was made before:
 * dispositions that the launcher ignored would survive exec, and the bounding
 * set is read so that children only drop what is there.
 */
static uint64_t bounding;

static void prepare_once(void)
{
	/* The kernel's struct sigaction, all default. */
	static const unsigned long none[4];
	static bool done;
	int i;

	if (done)
		return;
	done = true;
	/*
	 * Not by libc: it refuses two signals of its own, which posix_spawn()
	 * (of make, say) leaves ignored. Fails for KILL and STOP only. SIGCHLD
	 * has been set by reap_init(); to set it again would forget the end of
	 * a child that was there before us.
	 */
	for (i = 1; i < NSIG; i++)
		if (i != SIGCHLD)
			syscall(SYS_rt_sigaction, i, none, NULL, sizeof(long));
	/* Until the kernel knows no more of them. */
	for (i = 0; i < 64; i++) {
		int has = prctl(PR_CAPBSET_READ, i, 0, 0, 0);

		if (has < 0)
			break;
		bounding |= (uint64_t)has << i;
	}
	umask(022);
}

static bool settled;

void agent_settle(void)
{
	int r;

	if (settled)
		return;
	prepare_once();
	r = WALL(SECCOMP) ? seccomp_install(&filter_agent) : 0;
	if (r < 0)
		_exit(-r);
	settled = true;
}

pid_t child_ahead(const struct confine *c, struct err *e)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	struct err again = { 0 };
	long pid;
	int r;

	if (c->into_fd >= 0) {
		args.flags = CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)c->into_fd;
	}
	r = oom_adjust(c, "500", e);
	if (r < 0)
		return r;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		return 0;
	if (pid < 0)
		err_sys(e, "start a process");
	/* Back to being the last to go; if that fails, so be it. */
	r = oom_adjust(c, "0", &again);
	(void)r;
	return pid < 0 ? -e->code : (pid_t)pid;
}

pid_t child_fork(const struct confine *c, struct err *e)
{
	pid_t pid;

	prepare_once();
	pid = child_ahead(c, e);
	if (pid != 0)
		agent_settle();
	return pid;
}

int child_join(const struct confine *c, struct err *e)
{
	if (c->join_fd >= 0 && write(c->join_fd, "0", 1) != 1)
		return err_sys(e, "join the sandbox's group");
	return 0;
}

/*
 * As many as the limit, from the one it is on: it makes programs count right,
 * and moves nobody to a processor that is busy, or asleep. The quota is what
 * holds.
 */
static int MUST_CHECK choose_cpus(const struct confine *c, struct err *e)
{
	int at = sched_getcpu(), i;
	cpu_set_t set, allowed;
	unsigned n = 0;

	if (c->cpus == 0)
		return 0;
	/* Now: the sandbox may be moved. */
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return err_sys(e, "ask for processors");
	CPU_ZERO(&set);
	for (i = 0; i < CPU_SETSIZE && n < c->cpus; i++) {
		int cpu = ((at < 0 ? 0 : at) + i) % CPU_SETSIZE;

		if (!CPU_ISSET(cpu, &allowed))
			continue;
		CPU_SET(cpu, &set);
		n++;
	}
	/* EINVAL: the sandbox has just been moved to others. */
	if (n && sched_setaffinity(0, sizeof(set), &set) < 0 && errno != EINVAL)
		return err_sys(e, "choose processors");
	return 0;
}

/* As the leader of a session of its own, which setsid() has made it. */
static int MUST_CHECK take_place(const struct plan *p, struct err *e)
{
	if (choose_cpus(p->confine, e) < 0)
		return -e->code;
	if (p->tty && ioctl(p->fds[0], TIOCSCTTY, 0) < 0)
		return err_sys(e, "take the terminal");
	return 0;
}

/*
 * No source descriptor is below 3: the agent keeps 0, 1 and 2 occupied. The
 * two that stay until exec are first moved out of the way of their places.
 */
static int MUST_CHECK place_files(const struct plan *p, int *status_fd,
				  struct err *e)
{
	int status = fcntl(*status_fd, F_DUPFD_CLOEXEC, CWD_FD + 1);
	int last = STATUS_FD, cwd = -1, i;

	if (status < 0)
		return err_sys(e, "duplicate descriptors");
	*status_fd = status;
	if (p->cwd_fd >= 0) {
		cwd = fcntl(p->cwd_fd, F_DUPFD_CLOEXEC, CWD_FD + 1);
		if (cwd < 0)
			return err_sys(e, "duplicate descriptors");
	}
	for (i = 0; i < 3; i++)
		if (dup2(p->fds[i], i) < 0)
			return err_sys(e, "set up descriptor %d", i);
	if (dup3(status, STATUS_FD, O_CLOEXEC) < 0)
		return err_sys(e, "set up descriptor %d", STATUS_FD);
	*status_fd = STATUS_FD;
	if (cwd >= 0) {
		last = CWD_FD;
		if (dup3(cwd, CWD_FD, O_CLOEXEC) < 0)
			return err_sys(e, "set up descriptor %d", CWD_FD);
	}
	if (WALL(CLOSEFDS) &&
	    syscall(SYS_close_range, (unsigned)last + 1, ~0U, 0) < 0)
		return err_sys(e, "close descriptors");
	return 0;
}

/* Set by the launcher: with 0 a piped core_pattern would still run. */
static int MUST_CHECK check_limits(struct err *e)
{
	struct rlimit core;

	if (getrlimit(RLIMIT_CORE, &core) < 0)
		return err_sys(e, "read the limit of core dumps");
	if (WALL(RLIMITS) && (core.rlim_cur != 1 || core.rlim_max != 1))
		return err_set(e, EPERM, "core dumps are not limited");
	return 0;
}

/*
 * Not earlier: until its descriptors are in their places, a child has ours,
 * which may be thousands.
 */
static int MUST_CHECK limit_files(const struct confine *c, struct err *e)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, "read the limit of open files");
	/* The host may give less than what is asked for. */
	if (c->nofile > 0 && files.rlim_max > c->nofile)
		files.rlim_max = c->nofile;
	files.rlim_cur = files.rlim_max;
	if (c->nofile == 0 && files.rlim_cur > SOFT_NOFILE)
		files.rlim_cur = SOFT_NOFILE;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, "limit open files");
	return 0;
}

static int MUST_CHECK unblock_signals(struct err *e)
{
	sigset_t none;

	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return err_sys(e, "unblock signals");
	return 0;
}

static int MUST_CHECK take_user(const struct user *u, struct err *e)
{
	if (setgroups(u->n_groups, u->groups) < 0)
		return err_sys(e, "set the groups of user %s", u->name);
	if (setresgid(u->gid, u->gid, u->gid) < 0)
		return err_sys(e, "become group %u", u->gid);
	if (setresuid(u->uid, u->uid, u->uid) < 0)
		return err_sys(e, "become user %u", u->uid);
	/* The host may want what changed its id to be dumpable: we have the
	 * agent's memory still, a builtin to its end. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, "hide from user %u", u->uid);
	return 0;
}

static int MUST_CHECK drop_caps(uid_t uid, struct err *e)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	uint32_t keep = uid == 0 ? SUDO_CAPS : 0;
	struct __user_cap_data_struct caps[2] = { { .effective = keep,
						    .permitted = keep } };
	int i;

	for (i = 0; i < 64; i++)
		if ((bounding & ~(uint64_t)keep) >> i & 1 &&
		    prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0)
			return err_sys(e, "drop capability %d", i);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(e, "clear ambient capabilities");
	if (prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) < 0)
		return err_sys(e, "reset securebits");
	if (syscall(SYS_capset, &head, caps) < 0)
		return err_sys(e, "drop capabilities");
	return 0;
}

/*
 * A directory that is not below the root would be a way out (its path then
 * starts with "(unreachable)"); the raw call shows what the kernel says.
 */
static int MUST_CHECK enter_dir(const struct plan *p, struct err *e)
{
	const char *name = p->cwd_fd >= 0 ? "the current directory" : p->cwd;
	char path[4096];
	int r;

	if (p->cwd_fd >= 0) {
		r = fchdir(CWD_FD);
		close(CWD_FD);
	} else if (*p->cwd) {
		/* From the user's home, if it is not absolute. */
		r = *p->cwd == '/' ? 0 : chdir(p->user.home);
		if (r == 0)
			r = chdir(p->cwd);
	} else {
		name = "/";
		r = chdir(p->user.home);
		if (r < 0)
			r = chdir("/");
	}
	if (r < 0)
		return err_sys(e, "enter directory %.160s", name);
	if (syscall(SYS_getcwd, path, sizeof(path)) < 0)
		return err_sys(e, "find directory %.160s", name);
	if (path[0] != '/')
		return err_set(e, EXDEV,
			       "directory %.160s is outside of the sandbox",
			       name);
	return 0;
}

/* A text file without "#!" is the shell's, as execvp() has it. */
static void exec_script(const char *path, const struct plan *p)
{
	size_t n = 0, i;
	char **argv;

	while (p->argv[n])
		n++;
	argv = xcalloc(n + 2, sizeof(*argv));
	argv[0] = (char *)"/bin/sh";
	argv[1] = (char *)path;
	for (i = 1; i < n; i++)
		argv[i + 1] = p->argv[i];
	execve(argv[0], argv, p->env);
	errno = ENOEXEC;
}

static int exec_file(const char *path, const struct plan *p)
{
	struct stat st;
	int saved;

	execve(path, p->argv, p->env);
	if (errno == ENOEXEC)
		exec_script(path, p);
	if (errno == EACCES && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		errno = EISDIR;
	saved = errno;
	return -saved;
}

static int exec_direct(const struct plan *p, struct err *e)
{
	const char *file = p->argv[0];
	int code = -exec_file(file, p);

	if (code == ENOENT && access(file, F_OK) == 0)
		return err_set(e, code,
			       "exec %.160s: its interpreter or loader does "
			       "not exist",
			       file);
	errno = code == EISDIR ? EACCES : code;
	return err_sys(e, "exec %.160s", file);
}

/* Returns only on failure. */
static int MUST_CHECK exec_search(const struct plan *p, struct err *e)
{
	const char *file = p->argv[0], *at, *end;
	const char *dirs = environment_get(p->env, "PATH");
	int code = ENOENT;

	if (strchr(file, '/'))
		return exec_direct(p, e);
	for (at = dirs; *file && at; at = *end ? end + 1 : NULL) {
		char path[4096];
		int n = (int)(strchrnul(at, ':') - at), r;

		end = at + n;
		r = snprintf(path, sizeof(path), "%.*s%s%s", n, at,
			     n ? "/" : "./", file);
		/* Cheaper to ask than to try. */
		if (r < 0 || (size_t)r >= sizeof(path) ||
		    (access(path, F_OK) < 0 && errno == ENOENT))
			continue;
		r = -exec_file(path, p);
		if (r == EACCES)
			code = EACCES; /* unless another one can be run */
		else if (r != ENOENT && r != ENOTDIR && r != EISDIR &&
			 r != ELOOP && r != ENAMETOOLONG) {
			errno = r;
			return err_sys(e, "exec %.160s", path);
		}
	}
	if (code == ENOENT)
		return err_set(e, ENOENT, "%.160s: command not found", file);
	errno = code;
	return err_sys(e, "exec %.160s", file);
}

/* Late: a change of credentials clears it. PID 1 inherits orphans. */
static int MUST_CHECK follow_parent(struct err *e)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(e, "tie to the parent");
	if (getppid() == 1)
		return err_set(e, ESRCH, "whoever asked for this is gone");
	return 0;
}

/* For whoever reads the status it started, as if it were an exec. */
static void run_builtin(const struct plan *p, int status_fd)
	__attribute__((noreturn));
static void run_builtin(const struct plan *p, int status_fd)
{
	int argc = 0;

	close(status_fd);
	while (p->argv[argc])
		argc++;
	_exit(p->builtin->fn(argc, p->argv));
}

int child_prepare(const struct confine *c, struct err *e)
{
	int r = child_join(c, e);

	if (r < 0)
		return r;
	prepare_once();
	if (setsid() < 0)
		return err_sys(e, "start a session");
	r = check_limits(e);
	if (r == 0 && WALL(SECCOMP)) {
		r = seccomp_install(settled ? &filter_child : &filter_sandbox);
		if (r < 0)
			r = err_set(e, -r, "install the system-call filter");
	}
	return r;
}

int child_keep(int *fd, struct err *e)
{
	int up = fcntl(*fd, F_DUPFD_CLOEXEC, CWD_FD + 1);

	if (up < 0 || dup3(up, STATUS_FD, O_CLOEXEC) < 0)
		return err_sys(e, "set up descriptor %d", STATUS_FD);
	*fd = STATUS_FD;
	if (syscall(SYS_close_range, STATUS_FD + 1U, ~0U, 0) < 0)
		return err_sys(e, "close descriptors");
	return 0;
}

int child_finish(const struct plan *p, int *fd, struct err *e)
{
	int r;

	if (p->user.uid == 0 && !p->confine->sudo)
		return err_set(e, EPERM,
			       "sudo is turned off for this sandbox: nothing "
			       "runs as root in it");
	r = take_place(p, e);
	if (r == 0)
		r = place_files(p, fd, e);
	if (r == 0)
		r = limit_files(p->confine, e);
	if (r == 0)
		r = unblock_signals(e);
	if (r == 0)
		r = take_user(&p->user, e);
	if (r == 0 && WALL(CAPS))
		r = drop_caps(p->user.uid, e);
	if (r == 0)
		r = enter_dir(p, e);
	if (r == 0 && p->with_parent)
		r = follow_parent(e);
	if (r == 0 && p->builtin)
		run_builtin(p, *fd);
	return r < 0 ? r : exec_search(p, e);
}

void child_fail(int fd, const struct err *e)
{
	_exit(write(fd, e, sizeof(*e)) < 0 ? 126 : 127);
}

pid_t child_start(const struct plan *p, int *status_fd, struct err *e)
{
	int ends[2], r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, "make a pipe");
	pid = child_fork(p->confine, e);
	if (pid == 0) {
		int fd = ends[1];

		r = child_prepare(p->confine, e);
		if (r == 0)
			r = child_finish(p, &fd, e);
		(void)r; /* or we would be another program by now */
		child_fail(fd, e);
	}
	close(ends[1]);
	if (pid < 0)
		close(ends[0]);
	else
		*status_fd = ends[0];
	return pid;
}

int child_status(int status_fd, struct err *e)
{
	struct err got;
	ssize_t n;

	do
		n = read(status_fd, &got, sizeof(got));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return 1;
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < 0)
		return err_sys(e, "read the state of a new process");
	if (n != sizeof(got) || got.code <= 0)
		return err_set(e, EIO, "a new process told nonsense");
	got.msg[sizeof(got.msg) - 1] = '\0';
	*e = got;
	return -e->code;
}
