/*
 * Group F, and E17: what a sandbox can use up besides memory, processes and
 * disk (cgroups.c). A row is a process: what it took goes with it.
 */
#include "probe.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/sched.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum {
	FILES_MOST = 65536,
	PTYS_MOST = 64,
	WATCHERS_MOST = 8192,
	TIMERS_MOST = 300000,
	ORPHANS = 300,
	SOCKETS = 100,
	OPENERS = 48,
	FILE_BYTES_LEAST = 128, /* of the kernel's memory */
};

/* ---- descriptors and terminals ---- */

static void f4(void)
{
	struct rlimit now, more;
	int n = 0, fd;

	if (getrlimit(RLIMIT_NOFILE, &now) < 0) {
		gap("getrlimit: %s", errno_name(errno));
		return;
	}
	wall(now.rlim_max <= FILES_MOST, "%llu descriptors may be open",
	     (unsigned long long)now.rlim_max);
	more = (struct rlimit){ now.rlim_max + 1, now.rlim_max + 1 };
	REFUSED("a higher limit", setrlimit(RLIMIT_NOFILE, &more), EPERM);
	now.rlim_cur = now.rlim_max;
	(void)!setrlimit(RLIMIT_NOFILE, &now);
	while (n <= FILES_MOST && (fd = dup(0)) >= 0)
		n++;
	wall(n < FILES_MOST, "%d descriptors were opened", n);
}

static void f6(void)
{
	int n = 0, fd;

	while (n <= PTYS_MOST &&
	       (fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)) >= 0)
		n++;
	wall(n > 0, "no terminal can be had: %s", errno_name(errno));
	wall(n <= PTYS_MOST, "%d terminals, and more", n);
}

/* ---- what the kernel counts by user ---- */

static void f7(void)
{
	struct rlimit r;
	int n = 0;

	while (n < WATCHERS_MOST && inotify_init1(IN_CLOEXEC) >= 0)
		n++;
	wall(n < WATCHERS_MOST, "%d watchers of files", n);
	wall(getrlimit(RLIMIT_MSGQUEUE, &r) == 0 && r.rlim_max <= 819200,
	     "message queues have no limit");
	wall(getrlimit(RLIMIT_MEMLOCK, &r) == 0 && r.rlim_max <= 8 << 20,
	     "locked memory has no limit");
	/* Timers and signals that wait, together. */
	wall(getrlimit(RLIMIT_SIGPENDING, &r) == 0 && r.rlim_max <= TIMERS_MOST,
	     "timers have no limit");
}

/* ---- the processor ---- */

static void f11(void)
{
	struct sched_param first = { .sched_priority = 1 };
	/* struct sched_attr; its header and libc's do not go together */
	struct {
		uint32_t size, sched_policy;
		uint64_t sched_flags;
		uint32_t sched_nice, sched_priority;
		uint64_t sched_runtime, sched_deadline, sched_period;
	} deadline = { .size = sizeof(deadline),
		       .sched_policy = SCHED_DEADLINE,
		       .sched_runtime = 900000000,
		       .sched_deadline = 1000000000,
		       .sched_period = 1000000000 };

	REFUSED("SCHED_FIFO", sched_setscheduler(0, SCHED_FIFO, &first), EPERM);
	REFUSED("SCHED_RR", sched_setscheduler(0, SCHED_RR, &first), EPERM);
	REFUSED("SCHED_DEADLINE", syscall(SYS_sched_setattr, 0, &deadline, 0),
		EPERM);
	REFUSED("nice -20", setpriority(PRIO_PROCESS, 0, -20), EACCES, EPERM);
	REFUSED("first on the disk",
		syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0,
			IOPRIO_PRIO_VALUE(IOPRIO_CLASS_RT, 0)),
		EPERM);
}

/* Answered by the filter, which knows no error; the kernel would. */
static void f10(void)
{
	wall(syscall(SYS_syncfs, -1) == 0, "syncfs reaches the host's disks");
}

/* ---- what the kernel counts for the whole host ---- */

/* A context goes with its process. */
static void f23(void)
{
	unsigned long context = 0;

	REFUSED("io_setup", syscall(SYS_io_setup, 1024, &context), ENOSYS);
}

/* ---- buffers of sockets ---- */

/* Bytes in the kernel's buffers of a socket: received, and not yet sent. */
static long buffered(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t n = sizeof(info);

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &n) < 0)
		return 0;
	return (long)info[SK_MEMINFO_RMEM_ALLOC] +
	       (long)info[SK_MEMINFO_WMEM_QUEUED];
}

static int bound_socket(int type, struct sockaddr_in *at)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), size = 64 << 20;
	socklen_t n = sizeof(*at);

	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	bind(fd, (struct sockaddr *)at, n);
	getsockname(fd, (struct sockaddr *)at, &n);
	return fd;
}

/* Fills a local connection without reading; returns the buffered bytes. */
static long fill_socket(int type)
{
	static char data[32 * 1024];
	struct sockaddr_in at, own;
	int to = bound_socket(type, &at), from = bound_socket(type, &own);
	int peer_fd = to, i;

	if (type == SOCK_STREAM && listen(to, 1) < 0)
		return 0;
	if (connect(from, (struct sockaddr *)&at, sizeof(at)) < 0)
		return 0;
	if (type == SOCK_STREAM)
		peer_fd = accept4(to, NULL, NULL, SOCK_CLOEXEC);
	/* A datagram that finds no room is lost in silence. */
	for (i = 0; i < 1024; i++)
		if (send(from, data, sizeof(data), MSG_DONTWAIT) < 0)
			break;
	return buffered(from) + buffered(peer_fd);
}

/* In a child: where buffers are a part of the memory, it may be killed. */
static void f24(void)
{
	long limit = param_num("mem_mb", 0) << 20, most[2] = { 0 };
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM };
	long *held = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (limit <= 0 || held == MAP_FAILED) {
		skip("needs mem_mb=LIMIT");
		return;
	}
	for (size_t i = 0; i < ALL(types); i++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (int k = 0; k < SOCKETS && *held <= limit; k++)
				*held += fill_socket(types[i]);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		most[i] = *held;
		*held = 0;
	}
	wall(most[0] <= limit, "%ld MiB in buffers of TCP, at a limit of %ld",
	     most[0] >> 20, limit >> 20);
	wall(most[1] <= limit, "%ld MiB in buffers of UDP, at a limit of %ld",
	     most[1] >> 20, limit >> 20);
}

/* ---- open files ---- */

/* As many as it can have. The first to go where they count as memory. */
static pid_t open_many(long *count)
{
	pid_t pid = fork();
	struct rlimit most;
	int fd;

	if (pid != 0)
		return pid;
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	(void)!write(fd, "1000", 4);
	if (getrlimit(RLIMIT_NOFILE, &most) == 0)
		most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		++*count;
	raise(SIGSTOP);
	_exit(0);
}

/*
 * fs.file-max is one number for the whole host. No limit counts files of a
 * sandbox but its memory, in which each has a place. Every opener counts its
 * own: the host's count has those of other tests.
 */
static void f25(void)
{
	long most = (param_num("mem_mb", 0) << 20) / FILE_BYTES_LEAST;
	long *count =
		mmap(NULL, OPENERS * sizeof(*count), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rlimit each;
	pid_t all[OPENERS];
	long held = 0;
	int status, n;

	if (most <= 0 || count == MAP_FAILED ||
	    getrlimit(RLIMIT_NOFILE, &each) < 0) {
		skip("needs mem_mb=LIMIT");
		return;
	}
	/* Enough of them to have more than fit. */
	n = (int)(most / (long)each.rlim_max) + 2;
	if (n > OPENERS)
		n = OPENERS;
	for (int i = 0; i < n; i++)
		all[i] = open_many(&count[i]);
	for (int i = 0; i < n; i++)
		if (waitpid(all[i], &status, WUNTRACED) < 0 ||
		    !WIFSTOPPED(status))
			count[i] = 0;
	for (int i = 0; i < n; i++)
		if (count[i] > 0 && waitpid(all[i], &status, WNOHANG) == 0)
			held += count[i];
	for (int i = 0; i < n; i++)
		kill(all[i], SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
	wall(held <= most, "%ld files are open, the memory is for %ld", held,
	     most);
}

/* ---- the dead ---- */

/* Zombies whose parent is the first process. */
static int forgotten(void)
{
	char path[64], text[512], *end, state;
	int pid, parent, n = 0;

	for (pid = 2; pid < 32768; pid++) {
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		if (slurp(path, text, sizeof(text)) <= 0)
			continue;
		end = strrchr(text, ')');
		if (end && sscanf(end + 1, " %c %d", &state, &parent) == 2)
			n += state == 'Z' && parent == 1;
	}
	return n;
}

static void f18(void)
{
	int i, status;

	for (i = 0; i < ORPHANS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(fork() == 0 ? 0 : 1);
		if (pid > 0)
			waitpid(pid, &status, 0);
	}
	for (i = 0; i < 50 && forgotten() > 0; i++)
		usleep(100000);
	wall(forgotten() == 0, "%d dead processes are never taken away",
	     forgotten());
}

/* ---- ways around the limit of the disk ---- */

/* How many MiB go into it. */
static long fill(int fd, long most)
{
	static char mib[1 << 20];
	long i;

	memset(mib, 0x5a, sizeof(mib));
	for (i = 0; fd >= 0 && i < most;) {
		ssize_t n = write(fd, mib, sizeof(mib));

		if (n < 0)
			break;
		i += n == sizeof(mib);
	}
	return fd < 0 ? most : i;
}

static void e17(void)
{
	long mb = param_num("disk_mb", 0), n;
	struct fsxattr x = { .fsx_projid = 4242 };
	int fd, gone;

	if (mb <= 0) {
		skip("needs disk_mb=LIMIT");
		return;
	}
	fd = open("probe-e17", O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) {
		gap("open: %s", errno_name(errno));
		return;
	}
	REFUSED("another project id", ioctl(fd, FS_IOC_FSSETXATTR, &x), EINVAL,
		ENOTTY, EOPNOTSUPP, EPERM);
	REFUSED("a reservation",
		fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)(mb + 64) << 20),
		EDQUOT, ENOSPC, EOPNOTSUPP);
	close(fd);
	unlink("probe-e17");
	fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	n = fill(fd, mb + 32);
	wall(fd < 0 || n < mb + 32, "%ld MiB in a file without a name", n);
	if (fd >= 0)
		close(fd);
	gone = open("probe-e17", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	unlink("probe-e17");
	n = fill(gone, mb + 32);
	wall(n < mb + 32, "%ld MiB in a file that was removed", n);
	close(gone);
}

/* ---- group K: who is at the other end of a socket of ours ---- */

static void k6(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX,
				 .sun_path = "\0carrel-sudo" };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;
	socklen_t n = sizeof(fd);

	if (connect(s, (struct sockaddr *)&a,
		    offsetof(struct sockaddr_un, sun_path) +
			    sizeof("carrel-sudo")) < 0) {
		skip("no sudo here");
		return;
	}
	if (getsockopt(s, SOL_SOCKET, SO_PEERPIDFD, &fd, &n) < 0) {
		good();
		close(s);
		return;
	}
	REFUSED("its descriptors", syscall(SYS_pidfd_getfd, fd, 0, 0), EPERM,
		ENOSYS);
	REFUSED("its namespaces", syscall(SYS_setns, fd, CLONE_NEWNS), EPERM);
	/* Root's would arrive, and the first process of all takes none. */
	if (geteuid() != 0)
		REFUSED("its end",
			syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0),
			EPERM);
	close(fd);
	close(s);
}

const struct row rows_limits[] = {
	{ "E17", "more disk by other ways", e17, BY_NAME, 300 },
	{ "F4", "all descriptors", f4, 0, 0 },
	{ "F6", "all terminals", f6, 0, 0 },
	{ "F7", "watchers, queues, timers", f7, 0, 0 },
	{ "F10", "disks of the host by sync", f10, 0, 0 },
	{ "F11", "before others on the processor", f11, 0, 0 },
	{ "F18", "the dead that nobody buries", f18, 0, 20 },
	{ "F23", "the host's asynchronous I/O", f23, 0, 0 },
	{ "F24", "memory in buffers of sockets", f24, BY_NAME, 60 },
	{ "F25", "all open files of the host", f25, BY_NAME, 60 },
	{ "K6", "the agent by its socket", k6, 0, 0 },
	{ 0 },
};
