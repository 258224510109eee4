/*
 * A namespace needs a process to be born in: a short-lived helper makes the
 * network, if the part has one, joins the groups, unshares the cgroup
 * namespace, all still as the host's root, so that they belong to the initial
 * user namespace; then the user namespace; and stays until its namespaces are
 * open here.
 */
#include "sandbox/container/part.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/spaces.h"
#include "sandbox/container/clone.h"
#include "sandbox/container/network.h"
#include "sandbox/mount.h"
#include "sandbox/walls.h"
#include "wire/agent_args.h"

/* The limits of namespaces below the sandbox's own: none of any kind. */
static const char *const ns_limits[] = {
	"sys/user/max_user_namespaces",   "sys/user/max_mnt_namespaces",
	"sys/user/max_pid_namespaces",    "sys/user/max_net_namespaces",
	"sys/user/max_ipc_namespaces",    "sys/user/max_uts_namespaces",
	"sys/user/max_cgroup_namespaces", "sys/user/max_time_namespaces",
};

static int limit_namespaces(int proc_fd, struct err *e)
{
	size_t i;
	int r;

	for (i = 0; i < ARRAY_LEN(ns_limits); i++) {
		r = knob_write_at(proc_fd, ns_limits[i], "0");
		if (r < 0)
			return err_set(e, -r, "write %s: %s", ns_limits[i],
				       strerror(-r));
	}
	return 0;
}

static int helper_network(int proc_fd, struct err *e)
{
	int r = network_new();

	if (r < 0)
		return err_spaces(e, -r, CLONE_NEWNET, "network namespace");
	r = network_any_port(proc_fd);
	return r < 0 ? err_set(e, -r, "open all ports: %s", strerror(-r)) : 0;
}

/*
 * All but the user namespace belong to the host's: the order matters.
 *
 * The knobs are written through a /proc of the helper's own. In the host's,
 * each namespace leaves entries of the same names behind, and with a thousand
 * sandboxes finding the right one takes milliseconds. It stays open until the
 * helper ends: to take a mount down is to wait for all processors.
 */
static int helper_steps(const struct cgroup_host *h, const struct part *p,
			struct err *e)
{
	int proc_fd = mount_new("proc", NULL, VIEW_FLAGS, e), r;

	if (proc_fd < 0)
		return proc_fd;
	if (p->kind == PART_SANDBOX && helper_network(proc_fd, e) < 0)
		return -e->code;
	r = cgroup_join(h, p->slot, true);
	if (r < 0)
		return err_set(e, -r, "join cgroups: %s", strerror(-r));
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_spaces(e, errno, CLONE_NEWCGROUP,
				  "cgroup namespace");
	/* Or its end would have to wait for what the sandbox does. */
	r = cgroup_leave_quota(h, p->slot);
	if (r < 0)
		return err_set(e, -r, "leave the quota: %s", strerror(-r));
	if (unshare(CLONE_NEWUSER) < 0)
		return err_spaces(e, errno, CLONE_NEWUSER, "user namespace");
	if (p->kind == PART_WORKER || !WALL(NSLIMIT))
		return 0;
	return limit_namespaces(proc_fd, e);
}

/* Tells how it went, then waits to be let go. */
static void __attribute__((noreturn)) helper(const struct cgroup_host *h,
					     const struct part *p, int fd)
{
	struct err e = { 0 };
	int r = helper_steps(h, p, &e);
	char c;

	if (write_full(fd, &e, sizeof(e)) < 0 || r < 0)
		_exit(1);
	if (read(fd, &c, 1) < 0)
		_exit(1);
	_exit(0);
}

static int write_maps(const struct part *p, int proc_fd, pid_t pid,
		      struct err *e)
{
	static const char *const files[] = { "uid_map", "gid_map" };
	char path[48], map[48];
	size_t i;
	int r;

	snprintf(map, sizeof(map), "0 %u %d", WALL(IDMAP) ? p->base : 0,
		 SANDBOX_IDS);
	for (i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "%d/%s", (int)pid, files[i]);
		r = knob_write_at(proc_fd, path, map);
		if (r < 0)
			return err_set(e, -r, "write %s: %s", files[i],
				       strerror(-r));
	}
	return 0;
}

static int open_spaces(struct part *p, int proc_fd, pid_t pid, struct err *e)
{
	const struct {
		const char *name;
		int *fd;
	} spaces[] = { { "user", &p->userns_fd },
		       { "cgroup", &p->cgroupns_fd },
		       { "net", &p->netns_fd } };
	char path[48];
	size_t i;

	for (i = 0; i < ARRAY_LEN(spaces); i++) {
		/* What the helper has for a network then is the host's. */
		if (p->kind == PART_NO_NET && spaces[i].fd == &p->netns_fd)
			continue;
		snprintf(path, sizeof(path), "%d/ns/%s", (int)pid,
			 spaces[i].name);
		*spaces[i].fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
		if (*spaces[i].fd < 0)
			return err_sys(e, "open %s namespace", spaces[i].name);
	}
	return 0;
}

static int use_helper(struct part *p, int proc_fd, pid_t pid, int pipe_fd,
		      struct err *e)
{
	struct err told;

	if (read_full(pipe_fd, &told, sizeof(told)) != (ssize_t)sizeof(told))
		return err_set(e, EIO, "make namespaces: the helper died");
	if (told.code) {
		*e = told;
		return err_wrap(e, "make namespaces");
	}
	if (write_maps(p, proc_fd, pid, e) < 0)
		return -e->code;
	return open_spaces(p, proc_fd, pid, e);
}

static int helper_start(const struct cgroup_host *h, struct part *p,
			struct err *e)
{
	int pair[2], pid_fd = -1;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	pid = clone_into(0, p->birth_fd, &pid_fd);
	if (pid == 0) {
		close(pair[0]); /* or it would never see the end */
		helper(h, p, pair[1]);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_set(e, -pid, "start helper: %s", strerror(-pid));
	}
	p->helper = pid;
	p->helper_fd = pair[0];
	p->helper_pid_fd = pid_fd;
	return 0;
}

static void dismiss(struct part *p)
{
	/* Not by closing alone: a child of another launch may have a copy. */
	if (p->helper_fd >= 0)
		shutdown(p->helper_fd, SHUT_WR);
	auto_close(&p->helper_fd);
}

void part_reap(struct part *p)
{
	if (p->helper == 0)
		return;
	dismiss(p);
	while (waitpid(p->helper, NULL, 0) < 0 && errno == EINTR)
		continue;
	p->helper = 0;
	auto_close(&p->helper_pid_fd);
}

int part_release(struct part *p)
{
	if (p->helper == 0)
		return -1;
	dismiss(p);
	p->helper = 0;
	return take_fd(&p->helper_pid_fd);
}

static int failed(struct part *p, struct err *e)
{
	part_close(p);
	return err_wrap(e, "prepare slot %u", p->slot);
}

int part_open(const struct cgroup_host *h, enum part_kind kind, struct part *p,
	      struct err *e)
{
	p->kind = kind;
	p->unfinished = true;
	p->birth_fd = cgroup_make(h, p->slot, e);
	if (p->birth_fd < 0)
		return failed(p, e);
	if (!h->v2)
		p->group_fd = fcntl(p->birth_fd, F_DUPFD_CLOEXEC, 3);
	return 0;
}

int part_start(const struct cgroup_host *h, struct part *p, struct err *e)
{
	if (cgroup_make_v1(h, p->slot, e) < 0 ||
	    (p->kind != PART_WORKER &&
	     cgroup_make_user(h, p->slot, part_agent_uid(p), e) < 0) ||
	    helper_start(h, p, e) < 0)
		return failed(p, e);
	return 0;
}

int part_finish(const struct cgroup_host *h, int proc_fd, struct part *p,
		struct err *e)
{
	int r = use_helper(p, proc_fd, p->helper, p->helper_fd, e);

	auto_close(&p->birth_fd);
	p->unfinished = false;
	/* It stays, for who is in a hurry; on v2 it must have left the group
	 * before that is split. */
	if (h->v2)
		part_reap(p);
	if (r == 0 && h->v2) {
		p->group_fd = cgroup_split(h, p->slot, part_agent_uid(p), e);
		r = p->group_fd;
	}
	return r < 0 ? failed(p, e) : 0;
}

void part_close(struct part *p)
{
	part_reap(p);
	auto_close(&p->birth_fd);
	auto_close(&p->group_fd);
	auto_close(&p->userns_fd);
	auto_close(&p->cgroupns_fd);
	auto_close(&p->netns_fd);
}
