/*
 * A namespace needs a process to be born in: a short-lived helper unshares the
 * network namespace (the slowest of all, so first, while the groups are being
 * made), joins the groups, unshares the cgroup namespace, both still as the
 * host's root, so that they belong to the initial user namespace; then the
 * user namespace; and stays until its namespaces are open here.
 */
#include "sandbox/container/part.h"

#include <fcntl.h>
#include <linux/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/fd.h"
#include "sandbox/container/clone.h"
#include "sandbox/walls.h"
#include "wire/agent_args.h"

/* What the helper needs to know. */
struct maker {
	const struct cgroup_host *cg;
	const struct part *part;
	int proc_fd;
	enum part_kind kind;
	int fd; /* to the warden */
};

/* The limits of namespaces below the sandbox's own: none of any kind. */
static const char *const ns_limits[] = {
	"sys/user/max_user_namespaces",   "sys/user/max_mnt_namespaces",
	"sys/user/max_pid_namespaces",    "sys/user/max_net_namespaces",
	"sys/user/max_ipc_namespaces",    "sys/user/max_uts_namespaces",
	"sys/user/max_cgroup_namespaces", "sys/user/max_time_namespaces",
};

/* A network of its own: only `lo`, and any port for servers inside. */
static int net_setup(int proc_fd)
{
	AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { .ifr_name = "lo" };

	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr) < 0)
		return -errno;
	ifr.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return -errno;
	return knob_write_at(proc_fd, "sys/net/ipv4/ip_unprivileged_port_start",
			     "0");
}

/* All but the user namespace belong to the host's: the order matters. */
static int helper_steps(const struct maker *m)
{
	char go;
	size_t i;
	int r;

	if (WALL(NETNS)) {
		if (unshare(CLONE_NEWNET) < 0)
			return -errno;
		r = net_setup(m->proc_fd);
		if (r < 0)
			return r;
	}
	if (read(m->fd, &go, 1) != 1)
		return -ECANCELED;
	r = cgroup_join_user(m->cg, m->part->slot);
	if (r < 0)
		return r;
	if (unshare(CLONE_NEWCGROUP) < 0 || unshare(CLONE_NEWUSER) < 0)
		return -errno;
	if (m->kind != PART_SANDBOX || !WALL(NSLIMIT))
		return 0;
	for (i = 0; i < ARRAY_LEN(ns_limits); i++) {
		r = knob_write_at(m->proc_fd, ns_limits[i], "0");
		if (r < 0)
			return r;
	}
	return 0;
}

/* Tells how it went, then waits to be let go. */
static void __attribute__((noreturn)) helper(const struct maker *m)
{
	int r = helper_steps(m);
	char c;

	if (write_full(m->fd, &r, sizeof(r)) < 0 || r < 0)
		_exit(1);
	if (read(m->fd, &c, 1) < 0)
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
	int status;

	if (read_full(pipe_fd, &status, sizeof(status)) !=
	    (ssize_t)sizeof(status))
		return err_set(e, EIO, "make namespaces: the helper died");
	if (status < 0)
		return err_set(e, -status, "make namespaces: %s",
			       strerror(-status));
	if (write_maps(p, proc_fd, pid, e) < 0)
		return -e->code;
	return open_spaces(p, proc_fd, pid, e);
}

static int helper_start(struct part *p, struct maker *m, struct err *e)
{
	AUTO_CLOSE int pid_fd = -1;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	m->fd = pair[1];
	pid = clone_into(0, p->cg.unified_fd, &pid_fd);
	if (pid == 0) {
		close(pair[0]); /* or it would never see the end */
		helper(m);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_set(e, -pid, "start helper: %s", strerror(-pid));
	}
	p->helper = pid;
	p->helper_fd = pair[0];
	return 0;
}

static void helper_end(struct part *p)
{
	if (p->helper == 0)
		return;
	auto_close(&p->helper_fd); /* it sees the end, and ends */
	while (waitpid(p->helper, NULL, 0) < 0 && errno == EINTR)
		continue;
	p->helper = 0;
}

static int failed(struct part *p, struct err *e)
{
	part_close(p);
	return err_wrap(e, "prepare slot %u", p->slot);
}

int part_begin(const struct cgroup_host *h, int proc_fd, enum part_kind kind,
	       struct part *p, struct err *e)
{
	struct maker m = { h, p, proc_fd, kind, -1 };
	int r;

	p->userns_fd = p->cgroupns_fd = p->netns_fd = p->helper_fd = -1;
	p->helper = 0;
	if (cgroup_make(h, p->slot, &p->cg, e) < 0 ||
	    helper_start(p, &m, e) < 0 || cgroup_make_v1(h, &p->cg, e) < 0)
		return failed(p, e);
	r = write_full(p->helper_fd, "g", 1);
	if (r < 0) {
		err_set(e, -r, "the helper died");
		return failed(p, e);
	}
	return 0;
}

int part_finish(const struct cgroup_host *h, int proc_fd, struct part *p,
		struct err *e)
{
	int r = use_helper(p, proc_fd, p->helper, p->helper_fd, e);

	helper_end(p);
	if (r == 0)
		r = cgroup_split(h, &p->cg, part_agent_uid(p), e);
	return r < 0 ? failed(p, e) : 0;
}

void part_close(struct part *p)
{
	helper_end(p);
	cgroup_box_close(&p->cg);
	auto_close(&p->userns_fd);
	auto_close(&p->cgroupns_fd);
	auto_close(&p->netns_fd);
}
