/*
 * The steps of a VM's launch, all between clone and exec. As in the container
 * tier (container/launch.c) the table is the list of walls as much as the
 * order of work: a step that fails ends the launch.
 */
#include "sandbox/vm/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/slice.h"
#include "base/spaces.h"
#include "qemu/track.h"
#include "sandbox/container/clone.h"
#include "sandbox/mount.h"
#include "sandbox/vm/command.h"
#include "sandbox/walls.h"
#include "seccomp/seccomp.h"
#include "wire/agent_args.h"

enum { SPACES = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS };

struct ctx {
	const struct vm_host *host;
	const struct launch_spec *spec;
	const struct part *part;
	const struct vm_files *files;
	int talk_fd, root_fd;
	int fds[VM_FD_END]; /* for QEMU, at their numbers */
};

typedef int step_fn(struct ctx *c, struct err *e);

static int step_basics(struct ctx *c, struct err *e)
{
	sigset_t none;

	(void)c;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(077);
	if (setsid() < 0)
		return err_sys(e, "setsid");
	/* Huge pages would make each VM larger by megabytes. */
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) < 0)
		return err_sys(e, "no huge pages");
	return 0;
}

/* All of QEMU is inside the quota: its agent is in another kernel. */
static int step_groups(struct ctx *c, struct err *e)
{
	const struct cgroup_host *cg = c->host->cg;
	AUTO_CLOSE int fd = -1;
	int r = cgroup_join(cg, c->part->slot, true);

	if (r < 0)
		return err_set(e, -r, "join cgroups: %s", strerror(-r));
	if (!cg->v2)
		return 0;
	fd = cgroup_open_user_group(cg, c->part->slot, e);
	if (fd < 0)
		return fd;
	r = knob_write_at(fd, "cgroup.procs", "0");
	return r < 0 ? err_set(e, -r, "join cgroup: %s", strerror(-r)) : 0;
}

static int step_spaces(struct ctx *c, struct err *e)
{
	if (setns(c->part->cgroupns_fd, CLONE_NEWCGROUP) < 0)
		return err_sys(e, "enter cgroup namespace");
	if (setns(c->part->netns_fd, CLONE_NEWNET) < 0)
		return err_sys(e, "enter network namespace");
	/* Programs and libraries are the host's: seen from a copy. */
	if (setns(c->host->mnt_fd, CLONE_NEWNS) < 0)
		return err_sys(e, "enter mount namespace");
	if (unshare(CLONE_NEWNS) < 0)
		return err_spaces(e, errno, CLONE_NEWNS,
				  "copy mount namespace");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make mounts private");
	return 0;
}

/* A place in the new root for a directory or a file of the host. */
static int place(const struct ctx *c, const char *from, const char *at,
		 uint64_t flags, struct err *e)
{
	AUTO_CLOSE int fd = -1, at_fd = -1;
	struct stat st;

	fd = mount_clone(AT_FDCWD, from, flags | MOUNT_ATTR_NOSUID, -1, e);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "stat %s", from);
	if (S_ISDIR(st.st_mode)) {
		if (mkdirat(c->root_fd, at, 0755) < 0)
			return err_sys(e, "mkdir %s", at);
	} else {
		close(openat(c->root_fd, at, O_CREAT | O_WRONLY | O_CLOEXEC,
			     0600));
	}
	at_fd = openat(c->root_fd, at, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at_fd < 0)
		return err_sys(e, "open %s", at);
	return mount_at(fd, at_fd, e);
}

/* Its memory is opened by the descriptor. Of processes it sees its own. */
static int place_proc(const struct ctx *c, struct err *e)
{
	static const struct mount_opt opts[] = { { "subset", "pid" }, { 0 } };
	AUTO_CLOSE int fd = -1, at_fd = -1;

	fd = mount_new("proc", opts, VIEW_FLAGS | MOUNT_ATTR_RDONLY, e);
	if (fd < 0)
		return fd;
	if (mkdirat(c->root_fd, "proc", 0555) < 0)
		return err_sys(e, "mkdir proc");
	at_fd = openat(c->root_fd, "proc", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at_fd < 0)
		return err_sys(e, "open proc");
	return mount_at(fd, at_fd, e);
}

static int make_dir(const struct ctx *c, const char *at, struct err *e)
{
	if (mkdirat(c->root_fd, at, 0755) < 0 ||
	    fchmodat(c->root_fd, at, 0755, 0) < 0) /* see umask */
		return err_sys(e, "mkdir %s", at);
	return 0;
}

/* Of the host's programs this one, with its libraries and firmware. */
static int place_qemu(const struct ctx *c, struct err *e)
{
	static const char *const dirs[] = { "usr", "usr/bin", "usr/lib",
					    "usr/share" };
	static const char *const from[] = { "/usr/lib/x86_64-linux-gnu",
					    "/usr/lib64", "/usr/share/qemu" };
	enum { RO = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV };
	const char *qemu = vm_program(c->host);
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (make_dir(c, dirs[i], e) < 0)
			return -e->code;
	for (i = 0; i < ARRAY_LEN(from); i++)
		if (place(c, from[i], from[i] + 1, RO, e) < 0)
			return -e->code;
	return place(c, qemu, qemu + 1, RO, e);
}

/* Of its own: the host's is for root, or for a group that is not here. */
static int make_kvm(const struct ctx *c, struct err *e)
{
	struct stat st;

	if (stat("/dev/kvm", &st) < 0 ||
	    mknodat(c->root_fd, "dev/kvm", S_IFCHR, st.st_rdev) < 0 ||
	    fchmodat(c->root_fd, "dev/kvm", 0666, 0) < 0)
		return err_sys(e, "make /dev/kvm");
	return 0;
}

static int step_root(struct ctx *c, struct err *e)
{
	static const struct mount_opt opts[] = {
		{ "source", "vm" }, { "mode", "0755" }, { "size", "64k" }, { 0 }
	};
	static const char *const links[] = { "lib", "lib64" };
	enum { RO = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV };
	AUTO_CLOSE int at_fd = -1;
	char target[16];
	size_t i;

	c->root_fd = mount_new("tmpfs", opts, MOUNT_ATTR_NOSUID, e);
	if (c->root_fd < 0)
		return c->root_fd;
	/* Over /proc: a directory that is surely there. Attached first: before
	 * 6.15 the kernel mounts nothing on a tree that is not attached. */
	at_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at_fd < 0)
		return err_sys(e, "open /proc");
	if (mount_at(c->root_fd, at_fd, e) < 0 || make_dir(c, "dev", e) < 0)
		return -e->code;
	for (i = 0; i < ARRAY_LEN(links); i++) {
		snprintf(target, sizeof(target), "usr/%s", links[i]);
		if (symlinkat(target, c->root_fd, links[i]) < 0)
			return err_sys(e, "link %s", links[i]);
	}
	if (place_qemu(c, e) < 0 ||
	    place(c, c->host->dir, "vm", RO | MOUNT_ATTR_NOEXEC, e) < 0 ||
	    place(c, "/dev/null", "dev/null", 0, e) < 0 ||
	    place(c, "/dev/urandom", "dev/urandom", 0, e) < 0)
		return -e->code;
	if (place_proc(c, e) < 0)
		return -e->code;
	return c->host->kvm ? make_kvm(c, e) : 0;
}

static int step_pivot(struct ctx *c, struct err *e)
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };

	if (fchdir(c->root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(e, "enter the root");
	if (mount_setattr(AT_FDCWD, "/", 0, &ro, sizeof(ro)) < 0)
		return err_sys(e, "make the root read-only");
	return 0;
}

static int step_limits(struct ctx *c, struct err *e)
{
	static const struct {
		int what;
		rlim_t most;
	} limits[] = {
		{ RLIMIT_CORE, 1 }, /* see container/launch.c */
		{ RLIMIT_NOFILE, 256 },
		{ RLIMIT_MEMLOCK, 0 },
		{ RLIMIT_MSGQUEUE, 0 },
	};
	size_t i;

	if (c->spec->cpus_milli < CGROUP_CPU_MILLI && slice_common(e) < 0)
		return -e->code;
	for (i = 0; i < ARRAY_LEN(limits); i++) {
		const struct rlimit to = { limits[i].most, limits[i].most };

		if (setrlimit(limits[i].what, &to) < 0)
			return err_sys(e, "setrlimit");
	}
	return 0;
}

/* Those of QEMU at their numbers; the rest is closed on exec. */
static int step_fds(struct ctx *c, struct err *e)
{
	const struct vm_files *f = c->files;
	int i;

	c->fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* What QEMU has to say itself goes where the guest's console goes. */
	c->fds[1] = c->fds[2] = f->console_fd;
	memcpy(&c->fds[VM_FD_PORT], f->port_fd, sizeof(f->port_fd));
	c->fds[VM_FD_QMP] = f->qmp_fd;
	c->fds[VM_FD_BASE] = f->base_fd;
	c->fds[VM_FD_DISK] = f->disk_fd;
	c->fds[VM_FD_RAM] = f->ram_fd;
	c->fds[VM_FD_TRACK] = c->host->track_fd;
	c->talk_fd = fcntl(c->talk_fd, F_DUPFD_CLOEXEC, 64);
	if (c->talk_fd < 0)
		return err_sys(e, "move descriptor");
	/* A probe has next to nothing. */
	for (i = 0; f->mode == VM_PROBE && i < VM_FD_END; i++)
		if (c->fds[i] < 0)
			c->fds[i] = c->fds[0];
	/* First out of the way, so that no move hits one still to be moved */
	for (i = 0; i < VM_FD_END; i++) {
		c->fds[i] = fcntl(c->fds[i], F_DUPFD_CLOEXEC, 64);
		if (c->fds[i] < 0)
			return err_sys(e, "move descriptor");
	}
	for (i = 0; i < VM_FD_END; i++)
		if (dup2(c->fds[i], i) < 0)
			return err_sys(e, "move descriptor");
	if (close_range(VM_FD_END, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return err_sys(e, "close descriptors");
	return 0;
}

static int step_ids(struct ctx *c, struct err *e)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct none[2] = { 0 };
	int cap;

	if (setgroups(0, NULL) < 0 ||
	    setns(c->part->userns_fd, CLONE_NEWUSER) < 0)
		return err_sys(e, "enter user namespace");
	/* Now: who enters a user namespace has all of them there again. */
	for (cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
			return err_sys(e, "drop capability %d", cap);
	if (setresgid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0 ||
	    setresuid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0)
		return err_sys(e, "become id %d", SANDBOX_UID);
	if (syscall(SYS_capset, &head, none) < 0)
		return err_sys(e, "drop capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	return 0;
}

static int step_exec(struct ctx *c, struct err *e)
{
	char track[48], *env[] = { track, NULL };
	struct vm_command cmd = { 0 };
	int r;

	_Static_assert((int)VM_FD_TRACK == (int)TRACK_FD, "it knows where");
	snprintf(track, sizeof(track), "LD_PRELOAD=/proc/self/fd/%d",
		 VM_FD_TRACK);
	/* Nobody would find it again. (A change of ids clears this.) */
	if ((c->files->mode == VM_TEMPLATE || c->files->mode == VM_PROBE) &&
	    prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_sys(e, "end with the warden");
	if (vm_command(&cmd, c->host, c->spec, c->files->mode, e) < 0)
		return -e->code;
	r = WALL(SECCOMP) ? seccomp_install(&filter_qemu) : 0;
	if (r < 0)
		return err_set(e, -r, "install filter: %s", strerror(-r));
	execve(cmd.argv[0], cmd.argv, env);
	return err_sys(e, "execute %s", cmd.argv[0]);
}

static const struct {
	const char *name;
	step_fn *fn;
} steps[] = {
	{ "set up process", step_basics }, { "join groups", step_groups },
	{ "namespaces", step_spaces },     { "make root", step_root },
	{ "enter root", step_pivot },      { "resource limits", step_limits },
	{ "descriptors", step_fds },       { "identity", step_ids },
	{ "start QEMU", step_exec },
};

static void __attribute__((noreturn)) child(struct ctx *c)
{
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(steps); i++)
		if (steps[i].fn(c, &e) < 0) {
			err_wrap(&e, "%s", steps[i].name);
			break;
		}
	if (write_full(c->talk_fd, &e, sizeof(e)) < 0)
		_exit(126);
	_exit(127);
}

/*
 * A page that is written for the first time may be there twice: in the memory
 * that the machine starts from, where there was a hole, and as its own.
 */
struct cgroup_limits vm_limits(const struct launch_spec *s)
{
	return (struct cgroup_limits){
		.mem_bytes = 2 * vm_ram_bytes(s) + VM_QEMU_BYTES,
		.cpus_milli = s->cpus_milli,
		.pids = VM_PIDS + vm_processors(s),
	};
}

int vm_start(const struct vm_host *h, const struct launch_spec *s,
	     const struct part *p, const struct vm_files *f,
	     struct vm_started *out, struct err *e)
{
	AUTO_CLOSE int talk_fd = -1;
	struct ctx c = {
		.host = h, .spec = s, .part = p, .files = f, .root_fd = -1
	};
	int talk[2];

	*out = (struct vm_started){ .pid_fd = -1, .talk_fd = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, talk) < 0)
		return err_sys(e, "socketpair");
	out->talk_fd = talk[0];
	talk_fd = talk[1];
	c.talk_fd = talk_fd;
	out->pid = clone_into(SPACES, p->group_fd, &out->pid_fd);
	if (out->pid == 0)
		child(&c);
	if (out->pid < 0)
		return err_spaces(e, -out->pid, SPACES, "clone");
	return 0;
}
