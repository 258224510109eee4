/*
 * The filters against expectations that were written apart from them: every
 * number, foreign ABIs and argument vectors in a BPF interpreter, and a
 * selection by really calling, in children that have the filter on. Nothing
 * here reads a policy file; the list of allowed calls is a committed copy by
 * number. In the end every instruction of every filter must have run, and every
 * test in it gone both ways, so that a rule without a test does not stay
 * unseen.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "seccomp/seccomp.h"

enum { NR_END = 600, X32 = 0x40000000, LAST_KNOWN = 470 };
enum { HOLE_FIRST = 337, HOLE_LAST = 423 }; /* numbers that never existed */
#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS
#define E(n) (SECCOMP_RET_ERRNO | (n))
#define ALL(a) (sizeof(a) / sizeof((a)[0]))

static const struct seccomp_filter *const filters[] = {
	&filter_sandbox, &filter_agent,  &filter_child,   &filter_api,
	&filter_warden,  &filter_worker, &filter_scribe,  &filter_viewer,
	&filter_fetch,   &filter_gate,   &filter_starter, &filter_keeper,
	&filter_base,    &filter_relay,  &filter_qemu,    &filter_qemu_main,
};
/* What each instruction has done: a test, which of the two. */
enum { RAN_YES = 1, RAN_NO = 2, RAN = RAN_YES | RAN_NO };
static uint8_t ran[ALL(filters)][BPF_MAXINSNS];
static bool loaded_args; /* by the last run */

static uint32_t load(const struct seccomp_data *d, uint32_t off)
{
	uint32_t v;

	if (off % 4 || off + 4 > sizeof(*d))
		abort();
	loaded_args |= off >= offsetof(struct seccomp_data, args);
	memcpy(&v, (const char *)d + off, 4);
	return v;
}

static uint32_t run_data(const struct seccomp_filter *f,
			 const struct seccomp_data *d)
{
	uint8_t *seen = NULL;
	uint32_t a = 0;

	for (size_t i = 0; i < ALL(filters); i++)
		if (filters[i] == f)
			seen = ran[i];
	loaded_args = false;
	for (size_t pc = 0; pc < f->len; pc++) {
		const struct sock_filter *i = &f->code[pc];
		bool yes = false;

		if (BPF_CLASS(i->code) != BPF_JMP)
			seen[pc] = RAN;
		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = load(d, i->k);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			continue;
		case BPF_JMP | BPF_JA:
			seen[pc] = RAN;
			pc += i->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			yes = a == i->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			yes = a >= i->k;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			abort();
		}
		seen[pc] |= yes ? RAN_YES : RAN_NO;
		pc += yes ? i->jt : i->jf;
	}
	abort(); /* ran over the end; the kernel would refuse the program */
}

static uint32_t run(const struct seccomp_filter *f, long nr,
		    const uint64_t args[6])
{
	struct seccomp_data d = { .nr = (int)nr, .arch = AUDIT_ARCH_X86_64 };

	if (args)
		memcpy(d.args, args, sizeof(d.args));
	return run_data(f, &d);
}

/* ---- every number ---- */

static bool allowed[NR_END]; /* in a sandbox, with harmless arguments */
static int n_allowed;

static void read_list(void)
{
	static const char path[] = "tests/unit/data/sandbox-syscalls.txt";
	FILE *f = fopen(path, "re");
	char line[128];

	if (!f) {
		printf("Bail out! no %s: run from the top directory\n", path);
		exit(1);
	}
	while (fgets(line, sizeof(line), f)) {
		long nr = strtol(line, NULL, 10);

		if (nr < 0 || nr >= NR_END || allowed[nr])
			abort();
		allowed[nr] = true;
		n_allowed++;
	}
	fclose(f);
}

/* Calls of the list whose verdict depends on arguments. */
static const int with_rules[] = { 16,  41,  44,  46,  53,  54,  56, 133,
				  135, 157, 160, 202, 259, 302, 307 };
/* Known calls that are ENOSYS rather than EPERM. */
static const int nosys[] = { 205, 206, 207, 208, 209, 210, 211, 333, 435, 447,
			     449, 451, 454, 455, 456, 457, 458, 459, 460, 461,
			     463, 464, 465, 466, 467, 468, 469, 470 };

static bool among(long nr, const int *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == nr)
			return true;
	return false;
}

static uint32_t sandbox_expects(long nr)
{
	if (nr == 162 || nr == 306) /* sync, syncfs */
		return E(0);
	if (nr == 41 || nr == 53) /* family 0 */
		return E(EAFNOSUPPORT);
	if (allowed[nr])
		return ALLOW;
	if (nr > LAST_KNOWN || (nr >= HOLE_FIRST && nr <= HOLE_LAST) ||
	    among(nr, nosys, ALL(nosys)))
		return E(ENOSYS);
	return E(EPERM);
}

static void test_sandbox_numbers(void)
{
	static const uint64_t zero[6];
	int bad = 0, not_cached = 0;

	CHECK(n_allowed == 279);
	for (long nr = 0; nr < NR_END; nr++) {
		uint32_t got = run(&filter_sandbox, nr, zero);

		if (got != sandbox_expects(nr)) {
			printf("# sandbox: %ld: %08x, expected %08x\n", nr, got,
			       sandbox_expects(nr));
			bad++;
		}
		if (loaded_args != among(nr, with_rules, ALL(with_rules))) {
			printf("# sandbox: %ld looks at arguments: %d\n", nr,
			       loaded_args);
			not_cached++;
		}
	}
	CHECK(bad == 0);
	CHECK(not_cached == 0);
}

static void test_foreign(void)
{
	static const uint32_t foreign[] = { AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64,
					    0, UINT32_MAX };
	int bad = 0;

	for (size_t i = 0; i < ALL(filters); i++) {
		bool kills = filters[i] == &filter_api ||
			     filters[i] == &filter_scribe ||
			     filters[i] == &filter_worker ||
			     filters[i] == &filter_viewer ||
			     filters[i] == &filter_base ||
			     filters[i] == &filter_fetch ||
			     filters[i] == &filter_gate ||
			     filters[i] == &filter_starter ||
			     filters[i] == &filter_keeper ||
			     filters[i] == &filter_relay ||
			     filters[i] == &filter_qemu ||
			     filters[i] == &filter_qemu_main;
		uint32_t want = kills ? KILL : E(ENOSYS);

		for (int nr = 0; nr < NR_END; nr++) {
			for (size_t k = 0; k < ALL(foreign); k++) {
				struct seccomp_data d = {
					nr, foreign[k], 0, { 0 }
				};

				bad += run_data(filters[i], &d) != want;
			}
			bad += run(filters[i], nr | X32, NULL) != want;
		}
		bad += run(filters[i], -1, NULL) != want;
		bad += run(filters[i], 0x7fffffff, NULL) != want;
		bad += run(filters[i], INT32_MIN, NULL) != want;
	}
	CHECK(bad == 0);
}

/* ---- arguments ---- */

#define HI 0xdeadbeef00000000ULL /* an int argument's upper half is ignored */

static const struct vector {
	int nr;
	uint64_t a[6];
	uint32_t want;
} sandbox_vectors[] = {
	/* clone: threads, fork, each namespace flag */
	{ 56, { 0x3d0f00 }, ALLOW },
	{ 56, { SIGCHLD }, ALLOW },
	{ 56, { CLONE_NEWNS }, E(EPERM) },
	{ 56, { CLONE_NEWCGROUP }, E(EPERM) },
	{ 56, { CLONE_NEWUTS | SIGCHLD }, E(EPERM) },
	{ 56, { CLONE_NEWIPC }, E(EPERM) },
	{ 56, { CLONE_NEWUSER | SIGCHLD }, E(EPERM) },
	{ 56, { CLONE_NEWUSER | HI }, E(EPERM) },
	{ 56, { CLONE_NEWPID }, E(EPERM) },
	{ 56, { CLONE_NEWNET }, E(EPERM) },
	/* socket */
	{ 41, { AF_UNIX, SOCK_STREAM, 0 }, ALLOW },
	{ 41, { AF_UNIX | HI, SOCK_STREAM, 0 }, ALLOW },
	{ 41, { AF_INET, SOCK_STREAM, 0 }, ALLOW },
	{ 41, { AF_INET, SOCK_STREAM, 6 }, ALLOW },
	{ 41, { AF_INET6, SOCK_DGRAM, 17 }, ALLOW },
	{ 41, { AF_INET6, SOCK_RAW, 58 }, E(EPROTONOSUPPORT) },
	{ 41, { AF_INET, SOCK_DGRAM, 1 }, E(EPROTONOSUPPORT) },
	{ 41, { AF_INET, SOCK_STREAM, 132 }, E(EPROTONOSUPPORT) },
	{ 41, { AF_INET, SOCK_STREAM, 262 }, E(EPROTONOSUPPORT) },
	{ 41, { AF_INET, SOCK_STREAM, 256 }, E(EPROTONOSUPPORT) },
	{ 41, { AF_INET, SOCK_RAW, 255 | HI }, E(EPROTONOSUPPORT) },
	{ 41, { AF_NETLINK, SOCK_RAW, 0 }, ALLOW },
	{ 41, { AF_NETLINK, SOCK_RAW, 6 }, E(EPROTONOSUPPORT) },
	{ 41, { AF_NETLINK, SOCK_RAW, 12 }, E(EPROTONOSUPPORT) },
	{ 41, { AF_NETLINK, SOCK_RAW, 16 }, E(EPROTONOSUPPORT) },
	{ 41, { 38, SOCK_SEQPACKET, 0 }, E(EAFNOSUPPORT) },
	{ 41, { 38 | HI, SOCK_SEQPACKET, 0 }, E(EAFNOSUPPORT) },
	{ 41, { 33, SOCK_DGRAM, 2 }, E(EAFNOSUPPORT) },
	{ 41, { 40, SOCK_STREAM, 0 }, E(EAFNOSUPPORT) },
	{ 41, { 17, SOCK_RAW, 0 }, E(EAFNOSUPPORT) },
	{ 41, { 15, SOCK_RAW, 2 }, E(EAFNOSUPPORT) },
	{ 41, { 44, SOCK_RAW, 0 }, E(EAFNOSUPPORT) },
	{ 53, { AF_UNIX, SOCK_STREAM }, ALLOW },
	{ 53, { AF_INET, SOCK_STREAM }, E(EAFNOSUPPORT) },
	{ 53, { 30, SOCK_STREAM }, E(EAFNOSUPPORT) },
	/* setsockopt: TCP_ULP, BPF, UDP_ENCAP, xfrm */
	{ 54, { 3, 6, 31 }, E(EPERM) },
	{ 54, { 3, 6 | HI, 31 | HI }, E(EPERM) },
	{ 54, { 3, 6, 1 }, ALLOW },
	{ 54, { 3, 1, 26 }, E(EPERM) },
	{ 54, { 3, 1, 50 }, E(EPERM) },
	{ 54, { 3, 1, 51 }, E(EPERM) },
	{ 54, { 3, 1, 52 }, E(EPERM) },
	{ 54, { 3, 1, 2 }, ALLOW },
	{ 54, { 3, 17, 100 }, E(EPERM) },
	{ 54, { 3, 17, 103 }, ALLOW },
	{ 54, { 3, 0, 16 }, E(EPERM) },
	{ 54, { 3, 0, 17 }, E(EPERM) },
	{ 54, { 3, 0, 1 }, ALLOW },
	{ 54, { 3, 41, 34 }, E(EPERM) },
	{ 54, { 3, 41, 35 }, E(EPERM) },
	{ 54, { 3, 41, 26 }, ALLOW },
	/* futex */
	{ 202, { 0, FUTEX_WAIT }, ALLOW },
	{ 202, { 0, FUTEX_WAIT | 0x180 }, ALLOW },
	{ 202, { 0, FUTEX_LOCK_PI | 0x80 }, ALLOW },
	{ 202, { 0, FUTEX_WAIT_REQUEUE_PI }, E(ENOSYS) },
	{ 202, { 0, FUTEX_CMP_REQUEUE_PI }, E(ENOSYS) },
	{ 202, { 0, FUTEX_CMP_REQUEUE_PI | 0x180 | HI }, E(ENOSYS) },
	/* ioctl */
	{ 16, { 0, TCGETS }, ALLOW },
	{ 16, { 0, TIOCSTI }, E(EPERM) },
	{ 16, { 0, TIOCSTI | HI }, E(EPERM) },
	{ 16, { 0, TIOCLINUX }, E(EPERM) },
	{ 16, { 0, TIOCSETD }, E(EPERM) },
	{ 16, { 0, TIOCCONS }, E(EPERM) },
	{ 16, { 0, 0x401c5820 }, E(EPERM) },
	{ 16, { 0, 0x40806685 }, E(EPERM) },
	{ 16, { 0, 0x800c6613 }, E(EPERM) },
	{ 16, { 0, BTRFS_IOC_SUBVOL_CREATE }, E(EPERM) },
	{ 16, { 0, BTRFS_IOC_SUBVOL_SETFLAGS | HI }, E(EPERM) },
	{ 16, { 0, BTRFS_IOC_SYNC }, E(EPERM) },
	{ 16, { 0, 0xffff94ff }, E(EPERM) },
	{ 16, { 0, FICLONE }, ALLOW },
	{ 16, { 0, FICLONERANGE }, ALLOW },
	{ 16, { 0, FIDEDUPERANGE | HI }, ALLOW },
	{ 16, { 0, 0x9394 }, ALLOW },
	/* urgent data */
	{ 44, { 3, 0, 1, MSG_OOB }, E(EOPNOTSUPP) },
	{ 44, { 3, 0, 1, MSG_OOB | MSG_NOSIGNAL | HI }, E(EOPNOTSUPP) },
	{ 44, { 3, 0, 1, MSG_NOSIGNAL | MSG_DONTWAIT }, ALLOW },
	{ 46, { 3, 0, MSG_OOB }, E(EOPNOTSUPP) },
	{ 46, { 3, 0, MSG_NOSIGNAL }, ALLOW },
	{ 307, { 3, 0, 1, MSG_OOB }, E(EOPNOTSUPP) },
	{ 307, { 3, 0, 1, MSG_NOSIGNAL }, ALLOW },
	/* personality */
	{ 135, { 0 }, ALLOW },
	{ 135, { 8 }, ALLOW },
	{ 135, { 0x20000 }, ALLOW },
	{ 135, { 0x20008 }, ALLOW },
	{ 135, { 0x40000 }, ALLOW },
	{ 135, { 0xffffffff }, ALLOW },
	{ 135, { 0x0400000 }, E(EPERM) }, /* READ_IMPLIES_EXEC */
	{ 135, { 0x0100000 }, E(EPERM) }, /* MMAP_PAGE_ZERO */
	{ 135, { 0x0440000 }, E(EPERM) },
	/* the core limit */
	{ 160, { RLIMIT_CORE, 0x1000 }, E(EPERM) },
	{ 160, { RLIMIT_CORE | HI, 0x100000000 }, E(EPERM) },
	{ 160, { RLIMIT_CORE, 0 }, ALLOW }, /* EFAULT */
	{ 160, { RLIMIT_NOFILE, 0x1000 }, ALLOW },
	{ 302, { 0, RLIMIT_CORE, 0x1000 }, E(EPERM) },
	{ 302, { 0, RLIMIT_CORE, 0x7f0000000000 }, E(EPERM) },
	{ 302, { 0, RLIMIT_CORE, 0, 0x1000 }, ALLOW },
	{ 302, { 0, RLIMIT_NOFILE, 0x1000 }, ALLOW },
	/* prctl, mknod */
	{ 157, { PR_SET_MM }, E(EPERM) },
	{ 157, { PR_SET_MM | HI }, E(EPERM) },
	{ 157, { PR_SET_NO_NEW_PRIVS }, ALLOW },
	{ 133, { 0, S_IFIFO | 0600 }, ALLOW },
	{ 133, { 0, S_IFREG | 0600 }, ALLOW },
	{ 133, { 0, S_IFSOCK | 0600 }, ALLOW },
	{ 133, { 0, 0600 }, ALLOW },
	{ 133, { 0, S_IFCHR | 0600 }, E(EPERM) },
	{ 133, { 0, S_IFBLK | 0600 }, E(EPERM) },
	{ 259, { 0, 0, S_IFIFO }, ALLOW },
	{ 259, { 0, 0, S_IFREG }, ALLOW },
	{ 259, { 0, 0, S_IFSOCK }, ALLOW },
	{ 259, { 0, 0, S_IFCHR }, E(EPERM) },
	{ 259, { 0, 0, S_IFBLK | HI }, E(EPERM) },
};

static const struct vector api_vectors[] = {
	{ 41, { AF_UNIX }, ALLOW },
	{ 41, { AF_INET }, E(EAFNOSUPPORT) },
	{ 41, { AF_NETLINK }, E(EAFNOSUPPORT) },
	{ 53, { AF_UNIX }, ALLOW }, /* requests of our own */
	{ 53, { AF_INET }, E(EAFNOSUPPORT) },
	{ 49, { 0 }, KILL }, /* bind, listen */
	{ 50, { 0 }, KILL },
	{ 9, { 0, 4096, 3 }, ALLOW },
	{ 9, { 0, 4096, 5 }, KILL },
	{ 10, { 0, 4096, 1 }, ALLOW },
	{ 10, { 0, 4096, 7 }, KILL },
#ifndef SANITIZED
	{ 16, { 0, TCGETS }, ALLOW },
	{ 16, { 0, TIOCGWINSZ }, ALLOW },
	{ 16, { 0, TIOCSTI }, E(EPERM) },
	{ 302, { 0, RLIMIT_NOFILE, 0 }, ALLOW },
	{ 302, { 0, RLIMIT_NOFILE, 1 }, E(EPERM) },
	{ 302, { 0, RLIMIT_NOFILE, 0x100000000 }, E(EPERM) },
	{ 157, { PR_SET_DUMPABLE }, E(EPERM) },
#endif
};

static const struct vector worker_vectors[] = {
	{ 259, { 0, 0, S_IFIFO | 0600 }, ALLOW },
	{ 259, { 0, 0, S_IFCHR | 0600 }, E(EPERM) },
	{ 259, { 0, 0, S_IFREG | 0600 }, E(EPERM) },
	{ 9, { 0, 4096, 3 }, ALLOW },
	{ 9, { 0, 4096, 4 }, KILL },
	{ 10, { 0, 4096, 3 }, ALLOW },
	{ 10, { 0, 4096, 5 }, KILL },
#ifndef SANITIZED
	{ 16, { 0, TCGETS }, ALLOW },
	{ 16, { 0, TIOCGWINSZ }, ALLOW },
	{ 16, { 0, 0x40049409 }, ALLOW }, /* FICLONE */
	{ 16, { 0, 0xc020660b }, ALLOW }, /* FS_IOC_FIEMAP */
	{ 16, { 0, TIOCSTI }, E(EPERM) },
	{ 302, { 0, RLIMIT_NOFILE, 0 }, ALLOW },
	{ 302, { 0, RLIMIT_NOFILE, 1 }, E(EPERM) },
	{ 302, { 0, RLIMIT_NOFILE, 0x100000000 }, E(EPERM) },
#endif
};

/* It has nothing to create, change or remove. */
static const int never_in_viewer[] = {
	SYS_socket,    SYS_connect,   SYS_mknodat,   SYS_mkdirat,  SYS_unlinkat,
	SYS_renameat2, SYS_linkat,    SYS_symlinkat, SYS_fchown,   SYS_fchmod,
	SYS_utimensat, SYS_fsetxattr, SYS_ftruncate, SYS_pwrite64, SYS_execve,
};

static const struct vector viewer_vectors[] = {
	{ 9, { 0, 4096, 3 }, ALLOW },        { 9, { 0, 4096, 4 }, KILL },
	{ 10, { 0, 4096, 3 }, ALLOW },       { 10, { 0, 4096, 5 }, KILL },
#ifndef SANITIZED
	{ 16, { 0, TCGETS }, ALLOW },        { 16, { 0, TIOCGWINSZ }, ALLOW },
	{ 16, { 0, 0xc020660b }, ALLOW },    { 16, { 0, TIOCSTI }, E(EPERM) },
	{ 16, { 0, 0x40049409 }, E(EPERM) }, /* FICLONE */
#endif
};

/* One that looks, and writes to the one file that it has. */
static const int never_in_base[] = {
	SYS_socket,    SYS_connect,   SYS_mknodat,   SYS_mkdirat, SYS_unlinkat,
	SYS_renameat2, SYS_linkat,    SYS_symlinkat, SYS_fchown,  SYS_fchmod,
	SYS_utimensat, SYS_fsetxattr, SYS_execve,
};

static const struct vector base_vectors[] = {
	{ 9, { 0, 4096, 4 }, KILL },
	{ 10, { 0, 4096, 5 }, KILL },
	{ 18, { 0 }, ALLOW }, /* pwrite64 */
	{ 16, { 0, TCGETS }, ALLOW },
	{ 16, { 0, TIOCGWINSZ }, ALLOW },
	{ 16, { 0, 0xc020660b }, ALLOW }, /* FS_IOC_FIEMAP */
	{ 16, { 0, TIOCSTI }, E(EPERM) },
	{ 16, { 0, 0x4020940d }, ALLOW }, /* FICLONERANGE */
};

static const struct vector fetch_vectors[] = {
	{ 41, { AF_INET }, ALLOW },
	{ 41, { AF_INET6 }, ALLOW },
	{ 41, { AF_UNIX }, E(EAFNOSUPPORT) },
	{ 41, { AF_NETLINK }, E(EAFNOSUPPORT) },
	{ 53, { AF_UNIX }, ALLOW },
	{ 53, { AF_INET }, E(EAFNOSUPPORT) },
	{ 290, { 0 }, ALLOW }, /* eventfd2: libcurl 8.9 */
	{ 49, { 0 }, E(EACCES) },
	{ 9, { 0, 4096, 3 }, ALLOW },
	{ 9, { 0, 4096, 4 }, KILL },
	{ 10, { 0, 4096, 5 }, KILL },
#ifndef SANITIZED
	{ 16, { 0, FIONBIO }, ALLOW },
	{ 16, { 0, TIOCGWINSZ }, ALLOW },
	{ 16, { 0, FIONREAD }, ALLOW },
	{ 16, { 0, TCGETS }, ALLOW },
	{ 16, { 0, TIOCSTI }, E(EPERM) },
	{ 302, { 0, RLIMIT_NOFILE, 1 }, E(EPERM) },
#endif
};

/* What a door of the gate may do, and the starter around it. */
static const struct vector relay_vectors[] = {
	{ 41, { AF_INET, SOCK_STREAM | SOCK_CLOEXEC }, ALLOW },
	{ 41, { AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK }, ALLOW },
	{ 41, { AF_INET, SOCK_RAW }, E(EAFNOSUPPORT) },
	{ 41, { AF_UNIX, SOCK_STREAM }, E(EAFNOSUPPORT) },
	{ 41, { AF_NETLINK, SOCK_RAW }, E(EAFNOSUPPORT) },
	{ 9, { 0, 4096, 3 }, ALLOW },
	{ 9, { 0, 4096, 4 }, KILL },
	{ 10, { 0, 4096, 1 }, ALLOW },
	{ 10, { 0, 4096, 5 }, KILL },
};

/* QEMU: files for reading, threads, its own signals, KVM. */
static const struct vector qemu_vectors[] = {
	{ 72, { 0, F_DUPFD }, ALLOW }, /* fcntl */
	{ 72, { 0, F_DUPFD_CLOEXEC }, ALLOW },
	{ 72, { 0, F_GETFD }, ALLOW },
	{ 72, { 0, F_SETFD }, ALLOW },
	{ 72, { 0, F_GETFL }, ALLOW },
	{ 72, { 0, F_SETFL }, ALLOW },
	{ 72, { 0, F_SETLK }, E(EPERM) },
	{ 72, { 0, F_OFD_SETLK }, E(EPERM) },
	{ 72, { 0, F_SETOWN }, E(EPERM) },
	{ 72, { 0, F_SETLEASE }, E(EPERM) },
	{ 72, { 0, F_ADD_SEALS }, E(EPERM) },
	{ 257, { 0, 0, O_RDONLY | O_CLOEXEC }, ALLOW },
	{ 257, { 0, 0, O_RDWR }, ALLOW },
	{ 257, { 0, 0, O_WRONLY }, E(EACCES) },
	{ 257, { 0, 0, O_RDWR | O_CREAT }, E(EACCES) },
	{ 257, { 0, 0, O_RDWR | O_TRUNC }, E(EACCES) },
	{ 257, { 0, 0, O_RDWR | O_TMPFILE }, E(EACCES) },
	{ 56, { 0x3d0f00 }, ALLOW }, /* clone: a thread of glibc */
	{ 56, { SIGCHLD }, E(EPERM) },
	{ 56, { 0x3d0f00 | CLONE_NEWUSER }, E(EPERM) },
	{ 56, { 0x3d0f00 & ~CLONE_THREAD }, E(EPERM) },
	{ 234, { 1, 2, SIGUSR1 }, ALLOW }, /* tgkill */
	{ 234, { 2, 2, SIGUSR1 }, E(EPERM) },
	{ 16, { 0, 0xae80 }, ALLOW },        /* KVM_RUN */
	{ 16, { 0, 0xc018aa3f }, ALLOW },    /* UFFDIO_API */
	{ 16, { 0, 0xc020aa00 }, E(EPERM) }, /* UFFDIO_REGISTER */
	{ 323, { 0x80801 }, ALLOW },         /* userfaultfd */
	{ 323, { 0x80800 }, KILL },
	{ 16, { 0, TCGETS }, ALLOW },
	{ 16, { 0, TCSETS }, ALLOW },
	{ 16, { 0, TIOCSTI }, E(EPERM) },
	{ 41, { AF_UNIX, SOCK_STREAM }, KILL },
	{ 425, { 0 }, E(ENOSYS) }, /* io_uring_setup */
	{ 435, { 0 }, E(ENOSYS) }, /* clone3 */
	{ 157, { PR_SET_NO_NEW_PRIVS, 1 }, ALLOW },
	{ 157, { PR_SET_NAME }, ALLOW },
	{ 157, { PR_SET_TIMERSLACK }, ALLOW },
	{ 157, { PR_MCE_KILL }, ALLOW },
	{ 157, { PR_SET_DUMPABLE, 1 }, E(EPERM) },
};

static const struct vector qemu_main_vectors[] = {
	{ 16, { 0, 0xc018aa3f }, E(EPERM) }, /* UFFDIO_API */
	{ 16, { 0, TCGETS }, ALLOW },
	{ 292, { 0, 9 }, E(EPERM) }, /* dup3 */
	{ 257, { 0 }, ALLOW },
};

static const struct vector gate_vectors[] = {
	{ 41, { AF_INET, SOCK_STREAM | SOCK_CLOEXEC }, ALLOW },
	{ 41, { AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK }, ALLOW },
	{ 41, { AF_INET, SOCK_RAW }, E(EAFNOSUPPORT) },
	{ 41, { AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC }, ALLOW },
	{ 41, { AF_UNIX, SOCK_STREAM }, E(EAFNOSUPPORT) },
	{ 41, { AF_UNIX, SOCK_DGRAM }, E(EAFNOSUPPORT) },
	{ 41, { AF_NETLINK, SOCK_RAW }, E(EAFNOSUPPORT) },
	{ 9, { 0, 4096, 3 }, ALLOW },
	{ 9, { 0, 4096, 4 }, KILL },
	{ 10, { 0, 4096, 3 }, ALLOW },
	{ 10, { 0, 4096, 5 }, KILL },
#ifndef SANITIZED
	{ 16, { 0, TCGETS }, ALLOW },
	{ 16, { 0, FIONBIO }, ALLOW },
	{ 16, { 0, TIOCGWINSZ }, ALLOW },
	{ 16, { 0, FIONREAD }, ALLOW },
	{ 16, { 0, TIOCSTI }, E(EPERM) },
	{ 257, { 0 }, E(EACCES) }, /* openat */
	{ 302, { 0, RLIMIT_NOFILE, 0 }, ALLOW },
	{ 302, { 0, RLIMIT_NOFILE, 1 }, E(EPERM) },
	{ 302, { 0, RLIMIT_NOFILE, 0x100000000 }, E(EPERM) },
#endif
};

static const struct vector starter_vectors[] = {
#ifndef SANITIZED
	{ 56, { 0x1200011 }, ALLOW },
	{ 56, { SIGCHLD }, KILL },
	{ 56, { 0x1200011 | CLONE_NEWUSER }, KILL },
	{ 56, { 0x3d0f00 }, KILL },
#endif
	{ 61, { 0 }, ALLOW },
	{ 317, { 0 }, ALLOW },
	{ 59, { 0 }, KILL },
};

static const struct vector keeper_vectors[] = {
	{ 41, { AF_UNIX }, KILL },
	{ 41, { AF_INET }, KILL },
	{ 42, { 0 }, KILL },
	{ 53, { AF_UNIX }, ALLOW },
	{ 53, { AF_INET }, E(EAFNOSUPPORT) },
	{ 9, { 0, 4096, 3 }, ALLOW },
	{ 9, { 0, 4096, 4 }, KILL },
	{ 10, { 0, 4096, 3 }, ALLOW },
	{ 10, { 0, 4096, 5 }, KILL },
#ifndef SANITIZED
	{ 16, { 0, TCGETS }, ALLOW },
	{ 16, { 0, TIOCGWINSZ }, ALLOW },
	{ 16, { 0, TIOCSTI }, E(EPERM) },
	{ 302, { 0, RLIMIT_NOFILE, 0 }, ALLOW },
	{ 302, { 0, RLIMIT_NOFILE, 1 }, E(EPERM) },
	{ 302, { 0, RLIMIT_NOFILE, 0x100000000 }, E(EPERM) },
#endif
};

static const struct vector scribe_vectors[] = {
	{ 9, { 0, 4096, 3 }, ALLOW },     { 9, { 0, 4096, 4 }, KILL },
	{ 10, { 0, 4096, 3 }, ALLOW },    { 10, { 0, 4096, 5 }, KILL },
#ifndef SANITIZED
	{ 16, { 0, TCGETS }, ALLOW },     { 16, { 0, TIOCGWINSZ }, ALLOW },
	{ 16, { 0, TIOCSTI }, E(EPERM) },
#endif
};

static const struct vector warden_vectors[] = {
	{ 250, { 1 }, ALLOW },
	{ 250, { 0 }, E(EPERM) },
	{ 250, { 11 }, E(EPERM) },
	{ 165, { 0 }, ALLOW },
	{ 435, { 0 }, ALLOW },
	{ 308, { 0 }, ALLOW },
	{ 59, { 0 }, ALLOW },
	{ 471, { 0 }, ALLOW },
	{ 321, { 0 }, ALLOW },
	{ 321, { 2 }, ALLOW },
	{ 321, { 5 }, ALLOW },
	{ 321, { 28 }, ALLOW },
	{ 321, { 1 }, E(EPERM) },
	{ 321, { 6 }, E(EPERM) },
	{ 321, { 13 }, E(EPERM) },
	{ 321, { 30 }, E(EPERM) },
	/* userfaultfd */
	{ 323, { 0x80801 }, ALLOW },
	{ 323, { 0x80800 }, E(EPERM) },
	{ 323, { 0 }, E(EPERM) },
	{ 323, { 1 }, E(EPERM) },
	{ 323, { 1ULL << 32 | 0x80801 }, ALLOW }, /* an int for the kernel */
};

static void test_vectors(const struct seccomp_filter *f, const struct vector *v,
			 size_t n)
{
	int bad = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t got = run(f, v[i].nr, v[i].a);

		if (got == v[i].want)
			continue;
		printf("# %s: call %d, vector %zu: %08x, expected %08x\n",
		       f->name, v[i].nr, i, got, v[i].want);
		bad++;
	}
	CHECK(bad == 0);
}

/* ---- our own roles ---- */

/* What no role but the agent may do: kill, or for the warden EPERM. */
static const int never_in_roles[] = {
	SYS_execve,         SYS_execveat,
	SYS_fork,           SYS_vfork,
	SYS_clone3,         SYS_mount,
	SYS_umount2,        SYS_unshare,
	SYS_setns,          SYS_setuid,
	SYS_chroot,         SYS_bpf,
	SYS_keyctl,         SYS_capset,
	SYS_seccomp,        SYS_shmget,
	SYS_setpgid,        SYS_setresuid,
	SYS_kexec_load,     SYS_process_vm_writev,
	SYS_io_uring_setup,
#ifndef SANITIZED
	SYS_clone,          SYS_ptrace,
	SYS_kill,
#endif
};
static const int never_in_warden[] = {
	SYS_kexec_load,
	SYS_kexec_file_load,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_perf_event_open,
	SYS_iopl,
	SYS_ioperm,
	SYS_userfaultfd,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_acct,
	SYS_open_by_handle_at,
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_add_key,
	SYS_request_key,
	SYS_process_madvise,
	SYS_kcmp,
};
static const int never_in_agent[] = {
	SYS_mount,
	SYS_umount2,
	SYS_unshare,
	SYS_setns,
	SYS_bpf,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_pivot_root,
	SYS_chroot,
	SYS_io_uring_setup,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_fsopen,
	SYS_move_mount,
	SYS_open_tree,
	SYS_mount_setattr,
	SYS_pidfd_getfd,
	SYS_open_by_handle_at,
	SYS_kexec_load,
	SYS_init_module,
	SYS_reboot,
	SYS_swapon,
	SYS_sethostname,
	SYS_fanotify_init,
};
static const int never_in_qemu[] = {
	SYS_socket,
	SYS_connect,
	SYS_bind,
	SYS_fork,
	SYS_execveat,
	SYS_kill,
	SYS_ptrace,
	SYS_process_vm_writev,
	SYS_mount,
	SYS_unshare,
	SYS_setns,
	SYS_chroot,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_keyctl,
	SYS_setuid,
	SYS_pidfd_getfd,
	SYS_open_by_handle_at,
};
static const int always_in_agent[] = {
	SYS_clone3,   SYS_capset,
	SYS_prctl,    SYS_setgroups,
	SYS_seccomp,  SYS_close_range,
	SYS_execveat, SYS_accept4,
	SYS_setsid,   SYS_sched_setaffinity,
	SYS_setfsuid, SYS_prlimit64,
};

static int count_not(const struct seccomp_filter *f, const int *list, size_t n,
		     uint32_t want)
{
	int bad = 0;

	for (size_t i = 0; i < n; i++) {
		if (run(f, list[i], NULL) == want)
			continue;
		printf("# %s: call %d is %08x\n", f->name, list[i],
		       run(f, list[i], NULL));
		bad++;
	}
	return bad;
}

static void test_roles(void)
{
	int unlisted = 0;

	CHECK(count_not(&filter_api, never_in_roles, ALL(never_in_roles),
			KILL) == 0);
	CHECK(count_not(&filter_worker, never_in_roles, ALL(never_in_roles),
			KILL) == 0);
	CHECK(count_not(&filter_fetch, never_in_roles, ALL(never_in_roles),
			KILL) == 0);
	CHECK(run(&filter_fetch, SYS_listen, NULL) == KILL);
	CHECK(run(&filter_fetch, SYS_accept4, NULL) == KILL);
	CHECK(run(&filter_fetch, SYS_unlinkat, NULL) == KILL);
	CHECK(count_not(&filter_scribe, never_in_roles, ALL(never_in_roles),
			KILL) == 0);
	CHECK(count_not(&filter_viewer, never_in_roles, ALL(never_in_roles),
			KILL) == 0);
	CHECK(count_not(&filter_viewer, never_in_viewer, ALL(never_in_viewer),
			KILL) == 0);
	CHECK(count_not(&filter_base, never_in_roles, ALL(never_in_roles),
			KILL) == 0);
	CHECK(count_not(&filter_base, never_in_base, ALL(never_in_base),
			KILL) == 0);
	CHECK(count_not(&filter_gate, never_in_roles, ALL(never_in_roles),
			KILL) == 0);
	CHECK(count_not(&filter_keeper, never_in_roles, ALL(never_in_roles),
			KILL) == 0);
	CHECK(count_not(&filter_relay, never_in_roles, ALL(never_in_roles),
			KILL) == 0);
	CHECK(count_not(&filter_qemu, never_in_qemu, ALL(never_in_qemu),
			KILL) == 0);
	CHECK(run(&filter_qemu_main, SYS_execve, NULL) == KILL);
	CHECK(run(&filter_qemu_main, SYS_userfaultfd, NULL) == KILL);
	CHECK(run(&filter_relay, SYS_bind, NULL) == KILL);
	CHECK(run(&filter_relay, SYS_listen, NULL) == KILL);
	CHECK(run(&filter_relay, SYS_openat, NULL) == KILL);
	CHECK(run(&filter_gate, SYS_listen, NULL) == KILL);
	CHECK(run(&filter_gate, SYS_unlinkat, NULL) == KILL);
	CHECK(run(&filter_keeper, SYS_bind, NULL) == KILL);
	CHECK(run(&filter_keeper, SYS_chmod, NULL) == KILL);
	CHECK(run(&filter_scribe, SYS_socket, NULL) == KILL);
	CHECK(run(&filter_scribe, SYS_connect, NULL) == KILL);
	CHECK(run(&filter_scribe, SYS_chmod, NULL) == KILL);
	CHECK(run(&filter_worker, SYS_socket, NULL) == KILL);
	CHECK(run(&filter_worker, SYS_connect, NULL) == KILL);
	CHECK(run(&filter_worker, SYS_mknod, NULL) == KILL);
	CHECK(count_not(&filter_warden, never_in_warden, ALL(never_in_warden),
			E(EPERM)) == 0);
	CHECK(count_not(&filter_agent, never_in_agent, ALL(never_in_agent),
			E(EPERM)) == 0);
	CHECK(count_not(&filter_agent, always_in_agent, ALL(always_in_agent),
			ALLOW) == 0);
	for (long nr = LAST_KNOWN; nr < NR_END; nr++)
		unlisted += run(&filter_api, nr, NULL) != KILL ||
			    run(&filter_scribe, nr, NULL) != KILL ||
			    run(&filter_fetch, nr, NULL) != KILL ||
			    run(&filter_gate, nr, NULL) != KILL ||
			    run(&filter_starter, nr, NULL) != KILL ||
			    run(&filter_keeper, nr, NULL) != KILL ||
			    run(&filter_worker, nr, NULL) != KILL ||
			    run(&filter_viewer, nr, NULL) != KILL;
	CHECK(unlisted == 0);
}

/* Filters pile up along fork: what an inner one allows, outer ones must. */
static int inner_beats_outer(const struct seccomp_filter *in,
			     const struct seccomp_filter *out)
{
	int bad = 0;

	for (long nr = 0; nr < NR_END; nr++) {
		if (run(in, nr, NULL) == ALLOW && run(out, nr, NULL) != ALLOW) {
			printf("# %s allows %ld, %s around it does not\n",
			       in->name, nr, out->name);
			bad++;
		}
		bad += run(out, nr, NULL) == KILL;
	}
	for (size_t i = 0; i < ALL(sandbox_vectors); i++) {
		const struct vector *v = &sandbox_vectors[i];

		bad += run(in, v->nr, v->a) == ALLOW &&
		       run(out, v->nr, v->a) != ALLOW;
	}
	return bad;
}

/* The kernel takes the stricter verdict; of errors, the inner one's. */
static uint32_t both(const struct seccomp_filter *in,
		     const struct seccomp_filter *out, long nr,
		     const uint64_t *a)
{
	uint32_t first = run(in, nr, a);

	return first == ALLOW ? run(out, nr, a) : first;
}

static int child_differs(void)
{
	int bad = 0;

	for (long nr = 0; nr < NR_END; nr++)
		bad += both(&filter_child, &filter_agent, nr, NULL) !=
		       run(&filter_sandbox, nr, NULL);
	for (size_t i = 0; i < ALL(sandbox_vectors); i++) {
		const struct vector *v = &sandbox_vectors[i];

		bad += both(&filter_child, &filter_agent, v->nr, v->a) !=
		       run(&filter_sandbox, v->nr, v->a);
	}
	return bad;
}

/* A door has the starter's filter too; whatever it may do, both allow. */
static int door_differs(void)
{
	int bad = 0;

	for (long nr = 0; nr < NR_END; nr++)
		bad += both(&filter_gate, &filter_starter, nr, NULL) !=
		       run(&filter_gate, nr, NULL);
	for (size_t i = 0; i < ALL(gate_vectors); i++) {
		const struct vector *v = &gate_vectors[i];

		bad += both(&filter_gate, &filter_starter, v->nr, v->a) !=
		       run(&filter_gate, v->nr, v->a);
	}
	return bad;
}

static void test_piling(void)
{
	CHECK(door_differs() == 0);
	CHECK(child_differs() == 0);
	CHECK(inner_beats_outer(&filter_sandbox, &filter_agent) == 0);
	CHECK(inner_beats_outer(&filter_agent, &filter_warden) == 0);
	CHECK(inner_beats_outer(&filter_worker, &filter_warden) == 0);
	CHECK(inner_beats_outer(&filter_fetch, &filter_warden) == 0);
	CHECK(inner_beats_outer(&filter_viewer, &filter_warden) == 0);
}

static void test_coverage(void)
{
	int unseen = 0;

	for (size_t i = 0; i < ALL(filters); i++) {
		for (long nr = 0; nr < NR_END; nr++)
			run(filters[i], nr, NULL);
		for (size_t k = 0; k < ALL(sandbox_vectors); k++)
			run(filters[i], sandbox_vectors[k].nr,
			    sandbox_vectors[k].a);
		for (size_t k = 0; k < ALL(warden_vectors); k++)
			run(filters[i], warden_vectors[k].nr,
			    warden_vectors[k].a);
		for (unsigned pc = 0; pc < filters[i]->len; pc++) {
			if (ran[i][pc] == RAN)
				continue;
			printf("# %s: instruction %u never ran%s\n",
			       filters[i]->name, pc,
			       ran[i][pc] ? " both ways" : "");
			unseen++;
		}
	}
	CHECK(unseen == 0);
}

/* ---- the kernel's opinion ---- */

static int confine(const struct seccomp_filter *f)
{
	if (geteuid() == 0 &&
	    (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return seccomp_install(f);
}

/* errno of the call made under the filter; 0 if it succeeded, -1 on trouble */
static int really(const struct seccomp_filter *f, long nr, const uint64_t *a)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (confine(f))
			_exit(255);
		if (syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) >= 0)
			_exit(0);
		_exit(errno);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	if (WIFSIGNALED(status))
		return 1000 + WTERMSIG(status);
	return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

static void test_real(void)
{
	static char page[4096] __attribute__((aligned(16)));
	uint64_t p = (uint64_t)(uintptr_t)page;
	const struct {
		long nr;
		uint64_t a[6];
		int want;
	} real[] = {
		{ SYS_socket, { 38, SOCK_SEQPACKET }, EAFNOSUPPORT },
		{ SYS_socket, { 40, SOCK_STREAM }, EAFNOSUPPORT },
		{ SYS_socket, { AF_NETLINK, SOCK_RAW, 6 }, EPROTONOSUPPORT },
		{ SYS_socket, { AF_NETLINK, SOCK_RAW, 0 }, 0 },
		{ SYS_socket, { AF_INET, SOCK_STREAM, 6 }, 0 },
		{ SYS_socketpair, { AF_UNIX, SOCK_STREAM, 0, p }, 0 },
		{ SYS_unshare, { CLONE_NEWUSER }, EPERM },
		{ SYS_clone, { CLONE_NEWUSER | SIGCHLD }, EPERM },
		{ SYS_clone3, { p, 88 }, ENOSYS },
		{ SYS_ioctl, { 0, TIOCSTI | HI, p }, EPERM },
		{ SYS_io_uring_setup, { 4, p }, EPERM },
		{ SYS_userfaultfd, { 1 }, EPERM },
		{ SYS_perf_event_open, { p, 0, -1ULL, -1ULL }, EPERM },
		{ SYS_bpf, { 0, p, 64 }, EPERM },
		{ SYS_keyctl, { 0, 0 }, EPERM },
		{ SYS_personality, { 0x0400000 }, EPERM },
		{ SYS_personality, { 0xffffffff }, 0 },
		{ SYS_prlimit64, { 0, RLIMIT_CORE, p }, EPERM },
		{ SYS_prlimit64, { 0, RLIMIT_CORE, 0, p }, 0 },
		{ SYS_mount, { p, p, p }, EPERM },
		{ SYS_chroot, { p }, EPERM },
		{ SYS_setns, { 0, 0 }, EPERM },
		{ 457, { p, p }, ENOSYS },
		{ 449, { p, 1 }, ENOSYS },
		{ 599, { 0 }, ENOSYS },
		{ SYS_getpid | X32, { 0 }, ENOSYS },
		{ SYS_sync, { 0 }, 0 },
		{ SYS_syncfs, { -1ULL }, 0 }, /* EBADF if it were called */
	};

	for (size_t i = 0; i < ALL(real); i++) {
		int got = really(&filter_sandbox, real[i].nr, real[i].a);

		if (got != real[i].want)
			printf("# call %ld (row %zu): %d\n", real[i].nr, i,
			       got);
		CHECK(got == real[i].want);
	}
	CHECK(really(&filter_worker, SYS_socket, real[0].a) == 1000 + SIGSYS);
	CHECK(really(&filter_api, SYS_execve, real[0].a) == 1000 + SIGSYS);
	CHECK(really(&filter_api, SYS_socket, real[0].a) == EAFNOSUPPORT);
	CHECK(really(&filter_agent, SYS_unshare, real[0].a) == EPERM);
	CHECK(really(&filter_warden, SYS_io_uring_setup, real[0].a) == EPERM);
}

/* A role under its filter must be able to exit (LeakSanitizer works then). */
static void test_exit(const struct seccomp_filter *f)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    seccomp_install(f))
			_exit(255);
		free(malloc(1 << 20));
		exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

/* ---- real programs ---- */

static int program(const char *path, const char *const *argv)
{
	int status;
	pid_t pid;

	if (access(path, X_OK))
		return 0;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (chdir("/tmp") || confine(&filter_sandbox))
			_exit(255);
		dup2(2, 1); /* its words are no TAP */
		setenv("HOME", "/tmp", 1);
		execv(path, (char *const *)argv);
		_exit(254);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

static void test_programs(void)
{
	static const char *const argvs[][5] = {
		{ "/bin/bash", "-c", "x=$(ls / | wc -l) && [ $x -gt 3 ]" },
		{ "/usr/bin/python3", "-c",
		  "import subprocess, threading, socket, asyncio, os\n"
		  "t = threading.Thread(target=lambda: 0); t.start(); "
		  "t.join()\n"
		  "assert subprocess.run(['true']).returncode == 0\n"
		  "socket.if_nameindex(); asyncio.run(asyncio.sleep(0))\n" },
		{ "/usr/bin/git", "--no-pager", "version" },
		{ "/usr/bin/gcc", "-xc", "-fsyntax-only", "/dev/null" },
		{ "/usr/bin/node", "-e",
		  "require('fs').readFile('/etc/passwd', (e) => { if (e) "
		  "process.exit(3) })" },
		{ "/usr/bin/java", "-version" },
		{ "/usr/bin/perl", "-e", "exit(system('true'))" },
	};

	for (size_t i = 0; i < ALL(argvs); i++) {
		int status = program(argvs[i][0], argvs[i]);

		if (status)
			printf("# %s: status %x\n", argvs[i][0], status);
		CHECK(status == 0);
	}
}

int main(void)
{
	alarm(120); /* a sanitizer whose helper is killed waits for ever */
	read_list();
	test_sandbox_numbers();
	test_foreign();
	test_vectors(&filter_sandbox, sandbox_vectors, ALL(sandbox_vectors));
	test_vectors(&filter_api, api_vectors, ALL(api_vectors));
	test_vectors(&filter_scribe, scribe_vectors, ALL(scribe_vectors));
	test_vectors(&filter_worker, worker_vectors, ALL(worker_vectors));
	test_vectors(&filter_fetch, fetch_vectors, ALL(fetch_vectors));
	test_vectors(&filter_viewer, viewer_vectors, ALL(viewer_vectors));
	test_vectors(&filter_base, base_vectors, ALL(base_vectors));
	test_vectors(&filter_relay, relay_vectors, ALL(relay_vectors));
	test_vectors(&filter_qemu, qemu_vectors, ALL(qemu_vectors));
	test_vectors(&filter_qemu_main, qemu_main_vectors,
		     ALL(qemu_main_vectors));
	test_vectors(&filter_gate, gate_vectors, ALL(gate_vectors));
	test_vectors(&filter_starter, gate_vectors, ALL(gate_vectors));
	test_vectors(&filter_starter, starter_vectors, ALL(starter_vectors));
	test_vectors(&filter_keeper, keeper_vectors, ALL(keeper_vectors));
	test_vectors(&filter_warden, warden_vectors, ALL(warden_vectors));
	test_roles();
	test_piling();
	test_coverage();
	test_real();
	test_exit(&filter_api);
	test_exit(&filter_scribe);
	test_exit(&filter_gate);
	test_exit(&filter_starter);
	test_exit(&filter_keeper);
#ifndef SANITIZED /* the worker runs without the leak checker */
	test_exit(&filter_worker);
	test_exit(&filter_viewer);
#endif
	test_exit(&filter_warden);
	test_programs();
	return CHECK_DONE();
}
