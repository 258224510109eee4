/*
 * The warden's own walls. It is root, but in a mount namespace that holds
 * little: the pool, /proc, its own control groups (of v1), and empty
 * directories to build sandboxes on.
 * That is a wall (there is no host file to reach by a wrong path), and it is
 * speed: each launch copies this namespace, so its size is part of the time.
 * Host things that are still needed were opened before, as descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/privs.h"
#include "base/product.h"
#include "base/spaces.h"
#include "sandbox/mount.h"
#include "sandbox/walls.h"
#include "seccomp/seccomp.h"
#include "warden/warden.h"

/* The capabilities that some step needs; all others are given up. */
#define CAPS                                                                 \
	(1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_FOWNER | \
	 1ULL << CAP_FSETID | 1ULL << CAP_KILL | 1ULL << CAP_SETGID |        \
	 1ULL << CAP_SETUID | 1ULL << CAP_SETPCAP | 1ULL << CAP_NET_ADMIN |  \
	 1ULL << CAP_SYS_CHROOT | 1ULL << CAP_SYS_PTRACE |                   \
	 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_SYS_RESOURCE |                  \
	 1ULL << CAP_MKNOD | 1ULL << CAP_SETFCAP)

static int open_program(const struct warden *w, const char *name, struct err *e)
{
	char path[CONF_PATH + 32];
	int fd;

	snprintf(path, sizeof(path), "%s/" PRODUCT "-%s", w->conf.libexec_dir,
		 name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

int confine_open(struct warden *w, struct err *e)
{
	char path[CONF_PATH + 32];

	w->launch.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->launch.proc_fd < 0)
		return err_sys(e, "open /proc");
	w->host_mnt_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (w->host_mnt_fd < 0)
		return err_sys(e, "open mount namespace");
	w->net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (w->net_fd < 0)
		return err_sys(e, "open network namespace");
	if (vms_open(w, e) < 0)
		return -e->code;
	w->worker_fd = open_program(w, "worker", e);
	if (w->worker_fd < 0)
		return w->worker_fd;
	w->fetch_fd = open_program(w, "fetch", e);
	if (w->fetch_fd < 0)
		return w->fetch_fd;
	w->sudo_fd = open_program(w, "sudo", e);
	if (w->sudo_fd < 0)
		return w->sudo_fd;
	snprintf(path, sizeof(path), "%s/" PRODUCT "-agent",
		 w->conf.libexec_dir);
	w->launch.agent_fd = launch_load_agent(path, e);
	if (w->launch.agent_fd < 0)
		return w->launch.agent_fd;
	snprintf(path, sizeof(path), "%s/" PRODUCT "-relay",
		 w->conf.libexec_dir);
	w->relay_fd = launch_load_agent(path, e);
	return w->relay_fd < 0 ? w->relay_fd : 0;
}

static int attach(int mnt_fd, int root_fd, const char *name, struct err *e)
{
	AUTO_CLOSE int at_fd = -1;

	if (mkdirat(root_fd, name, 0700) < 0)
		return err_sys(e, "mkdir %s", name);
	at_fd = openat(root_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at_fd < 0)
		return err_sys(e, "open %s", name);
	return mount_at(mnt_fd, at_fd, e);
}

/* Copies of what is kept; a mount can be copied only in its own namespace. */
struct kept {
	int pool_fd, proc_fd;
	int group_fd[CGROUP_V1_MAX]; /* -1: none */
	const char *group[CGROUP_V1_MAX];
};

static void kept_close(struct kept *k)
{
	size_t i;

	auto_close(&k->pool_fd);
	auto_close(&k->proc_fd);
	for (i = 0; i < CGROUP_V1_MAX; i++)
		auto_close(&k->group_fd[i]);
}

static int copy_groups(const struct warden *w, struct kept *k, struct err *e)
{
	unsigned i;

	for (i = 0; i < CGROUP_V1_MAX; i++) {
		k->group_fd[i] =
			cgroup_parent_mount(&w->cg, i, &k->group[i], e);
		if (e->code)
			return err_wrap(e, "groups of %s", k->group[i]);
	}
	return 0;
}

static int copy_mounts(const struct warden *w, struct kept *k, struct err *e)
{
	k->pool_fd = mount_clone(w->store.root_fd, "",
				 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1, e);
	if (k->pool_fd < 0)
		return err_wrap(e, "pool");
	k->proc_fd = mount_clone(AT_FDCWD, "/proc", VIEW_FLAGS, -1, e);
	return k->proc_fd < 0 ? k->proc_fd : copy_groups(w, k, e);
}

static int attach_groups(const struct warden *w, const struct kept *k,
			 int root_fd, struct err *e)
{
	char path[48];
	size_t i;

	if (w->cg.v2)
		return 0;
	if (mkdirat(root_fd, CGROUP_PARENTS + 1, 0700) < 0)
		return err_sys(e, "mkdir " CGROUP_PARENTS);
	for (i = 0; i < CGROUP_V1_MAX; i++) {
		snprintf(path, sizeof(path), "%s/%s", CGROUP_PARENTS + 1,
			 k->group[i]);
		if (k->group_fd[i] >= 0 &&
		    attach(k->group_fd[i], root_fd, path, e) < 0)
			return -e->code;
	}
	return 0;
}

static int build_root(const struct warden *w, const struct kept *k,
		      struct err *e)
{
	static const struct mount_opt opts[] = { { "source", "warden" },
						 { "mode", "0700" },
						 { "size", "1m" },
						 { 0 } };
	static const char *const dirs[] = LAUNCH_DIRS;
	AUTO_CLOSE int root_fd = -1, at_fd = -1;
	size_t i;

	root_fd = mount_new("tmpfs", opts, VIEW_FLAGS, e);
	if (root_fd < 0)
		return root_fd;
	/* Over /proc for the moment: a directory that surely exists. */
	at_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at_fd < 0)
		return err_sys(e, "open /proc");
	if (mount_at(root_fd, at_fd, e) < 0 ||
	    attach(k->pool_fd, root_fd, "pool", e) < 0 ||
	    attach(k->proc_fd, root_fd, "proc", e) < 0 ||
	    attach_groups(w, k, root_fd, e) < 0)
		return -e->code;
	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(root_fd, dirs[i], 0700) < 0)
			return err_sys(e, "mkdir %s", dirs[i]);
	if (fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(e, "enter own root");
	return 0;
}

static int leave_host(const struct warden *w, const struct kept *k,
		      struct err *e)
{
	if (unshare(CLONE_NEWNS) < 0)
		return err_spaces(e, errno, CLONE_NEWNS, "own mount namespace");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make mounts private");
	return build_root(w, k, e);
}

/* The descriptors of the pool and of /proc must be of the new namespace. */
static int reopen(struct warden *w, struct err *e)
{
	close(w->store.root_fd);
	w->store.root_fd = open("/pool", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(w->launch.proc_fd);
	w->launch.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->store.root_fd < 0 || w->launch.proc_fd < 0)
		return err_sys(e, "reopen");
	return 0;
}

static void raise_files(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
}

int confine_enter(struct warden *w, struct err *e)
{
	const struct rlimit no_core = { 1, 1 }; /* see step_limits() */
	struct kept k = { -1, -1, { -1, -1, -1, -1, -1 }, { 0 } };
	int r;

	raise_files();
	if (WALL(RLIMITS) && setrlimit(RLIMIT_CORE, &no_core) < 0)
		return err_sys(e, "setrlimit");
	r = copy_mounts(w, &k, e);
	if (r == 0)
		r = leave_host(w, &k, e);
	kept_close(&k);
	if (r < 0 || reopen(w, e) < 0 || privs_limit(CAPS, e) < 0)
		return -e->code;
	/* Both are inherited by every sandbox: a test of either takes ours. */
	if (WALL(NNP) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
#ifndef SANITIZED
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_sys(e, "set dumpable");
#endif
	r = WALL(SECCOMP) ? seccomp_install(&filter_warden) : 0;
	return r < 0 ? err_set(e, -r, "install filter: %s", strerror(-r)) : 0;
}
