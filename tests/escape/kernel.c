/* Group D: interfaces of the kernel that a sandbox has no use for. */
#include "probe.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * Arguments are chosen so that the kernel would complain about them before it
 * asks for a capability, where it does: then only the filter says EPERM.
 */
static void d2(void)
{
	char text[64];

	REFUSED("keyctl", syscall(SYS_keyctl, 0L /* GET_KEYRING_ID */, -3L, 0L),
		EPERM);
	REFUSED("keyctl of a guessed key",
		syscall(SYS_keyctl, 6L /* DESCRIBE */, 12345L, 0L, 0L), EPERM);
	REFUSED("add_key", syscall(SYS_add_key, "user", "probe", "x", 1L, -2L),
		EPERM);
	REFUSED("request_key",
		syscall(SYS_request_key, "user", "probe", NULL, 0L), EPERM);
	wall(slurp("/proc/keys", text, sizeof(text)) <= 0,
	     "/proc/keys can be read");
}

static void d3(void)
{
	static char params[256];

	REFUSED("io_uring_setup", syscall(SYS_io_uring_setup, 4L, params),
		EPERM);
	REFUSED("io_uring_enter",
		syscall(SYS_io_uring_enter, -1L, 0L, 0L, 0L, NULL, 0L), EPERM);
	REFUSED("io_uring_register",
		syscall(SYS_io_uring_register, -1L, 0L, NULL, 0L), EPERM);
}

static void d4(void)
{
	REFUSED("userfaultfd", syscall(SYS_userfaultfd, (long)O_CLOEXEC),
		EPERM);
	REFUSED("userfaultfd of user mode",
		syscall(SYS_userfaultfd, (long)O_CLOEXEC | 1), EPERM);
	REFUSED("/dev/userfaultfd",
		open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), ENOENT);
}

static void d5(void)
{
	REFUSED("perf_event_open",
		syscall(SYS_perf_event_open, NULL, 0L, -1L, -1L, -1L), EPERM);
}

/* Debuggers work on own processes, and on nothing else. */
static void d6(void)
{
	long host_pid = param_num("hostpid", 0);
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(7);
	}
	waitpid(pid, &status, WUNTRACED);
	wall(WIFSTOPPED(status) || peer(), "an own child cannot be traced");
	ptrace(PTRACE_DETACH, pid, 0, 0);
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	if (!peer())
		REFUSED("trace of pid 1", ptrace(PTRACE_SEIZE, 1, 0, 0), EPERM);
	if (host_pid > 0)
		REFUSED("trace of a process of the host",
			ptrace(PTRACE_SEIZE, (pid_t)host_pid, 0, 0), ESRCH);
}

static void d7(void)
{
	char byte;
	struct iovec mine = { &byte, 1 }, theirs = { (void *)0x400000, 1 };
	long me = getpid();
	int pidfd = (int)syscall(SYS_pidfd_open, me, 0L);

	if (!peer()) {
		REFUSED("process_vm_readv of pid 1",
			process_vm_readv(1, &mine, 1, &theirs, 1, 0), EPERM);
		REFUSED("process_vm_writev of pid 1",
			process_vm_writev(1, &mine, 1, &theirs, 1, 0), EPERM);
	}
	/* of ourselves: only the filter is against it */
	REFUSED("process_madvise",
		syscall(SYS_process_madvise, pidfd, &mine, 1L, 99L, 0L), EPERM);
	REFUSED("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, 0L, 0L), EPERM);
	REFUSED("kcmp", syscall(SYS_kcmp, me, me, (long)KCMP_VM, 0L, 0L),
		EPERM);
	close(pidfd);
}

static void d8(void)
{
	REFUSED("init_module", syscall(SYS_init_module, NULL, 0L, ""), EPERM);
	REFUSED("finit_module", syscall(SYS_finit_module, -1L, "", 0L), EPERM);
	REFUSED("delete_module",
		syscall(SYS_delete_module, "nosuchmodule", O_NONBLOCK), EPERM);
	/* gone since 2.6, ENOSYS without a filter */
	REFUSED("create_module", syscall(SYS_create_module, "x", 0L), EPERM);
	REFUSED("bpf", syscall(SYS_bpf, 0L, NULL, 1L << 20), EPERM);
}

static void d10(void)
{
	REFUSED("kexec_load", syscall(SYS_kexec_load, 0L, 0L, NULL, ~0UL),
		EPERM);
	REFUSED("kexec_file_load",
		syscall(SYS_kexec_file_load, -1L, -1L, 0L, NULL, ~0UL), EPERM);
	REFUSED("reboot", syscall(SYS_reboot, 0L, 0L, 0L, NULL), EPERM);
	REFUSED("swapon", syscall(SYS_swapon, "/nonexistent", 0L), EPERM);
	REFUSED("swapoff", syscall(SYS_swapoff, "/nonexistent"), EPERM);
	REFUSED("acct", syscall(SYS_acct, "/nonexistent/x"), EPERM);
	REFUSED("syslog", syscall(SYS_syslog, 99L, NULL, 0L), EPERM);
	REFUSED("quotactl", syscall(SYS_quotactl, ~0UL, NULL, 0L, NULL), EPERM);
	REFUSED("quotactl_fd", syscall(SYS_quotactl_fd, -1L, ~0UL, 0L, NULL),
		EPERM);
	REFUSED("settimeofday", syscall(SYS_settimeofday, NULL, NULL), EPERM);
	REFUSED("clock_settime", syscall(SYS_clock_settime, 1L, NULL), EPERM);
	REFUSED("iopl", syscall(SYS_iopl, 3L), EPERM);
	REFUSED("ioperm", syscall(SYS_ioperm, 0x80L, 1L, 1L), EPERM);
	REFUSED("lookup_dcookie", syscall(SYS_lookup_dcookie, 0L, NULL, 0L),
		EPERM);
	REFUSED("nfsservctl", syscall(SYS_nfsservctl, 0L, NULL, NULL), EPERM);
	REFUSED("uselib", syscall(SYS_uselib, "/nonexistent"), EPERM);
	REFUSED("ustat", syscall(SYS_ustat, 0L, NULL), EPERM);
	REFUSED("sysfs", syscall(SYS_sysfs, 3L), EPERM);
	REFUSED("setdomainname", syscall(SYS_setdomainname, "x", -1L), EPERM);
	REFUSED("get_mempolicy",
		syscall(SYS_get_mempolicy, NULL, NULL, 0L, NULL, 0L), EPERM);
	REFUSED("mbind", syscall(SYS_mbind, NULL, 0L, 0L, NULL, 0L, 0L), EPERM);
	REFUSED("move_pages",
		syscall(SYS_move_pages, 0L, 0L, NULL, NULL, NULL, 0L), EPERM);
}

static void d18(void)
{
	REFUSED("fanotify_init",
		syscall(SYS_fanotify_init, 0x200L /* REPORT_FID */, 0L), EPERM);
	REFUSED("fanotify_mark",
		syscall(SYS_fanotify_mark, -1L, 0L, 0L, -1L, NULL), EPERM);
}

static void d19(void)
{
	char ldt[64];
	struct iovec v = { ldt, 1 };

	REFUSED("modify_ldt", syscall(SYS_modify_ldt, 0L, ldt, 64L), EPERM);
	REFUSED("memfd_secret", syscall(SYS_memfd_secret, 0L), EPERM, ENOSYS);
	REFUSED("vmsplice", syscall(SYS_vmsplice, -1L, &v, 1L, 0L), EPERM);
	REFUSED("remap_file_pages",
		syscall(SYS_remap_file_pages, 0L, 0L, 0L, 0L, 0L), EPERM);
	REFUSED("cachestat", syscall(451L, -1L, NULL, NULL, 0L), EPERM, ENOSYS);
	REFUSED("statmount", syscall(457L, NULL, NULL, 0L, 0L), EPERM, ENOSYS);
	REFUSED("listmount", syscall(458L, NULL, NULL, 0L, 0L), EPERM, ENOSYS);
}

/* On a terminal of our own, which would otherwise allow it. */
static void d20(void)
{
	static const struct {
		const char *name;
		unsigned long cmd;
	} cmds[] = {
		{ "TIOCSTI", TIOCSTI },
		{ "TIOCSTI with high bits", TIOCSTI | 1UL << 32 },
		{ "TIOCLINUX", TIOCLINUX },
		{ "TIOCSETD", TIOCSETD },
		{ "TIOCCONS", TIOCCONS },
	};
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int zero = 0, disc = 0, slave;
	char name[64], byte[4] = "x";

	if (master < 0 || ioctl(master, TIOCSPTLCK, &zero) ||
	    ptsname_r(master, name, sizeof(name))) {
		skip("no terminal: %s", errno_name(errno));
		return;
	}
	signal(SIGHUP, SIG_IGN); /* comes when the master is closed */
	slave = open(name, O_RDWR | O_CLOEXEC); /* our session has none yet */
	for (size_t i = 0; i < ALL(cmds); i++) {
		void *arg =
			cmds[i].cmd == TIOCSETD ? (void *)&disc : (void *)byte;

		/* TIOCCONS would take the machine's messages: not as root */
		if (cmds[i].cmd == TIOCCONS && host_root())
			continue;
		REFUSED(cmds[i].name,
			syscall(SYS_ioctl, slave, cmds[i].cmd, arg), EPERM);
	}
	close(slave);
	close(master);
}

/*
 * On a volume (`dir=PATH`) these are the kernel's own; elsewhere it says
 * ENOTTY, so that a missing filter shows everywhere. Without one nothing stays:
 * the subvolume is removed, and the flags and a flush change nothing.
 */
static void d27(void)
{
	static const struct {
		const char *name;
		unsigned long cmd;
	} cmds[] = {
		{ "SUBVOL_CREATE", BTRFS_IOC_SUBVOL_CREATE },
		{ "SUBVOL_CREATE with high bits",
		  BTRFS_IOC_SUBVOL_CREATE | 1UL << 32 },
		{ "SUBVOL_SETFLAGS", BTRFS_IOC_SUBVOL_SETFLAGS },
		{ "SYNC", BTRFS_IOC_SYNC },
		{ "a number of its type", 0xffff94ff },
	};
	const char *dir = param("dir") ? param("dir") : scratch();
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int none = -1;

	for (size_t i = 0; i < ALL(cmds); i++) {
		struct btrfs_ioctl_vol_args args = { .fd = 0 };

		if (strstr(cmds[i].name, "CREATE"))
			snprintf(args.name, sizeof(args.name), "probe-d27");
		REFUSED(cmds[i].name,
			syscall(SYS_ioctl, fd, cmds[i].cmd, &args), EPERM);
		unlinkat(fd, "probe-d27", AT_REMOVEDIR);
	}
	wall(ioctl(fd, FICLONE, none) < 0 && (errno != EPERM || peer()),
	     "FICLONE is refused: copies are not shared any more");
	close(fd);
}

static void d21(void)
{
	static const long fine[] = {
		0xffffffff, 8, 0x20000, 0x20008, 0x40000, 0
	};
	static const long bad[] = { 0x0400000, 0x0100000, 0x0200000, 0x0800000,
				    0x1000000, 0x4000000, 6,         0x440000 };

	for (size_t i = 0; i < ALL(fine); i++)
		wall(syscall(SYS_personality, fine[i]) >= 0 || peer(),
		     "personality %lx is refused", fine[i]);
	for (size_t i = 0; i < ALL(bad); i++)
		REFUSED("personality", syscall(SYS_personality, bad[i]), EPERM);
}

/*
 * A piped core_pattern runs its program at a limit of 0, not at 1. The host
 * sets such a pattern in a machine of its own, and looks that nothing ran.
 */
static void d22(void)
{
	struct rlimit zero = { 0, 0 }, now = { 0, 0 };
	int status = 0;
	pid_t pid;

	wall(getrlimit(RLIMIT_CORE, &now) == 0 && now.rlim_cur == 1 &&
		     now.rlim_max == 1,
	     "the core limit is %llu/%llu, not 1/1",
	     (unsigned long long)now.rlim_cur,
	     (unsigned long long)now.rlim_max);
	REFUSED("prlimit64", prlimit(0, RLIMIT_CORE, &zero, NULL), EPERM);
	REFUSED("setrlimit", syscall(SYS_setrlimit, (long)RLIMIT_CORE, &zero),
		EPERM);
	pid = fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	wall(WIFSIGNALED(status) && !WCOREDUMP(status), "a core was dumped");
}

/* The host looks how much the kernel log has grown. */
static void d23(void)
{
	volatile char *volatile nowhere = (volatile char *)8;
	long n = param_num("crashes", 200), i;

	for (i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			*nowhere = 0;
			_exit(0);
		}
		if (pid < 0)
			break;
		waitpid(pid, NULL, 0);
	}
	observed("%ld processes crashed", i);
}

/* ---- the filter, called for real ---- */

static const short allowed[] = {
#include "escape/allowed.inc"
};

static bool is_allowed(long nr)
{
	for (size_t i = 0; i < ALL(allowed); i++)
		if (allowed[i] == nr)
			return true;
	return false;
}

/* Calls at random must never be made by someone who could really do harm. */
static bool confined(void)
{
	if (status_num("Seccomp", 10) == 2 &&
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && !host_root() &&
	    status_num("CapEff", 16) == 0)
		return true;
	if (geteuid() == 0 && !host_root())
		skip("only as an ordinary user");
	else
		gap("not confined, so not tried: no filter, no "
		    "no_new_privs, or capabilities");
	return false;
}

static long i386_call(long nr, long arg)
{
	long ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(nr), "b"(arg), "c"(0L), "d"(0L)
			 : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

/* By the 32-bit gate: getpid there is call 20. A kernel without it: SIGSEGV. */
static void try_i386(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(i386_call(20, 0) == -ENOSYS ? 0 : 1);
	waitpid(pid, &status, 0);
	wall(WIFSIGNALED(status) || WEXITSTATUS(status) == 0,
	     "calls of the i386 ABI work");
}

static void d26(void)
{
	try_i386();
	REFUSED("getpid of x32", syscall(SYS_getpid | 0x40000000L), ENOSYS);
	if (!confined())
		return;
	for (long nr = 0; nr < 600; nr++) {
		char name[32];

		if (is_allowed(nr) || nr == SYS_sync || nr == SYS_syncfs)
			continue;
		/* uretprobe, uprobe: newer kernels ask no filter, and answer
		 * SIGILL to everyone but their own trampoline */
		if (nr == 335 || nr == 336)
			continue;
		snprintf(name, sizeof(name), "call %ld", nr);
		REFUSED(name, syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L), EPERM,
			ENOSYS);
	}
}

/* Not what would end the run itself, or wait for ever. */
static bool boring(long nr)
{
	static const short calls[] = {
		SYS_exit,
		SYS_exit_group,
		SYS_pause,
		SYS_rt_sigreturn,
		SYS_kill,
		SYS_tkill,
		SYS_tgkill,
		SYS_rt_sigsuspend,
		SYS_fork,
		SYS_vfork,
		SYS_clone,
		SYS_alarm,
		SYS_setitimer,
		SYS_pidfd_send_signal,
		SYS_rt_sigqueueinfo,
		SYS_rt_tgsigqueueinfo,
		SYS_prlimit64, /* a CPU limit for the parent would end it */
		335,
		336,
	};

	for (size_t i = 0; i < ALL(calls); i++)
		if (calls[i] == nr)
			return true;
	return false;
}

static long random_arg(void)
{
	static char page[8192];

	switch (random() % 6) {
	case 0:
		return 0;
	case 1:
		return random() % 64;
	case 2:
		return (long)(uintptr_t)(page + random() % 4096);
	case 3:
		return -(random() % 4096);
	case 4:
		return 1L << (random() % 63);
	default:
		return random() << 32 ^ random();
	}
}

/*
 * Descriptors that random calls may read, write and break. The pipe of the
 * verdict, stdout and stderr are not among them.
 */
static void own_descriptors(void)
{
	int null, pair[2];

	close_range(0, ~0U, 0);
	null = open("/dev/null", O_RDWR);
	if (null != 0 || dup(null) < 0 || pipe(pair) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		_exit(1);
}

/* Random calls; the host looks for warnings in its log, and at its canaries. */
static void d24(void)
{
	time_t end = time(NULL) + param_num("seconds", 5);
	unsigned seed = (unsigned)param_num("seed", (long)time(NULL));
	long children = 0;

	if (!confined())
		return;
	while (time(NULL) < end) {
		pid_t pid = fork();

		if (pid == 0) {
			srandom(seed);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			alarm(2);
			own_descriptors();
			for (int i = 0; i < 2000; i++) {
				long nr = random() % 600;

				if (!boring(nr))
					syscall(nr, random_arg(), random_arg(),
						random_arg(), random_arg(),
						random_arg(), random_arg());
			}
			_exit(0);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
		seed++;
		children++;
	}
	observed("%ld processes made random calls, last seed %u", children,
		 seed);
}

const struct row rows_kernel[] = {
	{ "D2", "keyrings", d2, 0, 0 },
	{ "D3", "io_uring", d3, 0, 0 },
	{ "D4", "userfaultfd", d4, 0, 0 },
	{ "D5", "perf_event_open", d5, 0, 0 },
	{ "D6", "ptrace", d6, 0, 0 },
	{ "D7", "memory and descriptors of other processes", d7, 0, 0 },
	{ "D8", "modules, bpf", d8, 0, 0 },
	{ "D10", "switches of the machine by call", d10, 0, 0 },
	{ "D18", "fanotify", d18, 0, 0 },
	{ "D19", "rare calls with a history", d19, 0, 0 },
	{ "D20", "typing into a terminal", d20, 0, 0 },
	{ "D21", "personality", d21, 0, 0 },
	{ "D22", "core dumps", d22, 0, 0 },
	{ "D23", "crashes into the kernel log", d23, 0, 60 },
	{ "D24", "random calls", d24, BY_NAME, 3600 },
	{ "D26", "every number, every ABI", d26, 0, 0 },
	{ "D27", "calls of btrfs", d27, 0, 0 },
	{ 0 },
};
