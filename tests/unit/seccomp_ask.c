/*
 * Asks the kernel what filters say: a tool of tests/e2e/test_filters.py, and of
 * nobody else.
 *
 *	stdin	FILTER[+FILTER...] native|x32|i386 NR A0 A1 A2 A3 A4 A5
 *	stdout	allow, kill, errno N, or signal N (of a call that no filter is
 *		asked about); a line for each
 *
 * Calls are really made, in a child that has the filters on, but never carried
 * out: below them there is one more, whose answer to everything is an error
 * that nobody else uses. The kernel takes the strictest answer, and of errors
 * that of the filter that came last; so this one is seen when all others allow.
 *
 * Answers go to memory that both have: the child needs no call of its own. One
 * that is killed is followed by another, behind the question that killed it.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "seccomp/seccomp.h"

enum {
	PASSED = 4001, /* an errno that no kernel has */
	FILTERS_MAX = 4,
	WORD_MAX = 64,
	X32 = 0x40000000,
};
#define PASS_WORD 0x6f1c7a55U /* sixth argument of our own seccomp() */

enum abi { NATIVE, FOREIGN_X32, FOREIGN_I386 };
enum state { NOT_ASKED, ASKED, ANSWERED, SIGNALED };

struct question {
	char filters[WORD_MAX];
	enum abi abi;
	uint64_t nr, args[6];
};

struct answer {
	enum state state;
	long ret;
};

static const struct seccomp_filter *const filters[] = {
	&filter_sandbox, &filter_agent,  &filter_child,   &filter_api,
	&filter_warden,  &filter_worker, &filter_scribe,  &filter_viewer,
	&filter_fetch,   &filter_gate,   &filter_starter, &filter_keeper,
	&filter_base,    &filter_relay,  &filter_qemu,    &filter_qemu_main,
};

static void __attribute__((noreturn)) fail(const char *what)
{
	fprintf(stderr, "seccomp_ask: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long call(long nr, const uint64_t a[6])
{
	register uint64_t r10 __asm__("r10") = a[3];
	register uint64_t r8 __asm__("r8") = a[4];
	register uint64_t r9 __asm__("r9") = a[5];
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

/* The sixth would be the frame pointer; nobody looks at it. */
static long call_i386(long nr, const uint64_t a[6])
{
	int ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "0"((int)nr), "b"(a[0]), "c"(a[1]), "d"(a[2]),
			   "S"(a[3]), "D"(a[4])
			 : "r8", "r9", "r10", "r11", "memory");
	return ret;
}

static long ask(const struct question *q)
{
	switch (q->abi) {
	case FOREIGN_I386:
		return call_i386((long)q->nr, q->args);
	case FOREIGN_X32:
		return call((long)(q->nr | X32), q->args);
	case NATIVE:
		break;
	}
	return call((long)q->nr, q->args);
}

/* ---- filters ---- */

static const struct seccomp_filter *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(filters); i++)
		if (strcmp(filters[i]->name, name) == 0)
			return filters[i];
	errno = ENOENT;
	fail(name);
}

/* Before there is a filter in whose way a message would be. */
static void check_names(const char *names)
{
	char copy[WORD_MAX], *rest = copy, *name;

	memcpy(copy, names, sizeof(copy));
	while ((name = strsep(&rest, "+")))
		(void)find(name);
}

static void install(const struct sock_filter *code, unsigned short len)
{
	struct sock_fprog prog = { .len = len,
				   .filter = (struct sock_filter *)code };
	const uint64_t args[6] = {
		SECCOMP_SET_MODE_FILTER, 0, (uintptr_t)&prog, 0, 0, PASS_WORD
	};

	if (call(SYS_seccomp, args) != 0)
		_exit(1);
}

/* The one below: all but the installation of those above it. */
static void install_floor(void)
{
	static const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[5])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PASS_WORD, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | PASSED),
	};

	install(code, (unsigned short)ARRAY_LEN(code));
}

static void install_all(const char *names)
{
	char copy[WORD_MAX], *rest = copy, *name;

	memcpy(copy, names, sizeof(copy));
	install_floor();
	while ((name = strsep(&rest, "+"))) {
		const struct seccomp_filter *f = find(name);

		install(f->code, f->len);
	}
}

/* ---- questions ---- */

static struct question *questions;
static struct answer *answers;
static size_t n_questions;

static bool read_one(const char *line, struct question *q)
{
	char abi[WORD_MAX];
	uint64_t *a = q->args;
	int n;

	memset(q, 0, sizeof(*q));
	n = sscanf(line, "%63s %63s %lx %lx %lx %lx %lx %lx %lx", q->filters,
		   abi, &q->nr, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5]);
	q->abi = strcmp(abi, "x32") == 0    ? FOREIGN_X32
		 : strcmp(abi, "i386") == 0 ? FOREIGN_I386
					    : NATIVE;
	return n == 9;
}

static void read_all(void)
{
	size_t room = 0;
	char line[512];

	while (fgets(line, sizeof(line), stdin)) {
		if (n_questions == room) {
			room = room ? 2 * room : 1024;
			questions =
				realloc(questions, room * sizeof(*questions));
			if (!questions)
				fail("memory");
		}
		errno = EINVAL;
		if (!read_one(line, &questions[n_questions++]))
			fail(line);
	}
	answers =
		mmap(NULL, (n_questions + 1) * sizeof(*answers),
		     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (answers == MAP_FAILED)
		fail("memory");
}

/* No call but those that are asked about, from the last filter on. */
static void __attribute__((noreturn)) be_child(size_t from, size_t to)
{
	install_all(questions[from].filters);
	for (size_t i = from; i < to; i++) {
		answers[i].state = ASKED;
		answers[i].ret = ask(&questions[i]);
		answers[i].state = ANSWERED;
	}
	__builtin_trap();
}

/* Returns the first question that is still open. */
static size_t ask_some(size_t from, size_t to)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		be_child(from, to);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		fail("fork");
	while (from < to && answers[from].state == ANSWERED)
		from++;
	if (from == to && WIFSIGNALED(status) && WTERMSIG(status) == SIGILL)
		return to;
	errno = 0;
	if (from == to || answers[from].state != ASKED ||
	    !WIFSIGNALED(status)) {
		fprintf(stderr, "question %zu, status %#x\n", from, status);
		fail("a child ended otherwise than by a call");
	}
	answers[from].state = SIGNALED;
	answers[from].ret = WTERMSIG(status);
	return from + 1;
}

int main(void)
{
	size_t from = 0, to;

	read_all();
	/* no_new_privs for the filters; nobody's core is of interest */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		fail("prctl");
	while (from < n_questions) {
		for (to = from; to < n_questions; to++)
			if (strcmp(questions[to].filters,
				   questions[from].filters) != 0)
				break;
		check_names(questions[from].filters);
		while (from < to)
			from = ask_some(from, to);
	}
	for (size_t i = 0; i < n_questions; i++) {
		const struct answer *a = &answers[i];

		if (a->state == SIGNALED && a->ret == SIGSYS)
			puts("kill");
		else if (a->state == SIGNALED)
			printf("signal %ld\n", a->ret);
		else if (a->ret == -PASSED)
			puts("allow");
		else
			printf("errno %ld\n", -a->ret);
	}
	return 0;
}
