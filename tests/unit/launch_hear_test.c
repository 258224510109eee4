/* What the child of a launch says, and what is left of it when it has gone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
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

static int open_fds(void)
{
	int fd, n = 0;

	for (fd = 0; fd < 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void give_net(int n)
{
	const int fds[2] = { STDIN_FILENO, STDIN_FILENO };

	CHECK(send_msg_fds(its, "n", 1, fds, n) == 1);
}

static void fail(int code)
{
	struct err e = { .code = code, .msg = "no room" };

	CHECK(send(its, &e, sizeof(e), 0) == (ssize_t)sizeof(e));
}

static void test_runs(void)
{
	struct part p = PART_NONE;
	struct err e = { 0 };

	meet();
	give_net(1);
	auto_close(&its);
	CHECK(launch_hear(ours, &p, &e) == LAUNCH_NET);
	CHECK(p.netns_fd >= 0);
	CHECK(launch_hear(ours, &p, &e) == LAUNCH_RAN);
	auto_close(&p.netns_fd);
	auto_close(&ours);
}

/* It failed before it had read all that it was told. */
static void test_fails_with_something_unread(void)
{
	struct part p = PART_NONE;
	struct err e = { 0 };

	meet();
	CHECK(send(ours, "j", 1, 0) == 1);
	give_net(1);
	fail(ENOSPC);
	auto_close(&its);
	CHECK(launch_hear(ours, NULL, &e) == LAUNCH_NET);
	CHECK(launch_hear(ours, NULL, &e) == -ENOSPC);
	CHECK_STR(e.msg, "no room");
	auto_close(&ours);
	err_clear(&e);

	meet();
	CHECK(send(ours, "j", 1, 0) == 1);
	fail(ENOMEM);
	auto_close(&its);
	CHECK(launch_hear(ours, &p, &e) == -ENOMEM);
	CHECK(p.netns_fd == -1);
	auto_close(&ours);
}

static void test_nonsense(void)
{
	struct part p = PART_NONE;
	struct err e = { 0 };

	meet();
	CHECK(send(its, "nonsense", 8, 0) == 8);
	fail(0);
	CHECK(launch_hear(ours, &p, &e) == -EIO);
	err_clear(&e);
	CHECK(launch_hear(ours, NULL, &e) == -EIO);
	auto_close(&its);
	auto_close(&ours);
}

/* No descriptor stays that nobody knows of. */
static void test_descriptors(void)
{
	const int before = open_fds();
	struct part p = PART_NONE;
	struct err e = { 0 };

	meet();
	give_net(2);
	give_net(1);
	give_net(1);
	CHECK(launch_hear(ours, &p, &e) == LAUNCH_NET);
	CHECK(open_fds() == before + 3);
	CHECK(launch_hear(ours, &p, &e) == LAUNCH_NET);
	CHECK(launch_hear(ours, NULL, &e) == LAUNCH_NET);
	CHECK(open_fds() == before + 3);
	auto_close(&p.netns_fd);
	auto_close(&its);
	auto_close(&ours);
	CHECK(open_fds() == before);
}

int main(void)
{
	test_runs();
	test_fails_with_something_unread();
	test_nonsense();
	test_descriptors();
	return CHECK_DONE();
}
