/* Steps of a launch, each in a process of its own, and the agent's file. Needs
 * root. */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "check.h"
#include "sandbox/container/steps.h"

static const struct launch_spec spec = { .id = "i1",
					 .hostname = "one",
					 .cpus_milli = 100000 };

/* The exit status of a child that calls `fn`; 0 is success. */
static int in_child(int (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(fn());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static long keys(int op, long a, const char *type, const char *name)
{
	return syscall(SYS_keyctl, op, a, type, name, 0);
}

/* The sandbox cannot find a key of the host's session keyring. */
static int keyring_is_its_own(void)
{
	struct launch_ctx l = { .spec = &spec };
	struct err e = { 0 };
	long before, after;

	if (keys(KEYCTL_JOIN_SESSION_KEYRING, 0, NULL, NULL) < 0)
		return 0; /* a kernel, or a host of this test, without keys */
	before = keys(KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, NULL,
		      NULL);
	if (syscall(SYS_add_key, "user", "launch-test", "x", 1UL,
		    (long)KEY_SPEC_SESSION_KEYRING) < 0)
		return 0;
	if (keys(KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user",
		 "launch-test") < 0)
		return 1;
	if (step_basics(&l, &e) < 0)
		return 2;
	after = keys(KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, NULL,
		     NULL);
	if (after == before)
		return 4;
	return keys(KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user",
		    "launch-test") < 0
		       ? 0
		       : 8;
}

static int leaves_namespaces(void)
{
	static const char *const names[] = { "mnt", "uts", "ipc" };
	struct launch_ctx l = { .spec = &spec };
	struct stat before[3], after[3];
	struct err e = { 0 };
	char path[64], host[64];
	int i, same = 0;

	for (i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		if (stat(path, &before[i]) < 0)
			return 1;
	}
	if (step_basics(&l, &e) < 0)
		return 2;
	for (i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		if (stat(path, &after[i]) < 0)
			return 1;
		same += before[i].st_ino == after[i].st_ino;
	}
	gethostname(host, sizeof(host));
	return same ? 4 : strcmp(host, "one") != 0 ? 8 : 0;
}

static int limits_hold(void)
{
	static const struct {
		int what;
		rlim_t most;
	} rows[] = { { RLIMIT_NOFILE, 65536 },
		     { RLIMIT_MEMLOCK, 8 << 20 },
		     { RLIMIT_MSGQUEUE, 819200 } };
	struct launch_ctx l = { .spec = &spec };
	struct rlimit r;
	struct err e = { 0 };
	size_t i;

	/* The host's own limit may be lower: then that, as a whole. */
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return 1;
	r.rlim_cur = 64;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0 || step_limits(&l, &e) < 0)
		return 1;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur != r.rlim_max)
		return 8;
	if (getrlimit(RLIMIT_CORE, &r) < 0 || r.rlim_cur != 1 ||
	    r.rlim_max != 1)
		return 2;
	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (getrlimit(rows[i].what, &r) < 0 ||
		    r.rlim_max > rows[i].most || r.rlim_cur > r.rlim_max)
			return 4;
	return 0;
}

/* Only those that the agent needs stay open, and only some of them beyond
 * exec. */
static int others_are_closed(void)
{
	struct launch_host host = { .agent_fd = dup(0) };
	struct launch_ctx l = { .host = &host,
				.spec = &spec,
				.listen_fd = dup(0),
				.oom_fd = dup(0),
				.into_fd = dup(0),
				.join_fd = -1,
				.talk_fd = dup(0),
				.userns_fd = dup(0) };
	struct err e = { 0 };
	int i;

	if (dup2(0, 300) < 0 || step_fds(&l, &e) < 0)
		return 1;
	for (i = FD_END; i <= 300; i++)
		if (fcntl(i, F_GETFD) >= 0)
			return 2;
	if (fcntl(FD_JOIN, F_GETFD) >= 0 || fcntl(FD_LISTEN, F_GETFD) != 0)
		return 4;
	return fcntl(FD_AGENT, F_GETFD) == FD_CLOEXEC &&
			       fcntl(FD_USERNS, F_GETFD) == FD_CLOEXEC &&
			       fcntl(FD_TALK, F_GETFD) == FD_CLOEXEC
		       ? 0
		       : 8;
}

/* The one file that all agents of the host run from cannot be changed. */
static void test_agent_is_sealed(void)
{
	const int all =
		F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	struct err e = { 0 };
	AUTO_CLOSE int fd = launch_load_agent("/proc/self/exe", &e);
	AUTO_CLOSE int read_fd = -1;
	char path[48];
	struct stat st;

	CHECK(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(read_fd >= 0 && fstat(read_fd, &st) == 0);
	CHECK((fcntl(read_fd, F_GET_SEALS) & all) == all);
	CHECK((st.st_mode & 0777) == 0111);
	CHECK((fcntl(fd, F_GETFL) & O_PATH) == O_PATH);
}

int main(void)
{
	if (geteuid() != 0) {
		printf("needs root\n");
		return 77;
	}
	CHECK(in_child(keyring_is_its_own) == 0);
	CHECK(in_child(leaves_namespaces) == 0);
	CHECK(in_child(limits_hold) == 0);
	CHECK(in_child(others_are_closed) == 0);
	test_agent_is_sealed();
	return CHECK_DONE();
}
