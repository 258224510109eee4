/*
 * Features of the kernel that no file tells about: tried for real, as root,
 * without leaving anything behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "cli/doctor.h"

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Both maps of the namespace: its 0 is an id that nobody has. */
static int write_maps(const char *proc)
{
	AUTO_CLOSE int fd = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = knob_write_at(fd, "uid_map", "0 1879048192 65536");
	return r < 0 ? r : knob_write_at(fd, "gid_map", "0 1879048192 65536");
}

/* A user namespace as a descriptor, or -errno. */
static int make_userns(void)
{
	char proc[32], path[48];
	int ready[2], fd, r;
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	if (pid < 0 || read(ready[0], &byte, 1) != 1) {
		close(ready[0]);
		if (pid > 0)
			reap(pid);
		return -EPERM;
	}
	close(ready[0]);
	snprintf(proc, sizeof(proc), "/proc/%d", (int)pid);
	snprintf(path, sizeof(path), "%s/ns/user", proc);
	r = write_maps(proc);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	kill(pid, SIGKILL);
	reap(pid);
	if (r < 0 && fd >= 0)
		auto_close(&fd);
	return r < 0 ? r : fd;
}

int probe_idmap(const char *dir)
{
	AUTO_CLOSE int ns_fd = make_userns();
	AUTO_CLOSE int tree_fd = -1;
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP };

	if (ns_fd < 0)
		return ns_fd;
	/* A detached copy: no mount that anyone sees is changed. */
	tree_fd = open_tree(AT_FDCWD, dir,
			    OPEN_TREE_CLONE | (unsigned)OPEN_TREE_CLOEXEC);
	if (tree_fd < 0)
		return -errno;
	a.userns_fd = (uint64_t)ns_fd;
	if (mount_setattr(tree_fd, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		return -errno;
	return 0;
}

int probe_into_cgroup(const char *cgroup_dir)
{
	AUTO_CLOSE int fd = open(cgroup_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct clone_args args = { .flags = CLONE_INTO_CGROUP,
				   .exit_signal = SIGCHLD };
	long pid;

	if (fd < 0)
		return -errno;
	args.cgroup = (uint64_t)fd;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return -errno;
	reap((pid_t)pid);
	return 0;
}

int probe_socket_lookup(void)
{
	/* `return SK_PASS`; it is attached to nothing. */
	const struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = SK_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_SK_LOOKUP };
	union bpf_attr map = { .map_type = BPF_MAP_TYPE_SOCKMAP };
	AUTO_CLOSE int code_fd = -1, map_fd = -1;

	load.expected_attach_type = BPF_SK_LOOKUP;
	load.insns = (uint64_t)(uintptr_t)code;
	load.insn_cnt = ARRAY_LEN(code);
	load.license = (uint64_t)(uintptr_t)"Apache-2.0";
	code_fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));
	if (code_fd < 0)
		return -errno;
	map.key_size = map.value_size = sizeof(uint32_t);
	map.max_entries = 1;
	map_fd = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map));
	return map_fd < 0 ? -errno : 0;
}
