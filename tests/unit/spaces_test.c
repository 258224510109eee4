/* Limits of namespaces are named, not told as "No space left on device". */
#include "base/spaces.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "check.h"

/* Runs in a user namespace of its own: its limits affect only this process. */
static int hit_limit(uint64_t flag, const char *knob, struct err *e)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/sys/user/%s", knob);
	if (unshare(CLONE_NEWUSER) < 0)
		return err_sys(e, "user namespace");
	if (knob_write_at(AT_FDCWD, path, "0") < 0)
		return err_set(e, EIO, "write %s", path);
	if (unshare((int)flag) < 0)
		return err_spaces(e, errno, flag, "make it");
	return 0;
}

static void check_limit(uint64_t flag, const char *knob)
{
	struct err e = { 0 };
	char want[128];
	int p[2], status;
	pid_t pid;

	CHECK(pipe(p) == 0);
	fflush(stdout); /* or the child prints it again */
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)hit_limit(flag, knob, &e);
		_exit(write(p[1], &e, sizeof(e)) != sizeof(e));
	}
	CHECK(read(p[0], &e, sizeof(e)) == sizeof(e));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	close(p[0]);
	close(p[1]);
	CHECK(e.code == EUSERS);
	CHECK(!strstr(e.msg, "No space left"));
	snprintf(want, sizeof(want), "the limit user.%s = 0 is reached", knob);
	CHECK(strstr(e.msg, want));
	snprintf(want, sizeof(want), "sysctl -w user.%s=", knob);
	CHECK(strstr(e.msg, want));
}

static void test_limit_is_named(void)
{
	check_limit(CLONE_NEWUSER, "max_user_namespaces");
	check_limit(CLONE_NEWNET, "max_net_namespaces");
	check_limit(CLONE_NEWNS, "max_mnt_namespaces");
	check_limit(CLONE_NEWCGROUP, "max_cgroup_namespaces");
	/* Of several kinds the smallest limit is the one that was reached. */
	check_limit(CLONE_NEWUTS | CLONE_NEWIPC, "max_ipc_namespaces");
}

static void test_other_errors_stay(void)
{
	struct err e = { 0 };

	CHECK(err_spaces(&e, EPERM, CLONE_NEWUSER, "make it") == -EPERM);
	CHECK(strcmp(e.msg, "make it: Operation not permitted") == 0);
}

int main(void)
{
	test_limit_is_named();
	test_other_errors_stay();
	return CHECK_DONE();
}
