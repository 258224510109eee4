/*
 * Starts the worker as the warden does, for tests that have no warden:
 *
 *	worker_run WORKER DIRECTORY SHIM [plain]   tar on stdin, status on
 *stdout
 *	worker_run WORKER DIRECTORY FILE base      the tree becomes the file
 *
 * New user namespace (ids 0..65535), pid, mount, network, ipc and uts
 * namespaces; DIRECTORY as an idmapped mount of its own on descriptor 3, SHIM
 * on 4. `plain` hands over the bare directory instead, which the worker must
 * refuse. Exits with the worker's code, or 128 and its signal, and says on
 * stderr how much memory the worker had (peak_kib=N). Needs root.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "wire/worker.h"

enum { ID_BASE = 700000000, IDS = 65536 };

static pid_t clone_into(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, 0);
}

static void map_ids(pid_t pid)
{
	static const char *const files[] = { "uid_map", "gid_map" };
	char path[64], map[64];
	size_t i;

	snprintf(map, sizeof(map), "0 %d %d", ID_BASE, IDS);
	for (i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
		if (knob_write_at(AT_FDCWD, path, map) < 0)
			die("write %s: %s", path, strerror(errno));
	}
}

/* The directory as a detached mount, seen through the child's ids. */
static int idmapped(const char *dir, pid_t pid)
{
	char path[64];
	int tree_fd, ns_fd;
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID |
			    MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
	};

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	ns_fd = open(path, O_RDONLY | O_CLOEXEC);
	tree_fd = (int)syscall(SYS_open_tree, AT_FDCWD, dir,
			       1 /* OPEN_TREE_CLONE */ | O_CLOEXEC);
	if (ns_fd < 0 || tree_fd < 0)
		die("open %s as a mount: %s", dir, strerror(errno));
	attr.userns_fd = (unsigned)ns_fd;
	if (syscall(SYS_mount_setattr, tree_fd, "", AT_EMPTY_PATH, &attr,
		    sizeof(attr)) < 0)
		die("map the ids of %s: %s", dir, strerror(errno));
	close(ns_fd);
	return tree_fd;
}

/* Descriptors come over the socket: the mapped mount needs our namespace. */
static void child(int sock, const char *worker, bool base)
{
	char *const argv[] = { (char *)"worker",
			       (char *)(base ? "base" : "unpack"),
			       (char *)(base ? "1000000000" : NULL), NULL };
	char *const env[] = { NULL };
	int fds[FD_PASS_MAX], worker_fd;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* While we may: the tree may be where only the host's root can go. */
	worker_fd = open(worker, O_PATH | O_CLOEXEC);
	if (worker_fd >= 0)
		worker_fd = fcntl(worker_fd, F_DUPFD_CLOEXEC, 16);
	if (recv_msg_fds(sock, &byte, 1, fds) != 1 || fds[1] < 0)
		die("no descriptors from the parent");
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		die("become uid 0: %s", strerror(errno));
	/* Out of the way first: the received ones may be 3 and 4 crosswise. */
	fds[0] = fcntl(fds[0], F_DUPFD_CLOEXEC, 16);
	fds[1] = fcntl(fds[1], F_DUPFD_CLOEXEC, 16);
	if (dup2(fds[0], WORKER_ROOT_FD) < 0 ||
	    dup2(fds[1], WORKER_SHIM_FD) < 0)
		die("place descriptors: %s", strerror(errno));
	execveat(worker_fd, "", argv, env, AT_EMPTY_PATH);
	die("start %s: %s", worker, strerror(errno));
}

int main(int argc, char **argv)
{
	int socks[2], fds[2], status;
	struct rusage use;
	bool base = argc > 4 && strcmp(argv[4], "base") == 0;
	pid_t pid;

	log_init("worker_run", LOG_INFO);
	if (argc < 4)
		die("usage: worker_run WORKER DIRECTORY SHIM [plain]");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
		die("socketpair: %s", strerror(errno));
	pid = clone_into(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
			 CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
	if (pid < 0)
		die("clone: %s", strerror(errno));
	if (pid == 0)
		child(socks[1], argv[1], base);
	map_ids(pid);
	fds[0] = argc > 4 && !base
			 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC)
			 : idmapped(argv[2], pid);
	fds[1] = open(argv[3], (base ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
	if (fds[0] < 0 || fds[1] < 0)
		die("open %s, %s: %s", argv[2], argv[3], strerror(errno));
	if (send_msg_fds(socks[0], "x", 1, fds, 2) != 1)
		die("send descriptors: %s", strerror(errno));
	close(STDIN_FILENO);
	if (wait4(pid, &status, 0, &use) < 0)
		die("wait: %s", strerror(errno));
	log_info("peak_kib=%ld", use.ru_maxrss);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status)
				   : WEXITSTATUS(status);
}
