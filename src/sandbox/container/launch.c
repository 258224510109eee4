/*
 * Launching, in this order and no other:
 *
 * 1. The host's root clones a child into a new pid namespace, already inside
 *    its control group. The child leaves for a new network and new mount, ipc
 *    and uts namespaces and makes its views of the machine, while the warden
 *    makes the volume and, on v1, the other groups, which it joins, and the
 *    part's helper the cgroup and user namespaces. (On v2 these come first. A
 *    part made ahead has all of that but the volume, the network included.)
 * 2. With these, and with the root that the warden has made meanwhile, it goes
 *    on, by descriptors. All namespaces but the user namespace belong to the
 *    initial one: whoever is root inside the sandbox
 *    later has no power over them, so it can mount nothing and configure
 *    nothing.
 * 3. It leaves the old root, becomes the agent's id (which no sandbox's map
 *    contains), enters the user namespace last, gives up every capability but
 *    the agent's few, and executes the agent from a sealed memfd.
 *
 * The tables of steps are the list of walls as much as the order of work: a
 * step that fails ends the launch, none is skipped or retried in a weaker
 * form. A failing child writes its `struct err` to a socket that closes on
 * exec; an end of file without one means that the agent runs (or that somebody
 * has killed it). Before that it says that it is in its network.
 */
#include "sandbox/container/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/memfd.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/slice.h"
#include "base/spaces.h"
#include "sandbox/container/clone.h"
#include "sandbox/container/network.h"
#include "sandbox/container/steps.h"
#include "sandbox/walls.h"
#include "wire/agent_args.h"

struct step {
	const char *name;
	step_fn *fn;
};

static const struct step steps_alone[] = {
	{ "make network", step_net },
	{ "set up process", step_basics },
	{ "make /dev", step_dev },
	{ "make /proc", step_proc },
	{ "tell of the network", step_tell_net },
	{ "make /sys", step_sys },
	{ "join groups", step_groups },
	{ 0 },
};

static const struct step steps_joined[] = {
	{ "enter namespaces", step_spaces },
	{ "attach root", step_root },
	{ "machine id", step_machine_id },
	{ "attach volumes", step_volumes },
	{ "place views", step_views },
	{ "enter root", step_pivot },
	{ "resource limits", step_limits },
	{ "descriptors", step_fds },
	{ "identity", step_ids },
	{ "start agent", step_exec },
	{ 0 },
};

int step_net(struct launch_ctx *l, struct err *e)
{
	int r = l->has_net ? 0 : network_new();

	return r < 0 ? err_spaces(e, -r, CLONE_NEWNET, "make it") : 0;
}

/* When all ports are open in it: the warden makes sockets of a door there. */
int step_tell_net(struct launch_ctx *l, struct err *e)
{
	if (l->has_net || send(l->talk_fd, "n", 1, MSG_NOSIGNAL) == 1)
		return 0;
	return err_sys(e, "tell");
}

int step_groups(struct launch_ctx *l, struct err *e)
{
	char word;
	int r;

	/* Nobody there any more: then nobody wants us. */
	if (!l->has_groups && recv(l->talk_fd, &word, 1, 0) != 1)
		_exit(1);
	r = cgroup_join(l->host->cg, l->slot, false);
	if (r < 0)
		return err_set(e, -r, "join cgroups: %s", strerror(-r));
	return cgroup_open_user(l->host->cg, l->slot, &l->into_fd, &l->join_fd,
				e);
}

int step_spaces(struct launch_ctx *l, struct err *e)
{
	if (WALL(CGROUPNS) && setns(l->cgroupns_fd, CLONE_NEWCGROUP) < 0)
		return err_sys(e, "enter cgroup namespace");
	if (l->has_net && setns(l->netns_fd, CLONE_NEWNET) < 0)
		return err_sys(e, "enter network namespace");
	return 0;
}

/* Not at birth, which the warden would wait for. */
static int leave_namespaces(struct err *e)
{
	int flags = CLONE_NEWNS | CLONE_NEWUTS;

	if (WALL(IPCNS))
		flags |= CLONE_NEWIPC;
	return unshare(flags) < 0 ? err_spaces(e, errno, (uint64_t)flags,
					       "make namespaces")
				  : 0;
}

int step_basics(struct launch_ctx *l, struct err *e)
{
	sigset_t none;

	if (leave_namespaces(e) < 0)
		return -e->code;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (setsid() < 0)
		return err_sys(e, "setsid");
	umask(0);
	if (sethostname(l->spec->hostname, strlen(l->spec->hostname)) < 0)
		return err_sys(e, "set host name");
	/* An empty keyring of its own, so that the host's is not inherited. */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 &&
	    errno != ENOSYS)
		return err_sys(e, "new session keyring");
	/* What is made from here on belongs to the sandbox's root; with the
	 * fixup off, that takes no capability away. */
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		return err_sys(e, "set securebits");
	setfsgid(l->base);
	setfsuid(l->base);
	return 0;
}

static int limit_to(int what, rlim_t soft, rlim_t hard, struct err *e)
{
	struct rlimit now, want = { soft, hard };

	if (getrlimit(what, &now) < 0)
		return err_sys(e, "getrlimit");
	/* Never more than we have: raising would need CAP_SYS_RESOURCE. */
	if (now.rlim_max < want.rlim_max)
		want.rlim_max = now.rlim_max;
	if (want.rlim_cur > want.rlim_max)
		want.rlim_cur = want.rlim_max;
	return setrlimit(what, &want) < 0 ? err_sys(e, "setrlimit") : 0;
}

int step_limits(struct launch_ctx *l, struct err *e)
{
	const struct rlimit no_core = { 1, 1 };

	if (l->spec->cpus_milli < CGROUP_CPU_MILLI && slice_common(e) < 0)
		return -e->code;
	/* 1, not 0: a core_pattern with a pipe runs its helper, as the host's
	 * root, even at 0; at 1 the kernel refuses. */
	if (WALL(RLIMITS) && setrlimit(RLIMIT_CORE, &no_core) < 0)
		return err_sys(e, "limit core dumps");
	if (limit_to(RLIMIT_NOFILE, 65536, 65536, e) < 0 ||
	    limit_to(RLIMIT_MEMLOCK, 8 << 20, 8 << 20, e) < 0 ||
	    limit_to(RLIMIT_MSGQUEUE, 819200, 819200, e) < 0)
		return -e->code;
	return 0;
}

/* Moves what is kept to its place; whatever else is open is closed. */
int step_fds(struct launch_ctx *l, struct err *e)
{
	int keep[FD_END] = {
		[FD_LISTEN] = l->listen_fd, [FD_OOM] = l->oom_fd,
		[FD_INTO] = l->into_fd,     [FD_TALK] = l->talk_fd,
		[FD_JOIN] = l->join_fd,     [FD_AGENT] = l->host->agent_fd,
		[FD_USERNS] = l->userns_fd
	};
	int i, null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null_fd < 0)
		return err_sys(e, "open /dev/null");
	for (i = 0; i < FD_LISTEN; i++)
		keep[i] = null_fd;
	if (l->join_fd < 0)
		keep[FD_JOIN] = null_fd;
	/* First out of the way, so that no move hits one still to be moved */
	for (i = 0; i < FD_END; i++) {
		keep[i] = fcntl(keep[i], F_DUPFD_CLOEXEC, 64);
		if (keep[i] < 0)
			return err_sys(e, "move descriptor");
	}
	for (i = 0; i < FD_END; i++)
		if (dup3(keep[i], i, i >= FD_TALK ? O_CLOEXEC : 0) < 0)
			return err_sys(e, "move descriptor");
	if (l->join_fd < 0)
		close(FD_JOIN); /* on v2 there is none */
	l->talk_fd = FD_TALK;
	if (WALL(CLOSEFDS) && close_range(FD_END, ~0U, 0) < 0)
		return err_sys(e, "close descriptors");
	return 0;
}

static int set_caps(uint32_t caps)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct data[2] = { { caps, caps, caps },
						  { 0, 0, 0 } };

	return (int)syscall(SYS_capset, &head, data);
}

/* Bounding, permitted, effective, inheritable and ambient: AGENT_CAPS. */
static int keep_agent_caps(struct err *e)
{
	int cap;

	for (cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (cap < 32 && ((unsigned)AGENT_CAPS >> cap & 1U))
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
			return err_sys(e, "drop capability %d", cap);
	}
	if (set_caps(AGENT_CAPS) < 0)
		return err_sys(e, "set capabilities");
	for (cap = 0; cap < 32; cap++)
		if (((unsigned)AGENT_CAPS >> cap & 1U) &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return err_sys(e, "keep capability %d", cap);
	return 0;
}

int step_ids(struct launch_ctx *l, struct err *e)
{
	uid_t id = l->agent_uid;

	if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 ||
	    setresuid(id, id, id) < 0)
		return err_sys(e, "become id %u", id);
	if (WALL(USERNS) && setns(FD_USERNS, CLONE_NEWUSER) < 0)
		return err_sys(e, "enter user namespace");
	if (WALL(NNP) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	return keep_agent_caps(e);
}

/* How many processors a user process may use, when they are not all. */
static void cpus_word(const struct launch_ctx *l, char *out, size_t cap)
{
	unsigned want = (unsigned)((l->spec->cpus_milli + 999) / 1000);
	cpu_set_t set;

	out[0] = '\0';
	if (sched_getaffinity(0, sizeof(set), &set) == 0 &&
	    want < (unsigned)CPU_COUNT(&set))
		snprintf(out, cap, "cpus=%u", want);
}

int step_exec(struct launch_ctx *l, struct err *e)
{
	char listen_w[16], oom_w[16], into_w[16], join_w[16], cpus_w[16],
		nofile_w[24], walls_w[32];
	const char *env[] = { NULL };
	const char *argv[12] = { "agent", listen_w, oom_w, into_w };
	int n = 4;

	snprintf(listen_w, sizeof(listen_w), "listen=%d", FD_LISTEN);
	snprintf(oom_w, sizeof(oom_w), "oom=%d", FD_OOM);
	snprintf(into_w, sizeof(into_w), "into=%d", FD_INTO);
	snprintf(join_w, sizeof(join_w), "join=%d", FD_JOIN);
	if (l->join_fd >= 0)
		argv[n++] = join_w;
	argv[n++] = l->spec->flags & LAUNCH_SUDO ? "sudo=1" : "sudo=0";
	cpus_word(l, cpus_w, sizeof(cpus_w));
	if (*cpus_w)
		argv[n++] = cpus_w;
	snprintf(nofile_w, sizeof(nofile_w), "nofile=%u", l->spec->nofile);
	if (l->spec->nofile > 0)
		argv[n++] = nofile_w;
#ifdef WALLS_TEST
	snprintf(walls_w, sizeof(walls_w), "walls=%x", walls_off);
	argv[n++] = walls_w;
#else
	(void)walls_w;
#endif
	argv[n] = NULL;
	syscall(SYS_execveat, FD_AGENT, "", argv, env, AT_EMPTY_PATH);
	return err_sys(e, "execute the agent");
}

static int run_steps(struct launch_ctx *l, const struct step *s, struct err *e)
{
	for (; s->fn; s++)
		if (s->fn(l, e) < 0)
			return err_wrap(e, "%s", s->name);
	return 0;
}

/* What launch_go() sent; nobody there any more: then nobody wants us. */
static void await_go(struct launch_ctx *l)
{
	int fds[FD_PASS_MAX];
	char go;

	if (recv_msg_fds(l->talk_fd, &go, 1, fds) != 1 ||
	    fds[l->has_net ? 4 : 3] < 0)
		_exit(1);
	l->userns_fd = fds[0];
	l->cgroupns_fd = fds[1];
	l->listen_fd = fds[2];
	l->root_fd = fds[3];
	l->netns_fd = fds[4];
}

static void __attribute__((noreturn)) child(struct launch_ctx *l)
{
	struct err e = { 0 };

	if (run_steps(l, steps_alone, &e) == 0) {
		await_go(l);
		run_steps(l, steps_joined, &e);
	}
	if (write_full(l->talk_fd, &e, sizeof(e)) < 0)
		_exit(126);
	_exit(127);
}

int launch_begin(const struct launch_host *h, const struct launch_spec *s,
		 const struct part *p, struct launched *out, struct err *e)
{
	struct launch_ctx l = { .host = h,
				.spec = s,
				.slot = p->slot,
				.has_groups = !p->unfinished,
				.has_net = p->netns_fd >= 0,
				.base = WALL(IDMAP) ? p->base : 0,
				.agent_uid = part_agent_uid(p) };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	out->pid_fd = -1;
	l.talk_fd = pair[1];
	out->pid = clone_into(WALL(PIDNS) ? CLONE_NEWPID : 0, p->group_fd,
			      &out->pid_fd);
	if (out->pid == 0) {
		close(pair[0]);
		child(&l);
	}
	close(pair[1]);
	if (out->pid < 0) {
		close(pair[0]);
		return err_spaces(e, -out->pid, CLONE_NEWPID, "clone");
	}
	out->talk_fd = pair[0];
	return 0;
}

int launch_groups(const struct launched *l, struct err *e)
{
	ssize_t n = send(l->talk_fd, "j", 1, MSG_NOSIGNAL);

	if (n < 0 && errno != EPIPE && errno != ECONNRESET)
		return err_sys(e, "tell the child of its groups");
	return 0;
}

int launch_hear(int talk_fd, struct err *e)
{
	union {
		char word;
		struct err err;
	} told;
	ssize_t n;

	/* First of all the kernel says that the child left something unread, if
	 * it did. */
	do
		n = recv(talk_fd, &told, sizeof(told), 0);
	while (n < 0 && errno == ECONNRESET);
	if (n == 0)
		return LAUNCH_RAN;
	if (n == 1)
		return LAUNCH_NET;
	if (n < 0)
		return err_sys(e, "hear of the launch");
	if (n != (ssize_t)sizeof(told.err) || told.err.code <= 0)
		return err_set(e, EIO, "the launch ended without a word");
	*e = told.err;
	e->msg[sizeof(e->msg) - 1] = '\0';
	return -e->code;
}

int launch_go(const struct launched *l, const struct launch_spec *s,
	      const struct part *p, int listen_fd, struct err *e)
{
	AUTO_CLOSE int root_fd = root_make(s, p, e);
	const int fds[FD_PASS_MAX] = { p->userns_fd, p->cgroupns_fd, listen_fd,
				       root_fd, p->netns_fd };
	ssize_t n;

	if (root_fd < 0)
		return root_fd;
	n = send_msg_fds(l->talk_fd, "g", 1, fds,
			 p->kind == PART_NO_NET ? 4 : 5);
	if (n == -EPIPE || n == -ECONNRESET)
		return LAUNCH_FAILED;
	return n < 0 ? err_set(e, (int)-n, "let the child go on: %s",
			       strerror((int)-n))
		     : 0;
}

int launch_load_agent(const char *path, struct err *e)
{
	AUTO_CLOSE int file_fd = open(path, O_RDONLY | O_CLOEXEC);
	AUTO_CLOSE int mem_fd = -1;
	char self[48];
	struct stat st;
	off_t done = 0;
	int fd;

	if (file_fd < 0 || fstat(file_fd, &st) < 0)
		return err_sys(e, "open %s", path);
	mem_fd = memfd_create("agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (mem_fd < 0)
		return err_sys(e, "memfd");
	while (done < st.st_size)
		if (sendfile(mem_fd, file_fd, &done,
			     (size_t)(st.st_size - done)) <= 0)
			return err_sys(e, "read %s", path);
	/* Not readable: the kernel then makes the process undumpable, and
	 * keeps even the sandbox's root away from its memory. */
	if (fchmod(mem_fd, 0111) < 0 ||
	    fcntl(mem_fd, F_ADD_SEALS,
		  F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_sys(e, "seal the agent");
	snprintf(self, sizeof(self), "/proc/self/fd/%d", mem_fd);
	fd = open(self, O_PATH | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "reopen the agent") : fd;
}
