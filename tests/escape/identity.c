/* Group A: namespaces, identity, capabilities. */
#include "probe.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { SUDO_CAPS = 0xfb }; /* what uid 0 of a sandbox may have */

static const struct {
	const char *name;
	unsigned long flag;
} spaces[] = {
	{ "user", CLONE_NEWUSER },     { "mnt", CLONE_NEWNS },
	{ "net", CLONE_NEWNET },       { "pid", CLONE_NEWPID },
	{ "ipc", CLONE_NEWIPC },       { "uts", CLONE_NEWUTS },
	{ "cgroup", CLONE_NEWCGROUP }, { "time", CLONE_NEWTIME },
};

/* EPERM is the filter's answer; without it NEWUSER meets the limit: ENOSPC. */
static void a1(void)
{
	for (size_t i = 0; i < ALL(spaces); i++)
		REFUSED(spaces[i].name,
			syscall(SYS_unshare, (long)spaces[i].flag), EPERM);
}

static void a2(void)
{
	for (size_t i = 0; i < ALL(spaces) - 1; i++) { /* not time: see clone */
		long pid = syscall(SYS_clone, (long)spaces[i].flag | SIGCHLD,
				   0L, 0L, 0L, 0L);
		int err = errno;

		if (pid == 0)
			_exit(0);
		refused(spaces[i].name, pid, err, (int[]){ EPERM, 0 });
	}
}

static void a3(void)
{
	struct clone_args a = { .flags = CLONE_NEWUSER,
				.exit_signal = SIGCHLD };
	char *argv[] = { (char *)"probe", (char *)"noop", NULL };
	long pid = syscall(SYS_clone3, &a, sizeof(a));
	int err = errno, status = -1;
	pid_t spawned;

	if (pid == 0)
		_exit(0);
	refused("clone3", pid, err, (int[]){ ENOSYS, 0 });
	/* libc must do without it */
	err = posix_spawn(&spawned, probe_path(), NULL, NULL, argv, NULL);
	if (err == 0)
		waitpid(spawned, &status, 0);
	wall(status == 0 || peer(), "posix_spawn no longer works: %s",
	     errno_name(err));
}

/* The limit stands behind the filter, so it is read and not tried. */
static void a4(void)
{
	char path[64], text[32];

	for (size_t i = 0; i < ALL(spaces); i++) {
		snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces",
			 spaces[i].name);
		if (slurp(path, text, sizeof(text)) < 0)
			continue; /* the time namespace is optional */
		wall(strtol(text, NULL, 10) == 0, "%s is %s", path, text);
		REFUSED(path, open(path, O_WRONLY | O_CLOEXEC), EACCES, EROFS,
			EPERM);
	}
}

static void add_link(void)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
		struct rtattr info;
		struct rtattr kind;
		char name[8];
	} req = {
		.h = { sizeof(req), RTM_NEWLINK,
		       NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, 1,
		       0 },
		/* a kind that no kernel has: permission is asked first */
		.info = { sizeof(req.info) + sizeof(req.kind) + 8,
			  IFLA_LINKINFO },
		.kind = { sizeof(req.kind) + 8, IFLA_INFO_KIND },
		.name = "nosuch",
	};
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		char more[512];
	} answer = { 0 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0 || send(fd, &req, sizeof(req), 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), 0) < 0) {
		gap("no answer from rtnetlink: %s", errno_name(errno));
		return;
	}
	refused("add a link", answer.e.error ? -1 : 0, -answer.e.error,
		(int[]){ EPERM, 0 });
	close(fd);
}

/*
 * Namespaces that belong to the initial user namespace give no power to a
 * root inside. Who owns them can be asked: EPERM means an ancestor of ours,
 * which is as it should be.
 */
static void a6(void)
{
	static const char *const owned[] = { "mnt", "net", "pid",
					     "ipc", "uts", "cgroup" };
	char path[64], name[65] = "", map[128];
	unsigned long first, base, count;
	int fd;

	for (size_t i = 0; i < ALL(owned); i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", owned[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT && peer())
			continue;
		if (fd < 0) {
			gap("open %s: %s", path, errno_name(errno));
			continue;
		}
		wall(ioctl(fd, NS_GET_USERNS) < 0 && (errno == EPERM || peer()),
		     "the %s namespace is owned by our user namespace",
		     owned[i]);
		close(fd);
	}
	wall(slurp("/proc/self/uid_map", map, sizeof(map)) > 0 &&
		     sscanf(map, "%lu %lu %lu", &first, &base, &count) == 3 &&
		     count == 65536,
	     "no user namespace of 65536 ids: %s", map);
	add_link();
	gethostname(name, sizeof(name) - 1);
	REFUSED("sethostname", sethostname(name, strlen(name)), EPERM);
	REFUSED("sysctl of the network",
		open("/proc/sys/net/ipv4/ip_forward", O_WRONLY | O_CLOEXEC),
		EACCES, EROFS, EPERM);
}

static void a7(void)
{
	static const char *const sets[] = { "CapInh", "CapPrm", "CapEff",
					    "CapBnd", "CapAmb" };

	for (size_t i = 0; i < ALL(sets); i++) {
		long long have = status_num(sets[i], 16);
		long long may =
			geteuid() == 0 && i >= 1 && i <= 3 ? SUDO_CAPS : 0;

		if (have < 0 && peer())
			continue; /* that kernel has no such set */
		wall(have >= 0 && (have & ~may) == 0, "%s is %llx", sets[i],
		     have);
	}
}

/* File capabilities: making one, and executing one that was brought along. */
static void a8(void)
{
	/* VFS_CAP_REVISION_2, effective, CAP_SYS_ADMIN */
	static const uint32_t cap[5] = { 0x02000001, 1 << CAP_SYS_ADMIN, 0, 0,
					 0 };
	const char *file = param("capfile");
	char path[128], line[64] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/f", scratch());
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	REFUSED("set security.capability",
		fd < 0 ? -1
		       : fsetxattr(fd, "security.capability", cap, sizeof(cap),
				   0),
		EPERM);
	if (fd >= 0)
		close(fd);
	wall(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs is 0");
	if (file) {
		wall(getxattr(file, "security.capability", line, sizeof(line)) <
			     0,
		     "%s kept its capabilities", file);
	}
}

/* Starts `path whoami`; its effective user id, or -1. */
static int euid_of(const char *path)
{
	char line[64] = "";
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	pid = fork();
	if (pid == 0) {
		/* as root inside: come from another user */
		if (geteuid() == 0 && (setresgid(1000, 1000, 1000) ||
				       setresuid(1000, 1000, 1000)))
			_exit(1);
		dup2(ends[1], 1);
		execl(path, path, "whoami", (char *)NULL);
		_exit(1);
	}
	close(ends[1]);
	n = read(ends[0], line, sizeof(line) - 1);
	close(ends[0]);
	waitpid(pid, &status, 0);
	return n > 0 ? (int)strtol(line, NULL, 10) : -1;
}

/* A setuid-root copy of ourselves; root makes it, else `suid` names one. */
static const char *suid_copy(void)
{
	static char path[128];
	int in, out;
	char buf[65536];
	ssize_t n;

	if (param("suid"))
		return param("suid");
	if (geteuid() != 0)
		return NULL;
	if (chmod(scratch(), 0755))
		return NULL;
	snprintf(path, sizeof(path), "%s/suid", scratch());
	in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (in < 0 || out < 0)
		return NULL;
	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			return NULL;
	close(in);
	if (fchmod(out, 04755) || close(out))
		return NULL;
	return path;
}

/*
 * no_new_privs and nosuid each stop a setuid program, so besides the attempt
 * both are looked at. Every mount must be nosuid, not only the root.
 */
static void a9(void)
{
	const char *path = suid_copy();
	char line[1024];
	FILE *f = fopen("/proc/self/mountinfo", "re");

	if (path) {
		int euid = euid_of(path);

		if (euid == 0)
			breach("%s ran as uid 0", path);
		else
			good();
	}
	while (f && fgets(line, sizeof(line), f)) {
		char at[256], flags[256];

		if (sscanf(line, "%*s %*s %*s %*s %255s %255s", at, flags) == 2)
			wall(strstr(flags, "nosuid") != NULL,
			     "%s is mounted without nosuid", at);
	}
	if (f)
		fclose(f);
	wall(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs is 0");
}

/*
 * The host looks for the file in the sandbox's volume: it must not be able to
 * run (0700 parent, nosuid pool) for any user of the host.
 */
static void a10(void)
{
	const char *path = "/tmp/a10-suid";
	int fd;

	/* fs.protected_regular: not even root may write the user's in /tmp */
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (fd < 0 || fchmod(fd, 04755))
		skip("cannot make it: %s", errno_name(errno));
	else
		observed("left %s, mode 4755, owner %d", path, (int)geteuid());
	if (host_root())
		unlink(path);
}

/* Own ids and own pids: nobody of another sandbox can even be named. */
static void a11(void)
{
	static const char *const maps[] = { "/proc/self/uid_map",
					    "/proc/self/gid_map" };
	unsigned long first, base, count;
	long pid = param_num("hostpid", 0);
	char text[128];

	for (size_t i = 0; i < ALL(maps); i++) {
		text[0] = '\0';
		if (slurp(maps[i], text, sizeof(text)) < 0 ||
		    sscanf(text, "%lu %lu %lu", &first, &base, &count) != 3)
			base = 0;
		wall(base >= 65536, "%s: ids of the host: %s", maps[i], text);
	}
	slurp("/proc/2/comm", text, sizeof(text));
	wall(strncmp(text, "kthreadd", 8) != 0, "kernel threads are visible");
	if (pid > 0)
		REFUSED("signal to a process of the host", kill((pid_t)pid, 0),
			ESRCH);
}

/*
 * The agent is pid 1. Run this as root too: the agent's id outside of the map
 * is what keeps root away from prlimit and the scheduler calls.
 */
static void a12(void)
{
	static const char *const files[] = { "mem",  "environ", "maps",
					     "exe",  "auxv",    "fd",
					     "root", "cwd",     "ns/net" };
	char path[64], byte;
	struct iovec mine = { &byte, 1 }, theirs = { (void *)0x400000, 1 };
	struct rlimit old;
	cpu_set_t cpus;
	int nice_now;

	if (peer()) {
		skip("there is no agent");
		return;
	}
	for (size_t i = 0; i < ALL(files); i++) {
		snprintf(path, sizeof(path), "/proc/1/%s", files[i]);
		REFUSED(path, open(path, O_RDONLY | O_CLOEXEC), EACCES, EPERM);
	}
	/* not ATTACH: that would stop it if it worked */
	REFUSED("ptrace", ptrace(PTRACE_SEIZE, 1, 0, 0), EPERM);
	REFUSED("process_vm_readv",
		process_vm_readv(1, &mine, 1, &theirs, 1, 0), EPERM);
	REFUSED("prlimit", prlimit(1, RLIMIT_NOFILE, NULL, &old), EPERM);
	errno = 0;
	nice_now = getpriority(PRIO_PROCESS, 1);
	REFUSED("setpriority", setpriority(PRIO_PROCESS, 1, nice_now), EPERM,
		EACCES);
	if (sched_getaffinity(1, sizeof(cpus), &cpus) == 0)
		REFUSED("sched_setaffinity",
			sched_setaffinity(1, sizeof(cpus), &cpus), EPERM);
	REFUSED("write oom_score_adj",
		open("/proc/1/oom_score_adj", O_WRONLY | O_CLOEXEC), EACCES,
		EPERM);
}

static void a14(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct all[2] = { { ~0U, ~0U, ~0U },
						 { ~0U, ~0U, ~0U } };

	for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++)
		REFUSED("raise an ambient capability",
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0),
			EPERM);
	REFUSED("set securebits", prctl(PR_SET_SECUREBITS, 0, 0, 0, 0), EPERM);
	REFUSED("capset to everything", syscall(SYS_capset, &head, all), EPERM);
	REFUSED("drop from the bounding set",
		prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0), EPERM);
}

/* Ours stays: the kernel takes the strictest verdict of all filters. */
static void a15(void)
{
	struct sock_filter allow[] = { { BPF_RET | BPF_K, 0, 0,
					 SECCOMP_RET_ALLOW } };
	struct sock_fprog prog = { 1, allow };

	wall(status_num("Seccomp", 10) == 2, "no filter is on");
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		wall(errno == EACCES, "install: %s", errno_name(errno));
	REFUSED("unshare after an allow-all filter",
		syscall(SYS_unshare, CLONE_NEWUSER), EPERM);
	REFUSED("strict mode instead of the filter",
		syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL), EINVAL);
}

static void a16(void)
{
	wall(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs is 0");
	REFUSED("take no_new_privs back",
		prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), EINVAL);
	/* READ_IMPLIES_EXEC */
	REFUSED("personality", syscall(SYS_personality, 0x0400000L), EPERM);
}

const struct row rows_identity[] = {
	{ "A1", "unshare of every namespace", a1, 0, 0 },
	{ "A2", "clone with namespace flags", a2, 0, 0 },
	{ "A3", "clone3 with flags behind a pointer", a3, 0, 0 },
	{ "A4", "nesting of namespaces is limited to 0", a4, 0, 0 },
	{ "A6", "root inside has no power over its namespaces", a6, 0, 0 },
	{ "A7", "capabilities of this process", a7, 0, 0 },
	{ "A8", "file capabilities", a8, 0, 0 },
	{ "A9", "setuid programs", a9, 0, 0 },
	{ "A10", "a setuid file for the host to find", a10, 0, 0 },
	{ "A11", "ids and pids overlap with nobody's", a11, 0, 0 },
	{ "A12", "the agent from inside", a12, 0, 0 },
	{ "A14", "raising capabilities again", a14, 0, 0 },
	{ "A15", "loosening the filter", a15, 0, 0 },
	{ "A16", "no_new_privs, personality", a16, 0, 0 },
	{ 0 },
};
