/*
 * A microVM's group that holds a thread of the kernel (KVM of 6.1 puts one
 * there) never reports frozen: when does it stand still all the same? A
 * directory stands in for the group and for /proc.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "sandbox/cgroup.h"

enum { KERNEL = 0x00208040, USER = 0x00400140 };

static char top[] = "/tmp/carrel_freeze.XXXXXX";

static void put(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		exit(1);
}

/* A thread in that state; its name is as bad as names get. */
static void thread(int tid, char state, unsigned flags)
{
	char dir[128], name[32], text[128];

	snprintf(dir, sizeof(dir), "%s/%d", top, tid);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		exit(1);
	snprintf(name, sizeof(name), "%d/stat", tid);
	snprintf(text, sizeof(text), "%d (a) R 1 (b) %c 2 0 0 0 -1 %u 0 0\n",
		 tid, state, flags);
	put(name, text);
}

static void remove_all(void)
{
	static const char *const names[] = {
		"10/stat", "10", "11/stat",        "11",
		"12/stat", "12", "cgroup.threads", "user/cgroup.threads",
		"user",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++)
		CHECK(remove(names[i]) == 0);
	CHECK(rmdir(top) == 0);
}

int main(void)
{
	AUTO_CLOSE int fd = -1;

	if (!mkdtemp(top) || chdir(top) < 0 || mkdir("user", 0700) < 0)
		return 1;
	fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	thread(10, 'S', USER);
	thread(11, 'S', USER);
	thread(12, 'S', KERNEL);

	/* Without a thread of the kernel only the kernel's own word counts. */
	put("cgroup.threads", "");
	put("user/cgroup.threads", "10\n11\n");
	CHECK(!cgroup_still_beside_kernel(fd, fd));
	put("user/cgroup.threads", "10\n11\n12\n");
	CHECK(cgroup_still_beside_kernel(fd, fd));
	thread(12, 'R', KERNEL); /* it may run */
	CHECK(cgroup_still_beside_kernel(fd, fd));
	thread(11, 'R', USER);
	CHECK(!cgroup_still_beside_kernel(fd, fd));
	thread(11, 'D', USER);
	CHECK(!cgroup_still_beside_kernel(fd, fd));
	thread(11, 'S', USER);
	put("cgroup.threads", "10\n"); /* on v1 QEMU is there */
	CHECK(cgroup_still_beside_kernel(fd, fd));
	put("user/cgroup.threads", "10\n99\n12\n"); /* 99 has ended */
	CHECK(cgroup_still_beside_kernel(fd, fd));
	put("user/cgroup.threads", "what\n");
	CHECK(!cgroup_still_beside_kernel(fd, fd));
	remove_all();
	return CHECK_DONE();
}
