/*
 * Runs a program and lets one system call of it fail:
 *
 *	fault_run ROLE CALL NTH ERRNO PROGRAM [ARG...]
 *
 * The NTH call of the kind CALL that a process named ROLE makes gets ERRNO
 * instead of its answer; all other calls go on as they are. With 0 none fails.
 * On its exit it prints "CALL: N calls, hit" (or "not hit") to stderr.
 *
 * The kernel asks us about each call (SECCOMP_RET_USER_NOTIF), so that nothing
 * of the program is changed and no call is missed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

static const struct call {
	const char *kind;
	int nr;
} calls[] = {
	{ "open", SYS_openat },      { "open", SYS_openat2 },
	{ "list", SYS_getdents64 },  { "stat", SYS_newfstatat },
	{ "stat", SYS_statx },       { "stat", SYS_fstat },
	{ "stat", SYS_fstatfs },     { "stat", SYS_faccessat },
	{ "stat", SYS_faccessat2 },  { "read", SYS_read },
	{ "read", SYS_pread64 },     { "read", SYS_readlinkat },
	{ "pidfd", SYS_pidfd_open }, { "write", SYS_write },
	{ "write", SYS_pwrite64 },   { "write", SYS_fsync },
	{ "write", SYS_fdatasync },  { "write", SYS_ftruncate },
	{ "change", SYS_renameat2 }, { "change", SYS_renameat },
	{ "change", SYS_unlinkat },  { "change", SYS_mkdirat },
	{ "change", SYS_symlinkat }, { "change", SYS_fsetxattr },
	{ "ask", SYS_ioctl },        { "ask", SYS_flock },
	{ "ask", SYS_fgetxattr },
};

struct plan {
	const char *role, *kind;
	uint64_t nth, code, seen;
	bool hit;
};

/* The descriptor through which the kernel asks about the calls of the kind. */
static int install(const struct plan *p)
{
	struct sock_filter f[2 * ARRAY_LEN(calls) + 2];
	struct sock_fprog prog = { .filter = f };
	unsigned short n = 0;
	size_t i;

	f[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (i = 0; i < ARRAY_LEN(calls); i++) {
		if (strcmp(calls[i].kind, p->kind) != 0)
			continue;
		f[n++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].nr, 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						      SECCOMP_RET_USER_NOTIF);
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
					      SECCOMP_RET_ALLOW);
	prog.len = n;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
}

static void __attribute__((noreturn)) child(const struct plan *p, int sock,
					    char **argv)
{
	const char word = 0;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	fd = install(p);
	if (fd < 0 || send_msg_fds(sock, &word, 1, &fd, 1) < 0)
		die("install the filter: %s", strerror(errno));
	execv(argv[0], argv);
	die("run %s: %s", argv[0], strerror(errno));
}

static bool is_role(const struct plan *p, pid_t pid)
{
	char path[48], name[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	n = read_file_at(AT_FDCWD, path, name, sizeof(name));
	name[n > 0 ? n - 1 : 0] = '\0';
	return strcmp(name, p->role) == 0;
}

/* Answers a notification; its process may have died meanwhile. */
static void answer(struct plan *p, int fd)
{
	struct seccomp_notif q = { 0 };
	struct seccomp_notif_resp a = { 0 };

	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &q) < 0)
		return;
	a.id = q.id;
	a.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	if (is_role(p, (pid_t)q.pid) && ++p->seen == p->nth) {
		a.flags = 0;
		a.error = -(int)p->code;
		p->hit = true;
	}
	(void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &a);
}

/* The status of the child, when it has ended. */
static bool signalled(int sig_fd, pid_t pid, int *status)
{
	struct signalfd_siginfo si;

	if (read(sig_fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return false;
	if (si.ssi_signo != SIGCHLD)
		kill(pid, SIGTERM);
	return waitpid(pid, status, WNOHANG) == pid;
}

static int serve(struct plan *p, int fd, int sig_fd, pid_t pid)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
				{ .fd = sig_fd, .events = POLLIN } };
	int status = 0;

	for (;;) {
		if (poll(fds, ARRAY_LEN(fds), -1) < 0)
			continue;
		if (fds[0].revents & POLLIN)
			answer(p, fd);
		else if (fds[0].revents)
			fds[0].fd = -1; /* the other end is closed */
		if ((fds[1].revents & POLLIN) &&
		    signalled(sig_fd, pid, &status))
			return status;
	}
}

int main(int argc, char **argv)
{
	struct plan p = { 0 };
	int pair[2], fds[FD_PASS_MAX], status;
	sigset_t set, old;
	char word;
	pid_t pid;

	log_init("fault", LOG_INFO);
	if (argc < 6 || parse_u64(argv[3], UINT64_MAX, &p.nth) < 0 ||
	    parse_u64(argv[4], 4095, &p.code) < 0)
		die("fault_run ROLE CALL NTH ERRNO PROGRAM [ARG...]");
	p.role = argv[1];
	p.kind = argv[2];
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &old);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &old, NULL);
		child(&p, pair[1], argv + 5);
	}
	if (pid < 0 || recv_msg_fds(pair[0], &word, 1, fds) != 1 || fds[0] < 0)
		die("start %s: %s", argv[5], strerror(errno));
	status = serve(&p, fds[0], signalfd(-1, &set, SFD_CLOEXEC), pid);
	fprintf(stderr, "%s: %llu calls, %shit\n", p.kind,
		(unsigned long long)p.seen, p.hit ? "" : "not ");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
