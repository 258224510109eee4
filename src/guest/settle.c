/*
 * What others start from has nothing left to do: everything that happens once
 * has happened, and what a first command reads is in memory. Under emulation
 * each of these is a good part of a first command.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "guest/guest.h"

enum {
	MOST_MS = 2000,
	STEP_MS = 5,
	QUIET_MS = 50,
	READ_MAX = 4 << 20, /* of one file */
};

/* The agent has made the child of its first command (agent/spare.c). */
static bool has_spare(int group_fd)
{
	char pids[32];

	return read_file_at(group_fd, "cgroup.procs", pids, sizeof(pids)) > 0;
}

/* The agent has its filter: what it does once when it has nothing to do. */
static bool has_filter(pid_t agent)
{
	char path[32], status[4096];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)agent);
	return read_file_at(AT_FDCWD, path, status, sizeof(status)) > 0 &&
	       strstr(status, "\nSeccomp:\t2\n");
}

static int await_agent(const struct guest *g, struct err *e)
{
	AUTO_CLOSE int fd = cgroup_open_user_group(&g->cg, g->part.slot, e);
	unsigned waited;

	if (fd < 0)
		return fd;
	for (waited = 0; waited < MOST_MS; waited += STEP_MS) {
		if (has_spare(fd) && has_filter(g->box.pid))
			break;
		usleep(STEP_MS * 1000);
	}
	usleep(QUIET_MS * 1000); /* a few calls more, and both wait */
	return 0;
}

/* The image may be anybody's: no way leads out of it, and no file is waited
 * for. What is not there is not read. */
static void read_once(int root_fd, const char *path)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	static char piece[64 * 1024];
	AUTO_CLOSE int fd =
		(int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	struct stat st;
	size_t sum = 0;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	while (sum < READ_MAX && (n = read(fd, piece, sizeof(piece))) > 0)
		sum += (size_t)n;
}

static int read_ahead(const struct guest *g, struct err *e)
{
	static const char *const paths[] = {
		"/bin/sh",
		"/lib64/ld-linux-x86-64.so.2",
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/ld-musl-x86_64.so.1",
		"/etc/ld.so.cache",
		"/etc/passwd",
		"/etc/group",
	};
	AUTO_CLOSE int fd = -1;
	char root[32];
	size_t i;

	snprintf(root, sizeof(root), "/proc/%d/root", (int)g->box.pid);
	fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open the sandbox's root");
	for (i = 0; i < ARRAY_LEN(paths); i++)
		read_once(fd, paths[i]);
	return 0;
}

int settle(struct guest *g, struct err *e)
{
	if (!g->settles)
		return 0;
	if (read_ahead(g, e) < 0)
		return -e->code;
	return await_agent(g, e);
}
