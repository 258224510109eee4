/*
 * A sandbox without the launcher, for tests of the agent: fresh namespaces, a
 * user namespace with ids of its own, the agent outside of its map with just
 * AGENT_CAPS; the host's files below, with small /etc, /home, /tmp and devpts.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "wire/agent_args.h"

enum { BOX_BASE = 1900000000, BOX_AGENT = BOX_BASE + SANDBOX_IDS };

struct box {
	pid_t pid;
	char dir[64], sock[96], group[96];
	const char *join; /* "v1", "v2" or "" */
	int listen_fd, userns_fd, agent_fd, sudo_fd, join_fd;
};

static void box_die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static void box_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	if (fd < 0 || write_full(fd, text, strlen(text)) < 0)
		box_die(path);
	close(fd);
}

static void box_copy(int from, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	char block[65536];
	ssize_t n;

	while ((n = read(from, block, sizeof(block))) > 0)
		if (write_full(fd, block, (size_t)n) < 0)
			box_die(path);
	fchmod(fd, 0755);
	close(fd);
}

static void box_mounts(const struct box *b)
{
	char opts[64];

	if (mount("", "/", "", MS_REC | MS_PRIVATE, NULL) < 0)
		box_die("private mounts");
	snprintf(opts, sizeof(opts),
		 "newinstance,ptmxmode=0666,mode=620,gid=%d", BOX_BASE + 5);
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV, NULL) < 0 ||
	    mount("devpts", "/dev/pts", "devpts", MS_NOSUID, opts) < 0 ||
	    mount("tmpfs", "/etc", "tmpfs", MS_NOSUID, "mode=755") < 0 ||
	    mount("tmpfs", "/home", "tmpfs", MS_NOSUID, "mode=755") < 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID, "mode=1777") < 0)
		box_die("mounts");
	box_file("/etc/passwd",
		 "root:x:0:0:root:/tmp:/bin/sh\n"
		 "user:x:1000:1000::/home/user:/bin/sh\n"
		 "bin:x:2:2::/nowhere:/bin/sh\n",
		 0644);
	box_file("/etc/group",
		 "root:x:0:\ntty:x:5:\naudio:x:29:user,bin\nuser:x:1000:\n",
		 0644);
	mkdir("/home/user", 0755);
	if (chown("/home/user", BOX_BASE + 1000, BOX_BASE + 1000) < 0)
		box_die("chown");
	box_copy(b->sudo_fd, "/tmp/sudo");
	box_copy(b->sudo_fd, "/tmp/not-run");
	chmod("/tmp/not-run", 0644);
}

static void box_ids(const struct box *b)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct caps[2] = { { AGENT_CAPS, AGENT_CAPS,
						    AGENT_CAPS } };
	int i;

	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 ||
	    setgroups(0, NULL) < 0 ||
	    setresgid(BOX_AGENT, BOX_AGENT, BOX_AGENT) < 0 ||
	    setresuid(BOX_AGENT, BOX_AGENT, BOX_AGENT) < 0 ||
	    setns(b->userns_fd, CLONE_NEWUSER) < 0 ||
	    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		box_die("ids");
	for (i = 0; i < 41; i++)
		if (!((uint64_t)AGENT_CAPS >> i & 1) &&
		    prctl(PR_CAPBSET_READ, i) >= 0 &&
		    prctl(PR_CAPBSET_DROP, i) < 0)
			box_die("bounding set");
	if (syscall(SYS_capset, &head, caps) < 0)
		box_die("capset");
	for (i = 0; i < 32; i++)
		if (AGENT_CAPS >> i & 1 &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0) < 0)
			box_die("ambient");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		box_die("nnp");
}

static void box_child(const struct box *b, bool sudo)
{
	char words[3][32];
	char *argv[8] = { (char *)"agent" };
	char *env[] = { NULL };
	char path[160];
	int n = 1, oom;

	if (strcmp(b->join, "v2") == 0) {
		snprintf(path, sizeof(path), "%s/agent/cgroup.procs", b->group);
		box_file(path, "0", 0);
	}
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 1, 1 });
	box_mounts(b);
	oom = open("/proc/self/oom_score_adj", O_WRONLY);
	snprintf(words[0], sizeof(words[0]), "listen=%d", b->listen_fd);
	snprintf(words[1], sizeof(words[1]), "oom=%d", oom);
	snprintf(words[2], sizeof(words[2]), "%s=%d",
		 strcmp(b->join, "v2") == 0 ? "into" : "join", b->join_fd);
	argv[n++] = words[0];
	argv[n++] = words[1];
	argv[n++] = (char *)(sudo ? "sudo=1" : "sudo=0");
	argv[n++] = (char *)"cpus=1";
	if (b->join_fd >= 0)
		argv[n++] = words[2];
	signal(SIGPIPE, SIG_IGN); /* must not reach the processes */
	box_ids(b);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves nothing */
	fcntl(b->listen_fd, F_SETFD, 0);
	/* The launcher's agent has none of these. */
	close(0);
	close(1);
	if (!getenv("AGENT_TRACE"))
		close(2);
	syscall(SYS_execveat, b->agent_fd, "", argv, env, AT_EMPTY_PATH);
	_exit(99);
}

static int box_userns(void)
{
	char path[64];
	int fd;
	pid_t pid =
		(pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0) {
		pause();
		_exit(0);
	}
	if (pid < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	box_file(path, "0 1900000000 65536\n", 0);
	snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	box_file(path, "0 1900000000 65536\n", 0);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return fd;
}

static void box_owner(const char *dir, const char *file)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	if (chown(path, BOX_AGENT, (gid_t)-1) < 0)
		box_die(path);
}

/*
 * Groups of the sandbox, as the host has them: on v2 `agent` and `user` in
 * one, and who moves a child from the first to the second must own three
 * files; on v1 the open `tasks`. None where there is no writable hierarchy.
 */
static void box_group(struct box *b, bool v2)
{
	const char *root = v2 ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup/cpu";
	char path[160];

	if (v2 && access("/sys/fs/cgroup/cgroup.procs", W_OK) == 0)
		root = "/sys/fs/cgroup";
	snprintf(b->group, sizeof(b->group), "%s/agent-test-%d", root,
		 getpid());
	b->join_fd = -1;
	b->join = "";
	if (mkdir(b->group, 0755) < 0)
		return;
	b->join = v2 ? "v2" : "v1";
	if (v2) {
		snprintf(path, sizeof(path), "%s/agent", b->group);
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/user", b->group);
		mkdir(path, 0755);
		b->join_fd = open(path, O_RDONLY | O_DIRECTORY);
		box_owner(b->group, "cgroup.procs");
		box_owner(b->group, "user/cgroup.procs");
	} else {
		snprintf(path, sizeof(path), "%s/tasks", b->group);
		b->join_fd = open(path, O_WRONLY);
	}
}

static void box_ungroup(const struct box *b)
{
	static const char *const parts[] = { "/user", "/agent", "" };
	char path[160];
	size_t i, tries;

	for (i = 0; i < ARRAY_LEN(parts) && *b->join; i++) {
		snprintf(path, sizeof(path), "%s%s", b->group, parts[i]);
		for (tries = 0; tries < 100; tries++) {
			if (rmdir(path) == 0 || errno == ENOENT)
				break;
			usleep(10000);
		}
	}
}

static void box_programs(struct box *b, const char *self)
{
	const char *dir = getenv("AGENT_BIN");
	char path[512];

	if (dir)
		snprintf(path, sizeof(path), "%s/carrel-agent", dir);
	else /* build/unit/agent_test is beside build/bin */
		snprintf(path, sizeof(path), "%.*s/../bin/carrel-agent",
			 (int)(strrchr(self, '/') - self), self);
	b->agent_fd = open(path, O_RDONLY | O_CLOEXEC);
	fsync(b->agent_fd); /* else its pages count as dirty memory */
	memcpy(path + strlen(path) - strlen("agent"), "sudo", sizeof("sudo"));
	b->sudo_fd = open(path, O_RDONLY | O_CLOEXEC);
}

/* 0, or 77 where this cannot be run. */
static int box_start(struct box *b, const char *self, bool sudo, bool v2)
{
	*b = (struct box){ .dir = "/tmp/agent-test-XXXXXX" };
	box_programs(b, self);
	if (geteuid() != 0 || b->agent_fd < 0 || b->sudo_fd < 0)
		return 77;
	if (!mkdtemp(b->dir))
		box_die("mkdtemp");
	snprintf(b->sock, sizeof(b->sock), "%s/sock", b->dir);
	b->listen_fd = unix_listen_at(AT_FDCWD, b->sock, SOCK_STREAM, 0600);
	b->userns_fd = box_userns();
	if (b->listen_fd < 0 || b->userns_fd < 0)
		return 77;
	box_group(b, v2);
	b->pid = (pid_t)syscall(SYS_clone,
				CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET |
					CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD,
				0, 0, 0, 0);
	if (b->pid == 0)
		box_child(b, sudo);
	if (b->pid < 0)
		return 77;
	close(b->listen_fd);
	close(b->userns_fd);
	return 0;
}

static void box_stop(struct box *b)
{
	kill(b->pid, SIGKILL);
	waitpid(b->pid, NULL, 0);
	unlink(b->sock);
	rmdir(b->dir);
	if (b->join_fd >= 0)
		close(b->join_fd);
	box_ungroup(b);
	close(b->agent_fd);
	close(b->sudo_fd);
}
