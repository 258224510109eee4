/* What the child of a launch says, and what is left of it when it has gone. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "check.h"
#include "sandbox/container/launch.h"

static int ours, its;

static void meet(void)
{
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	ours = pair[0];
	its = pair[1];
}

static void tell_net(void)
{
	CHECK(send(its, "n", 1, 0) == 1);
}

static void fail(int code)
{
	struct err e = { .code = code, .msg = "no room" };

	CHECK(send(its, &e, sizeof(e), 0) == (ssize_t)sizeof(e));
}

static void test_runs(void)
{
	struct err e = { 0 };

	meet();
	tell_net();
	auto_close(&its);
	CHECK(launch_hear(ours, &e) == LAUNCH_NET);
	CHECK(launch_hear(ours, &e) == LAUNCH_RAN);
	CHECK(launch_hear(ours, &e) == LAUNCH_RAN);
	auto_close(&ours);
}

/* It failed before it had read all that it was told. */
static void test_fails_with_something_unread(void)
{
	struct err e = { 0 };

	meet();
	CHECK(send(ours, "j", 1, 0) == 1);
	tell_net();
	fail(ENOSPC);
	auto_close(&its);
	CHECK(launch_hear(ours, &e) == LAUNCH_NET);
	CHECK(launch_hear(ours, &e) == -ENOSPC);
	CHECK_STR(e.msg, "no room");
	auto_close(&ours);
}

static void test_nonsense(void)
{
	struct err e = { 0 };

	meet();
	CHECK(send(its, "nonsense", 8, 0) == 8);
	fail(0);
	CHECK(launch_hear(ours, &e) == -EIO);
	err_clear(&e);
	CHECK(launch_hear(ours, &e) == -EIO);
	auto_close(&its);
	auto_close(&ours);
}

int main(void)
{
	test_runs();
	test_fails_with_something_unread();
	test_nonsense();
	return CHECK_DONE();
}
