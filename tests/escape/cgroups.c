/* Group C: control groups; and the limits of group F that they enforce. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Mount points of control groups, from mountinfo. */
static int views(char at[][256], int max)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[1024];
	int n = 0;

	while (f && n < max && fgets(line, sizeof(line), f))
		if (strstr(line, " - cgroup") &&
		    sscanf(line, "%*s %*s %*s %*s %255s", at[n]) == 1)
			n++;
	if (f)
		fclose(f);
	return n;
}

/*
 * release_agent is only in the root of a v1 hierarchy: who sees it, sees the
 * host's tree. What this process' groups are called tells the same.
 */
static void c1(void)
{
	char at[16][256], path[320], text[4096], *line, *rest = text;
	int n = views(at, 16);

	for (int i = 0; i < n; i++) {
		struct statvfs st;

		wall(statvfs(at[i], &st) == 0 && (st.f_flag & ST_RDONLY),
		     "%s is not read-only", at[i]);
		snprintf(path, sizeof(path), "%.250s/release_agent", at[i]);
		wall(access(path, F_OK) < 0, "%s is there", path);
		REFUSED(path, open(path, O_WRONLY | O_CLOEXEC), ENOENT, EROFS,
			EACCES);
		snprintf(path, sizeof(path), "%.250s/notify_on_release", at[i]);
		REFUSED(path, open(path, O_WRONLY | O_CLOEXEC), ENOENT, EROFS,
			EACCES);
	}
	slurp("/proc/self/cgroup", text, sizeof(text));
	while ((line = strsep(&rest, "\n")) && *line) {
		const char *group = strrchr(line, ':');

		wall(group && (strcmp(group, ":/") == 0 ||
			       strcmp(group, ":/user") == 0),
		     "group of the host: %s", line);
	}
}

static void c2(void)
{
	char at[16][256], path[320];
	int n = views(at, 16);

	if (!peer())
		good();
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%.250s/devices.allow", at[i]);
		REFUSED(path, open(path, O_WRONLY | O_CLOEXEC), ENOENT, EROFS,
			EACCES);
	}
}

static void try_all(const char *const *names, size_t n_names)
{
	char at[16][256], path[320];
	int n = views(at, 16);

	for (int i = 0; i < n; i++)
		for (size_t k = 0; k < n_names; k++) {
			snprintf(path, sizeof(path), "%.250s/%s", at[i],
				 names[k]);
			REFUSED(path, open(path, O_WRONLY | O_CLOEXEC), ENOENT,
				EROFS, EACCES, EPERM);
		}
}

/* The filter has no clone3 for anyone inside, so no CLONE_INTO_CGROUP. */
static void c3(void)
{
	static const char *const files[] = {
		"cgroup.procs",           "tasks",           "cgroup.threads",
		"cgroup.subtree_control", "../cgroup.procs", "../tasks"
	};
	struct clone_args a = { .flags = CLONE_INTO_CGROUP,
				.exit_signal = SIGCHLD };
	char at[16][256], path[320];
	int n = views(at, 16);
	long pid;
	int err;

	try_all(files, ALL(files));
	for (int i = 0; i < n; i++) {
		struct statvfs st;

		wall(statvfs(at[i], &st) == 0 && (st.f_flag & ST_RDONLY),
		     "%s is not read-only", at[i]);
		snprintf(path, sizeof(path), "%.250s/probe", at[i]);
		REFUSED("make a group", mkdirat(AT_FDCWD, path, 0755), EROFS,
			EACCES, EPERM);
		rmdir(path);
	}
	a.cgroup = (uint64_t)open(n ? at[0] : "/", O_PATH | O_CLOEXEC);
	pid = syscall(SYS_clone3, &a, sizeof(a));
	err = errno;
	if (pid == 0)
		_exit(0);
	refused("clone3 into a group", pid, err, (int[]){ ENOSYS, 0 });
}

/* A limit that can be read must be one; none may be opened for writing. */
static void c4(void)
{
	static const char *const files[] = {
		"memory.max",
		"memory.high",
		"memory.swap.max",
		"memory.limit_in_bytes",
		"memory.memsw.limit_in_bytes",
		"pids.max",
		"cpu.max",
		"cpu.weight",
		"cpu.cfs_quota_us",
		"cpu.shares",
		"cpuset.cpus",
		"io.max",
		"memory.oom_control",
		"cgroup.freeze",
		"cgroup.kill",
	};
	static const char *const limits[] = { "memory.max",
					      "memory.limit_in_bytes",
					      "pids.max" };
	char at[16][256], path[320], text[64];
	int n = views(at, 16), seen = 0;

	try_all(files, ALL(files));
	for (int i = 0; i < n; i++)
		for (size_t k = 0; k < ALL(limits); k++) {
			snprintf(path, sizeof(path), "%.250s/%s", at[i],
				 limits[k]);
			if (slurp(path, text, sizeof(text)) <= 0)
				continue;
			seen++;
			wall(strncmp(text, "max", 3) != 0 &&
				     strtoull(text, NULL, 10) < 1ULL << 50,
			     "%s is %s", path, text);
		}
	if (!peer())
		wall(seen > 0,
		     "no limit can be read: no view of the own group");
}

static void hold(void)
{
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	for (;;)
		pause();
}

/* Daemon, stopped, traced and stopped, parent in vfork, parent of a zombie. */
static void stubborn(int kind)
{
	pid_t pid;

	setsid();
	switch (kind) {
	case 1:
		raise(SIGSTOP);
		break;
	case 2:
		pid = fork();
		if (pid == 0) {
			ptrace(PTRACE_TRACEME, 0, 0, 0);
			raise(SIGSTOP);
		} else {
			waitpid(pid, NULL, WUNTRACED);
		}
		break;
	case 3:
		pid = (pid_t)syscall(SYS_clone, (long)(CLONE_VFORK | SIGCHLD),
				     0L, 0L, 0L, 0L);
		break;
	case 4:
		pid = fork();
		if (pid == 0)
			_exit(0);
		break;
	default:
		break;
	}
	hold();
}

/*
 * The host ends the sandbox and looks whether a process is left. `hold=1`
 * leaves these behind; without it the row only shows that they start.
 */
static void c5(void)
{
	enum { KINDS = 5 };
	pid_t pids[KINDS];
	int status;

	for (int i = 0; i < KINDS; i++) {
		int ends[2];
		pid_t pid;

		if (pipe2(ends, O_CLOEXEC))
			return;
		pid = fork();
		if (pid == 0) { /* twice, so that init is the parent */
			pid = fork();
			if (pid == 0)
				stubborn(i);
			if (write(ends[1], &pid, sizeof(pid)) < 0)
				_exit(1);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		if (read(ends[0], &pids[i], sizeof(pid)) != sizeof(pid))
			pids[i] = -1;
		close(ends[0]);
		close(ends[1]);
	}
	observed("%d processes that do not want to end", KINDS);
	if (param("hold"))
		return;
	usleep(50000);
	for (int i = 0; i < KINDS; i++)
		if (pids[i] > 0)
			kill(-pids[i], SIGKILL); /* each leads a session */
}

/* ---- limits ---- */

static void f1(void)
{
	long max = param_num("pids", 0), n = 0;
	pid_t *all;

	if (max <= 0 || max > 100000) {
		skip("needs pids=LIMIT");
		return;
	}
	all = calloc((size_t)max + 64, sizeof(*all));
	while (all && n < max + 32) {
		pid_t pid = fork();

		if (pid == 0) {
			pause();
			_exit(0);
		}
		if (pid < 0)
			break;
		all[n++] = pid;
	}
	wall(n < max, "%ld processes with a limit of %ld", n, max);
	while (n > 0) {
		kill(all[--n], SIGKILL);
		waitpid(all[n], NULL, 0);
	}
	free(all);
}

static void f2(void)
{
	long mb = param_num("mem_mb", 0), i;
	int status = 0;
	pid_t pid;

	if (mb <= 0) {
		skip("needs mem_mb=LIMIT");
		return;
	}
	pid = fork();
	if (pid == 0) {
		for (i = 0; i < mb + 64; i++) {
			char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			if (p == MAP_FAILED)
				_exit(1);
			memset(p, 1, 1 << 20);
		}
		_exit(0);
	}
	waitpid(pid, &status, 0);
	wall(!WIFEXITED(status) || WEXITSTATUS(status) != 0,
	     "%ld MiB used with a limit of %ld", mb + 64, mb);
}

static void f9(void)
{
	static char mib[1 << 20];
	long mb = param_num("disk_mb", 0), i;
	const char *path = "probe-fill";
	int fd;

	if (mb <= 0) {
		skip("needs disk_mb=LIMIT");
		return;
	}
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	memset(mib, 0x5a, sizeof(mib));
	/* a short write is followed by one that says why */
	for (i = 0; fd >= 0 && i < mb + 64;) {
		ssize_t n = write(fd, mib, sizeof(mib));

		if (n < 0)
			break;
		i += n == sizeof(mib);
	}
	if (fd < 0 || (i < mb + 64 && errno != EDQUOT && errno != ENOSPC))
		gap("write: %s", errno_name(errno));
	else
		wall(i < mb + 64, "%ld MiB written with a limit of %ld", i, mb);
	close(fd);
	unlink(path);
}

const struct row rows_cgroups[] = {
	{ "C1", "release_agent", c1, 0, 0 },
	{ "C2", "devices.allow", c2, 0, 0 },
	{ "C3", "leaving the own group", c3, 0, 0 },
	{ "C4", "raising the own limits", c4, 0, 0 },
	{ "C5", "surviving the end", c5, 0, 0 },
	{ "F1", "more processes than allowed", f1, BY_NAME, 60 },
	{ "F2", "more memory than allowed", f2, BY_NAME, 120 },
	{ "F9", "more disk than allowed", f9, BY_NAME, 300 },
	{ 0 },
};
