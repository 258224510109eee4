/*
 * Standing still, by the freezer of the unified tree. It stops processes on
 * their way back to their own code, never inside the kernel: no file is half
 * written by a single write(2), no lock of the kernel is held. What is frozen
 * can be killed.
 *
 * The kernel's own threads never freeze, and a group that holds one never
 * reports that it is frozen. KVM of 6.1 puts such a thread
 * (kvm-nx-lpage-recovery) into the group of its QEMU.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_knob.h"

enum {
	WAIT_MAX_MS = 64,
	THREADS_TEXT = 4096,             /* of QEMU: VM_PIDS bounds them */
	FLAG_KERNEL_THREAD = 0x00200000, /* PF_KTHREAD */
};

int cgroup_open(const struct cgroup_host *h, unsigned slot, struct err *e)
{
	char name[16];
	int fd;

	cgroup_name(slot, name);
	fd = cgroup_dir(h->unified_fd, name);
	return fd < 0 ? err_sys(e, "open cgroup %s", name) : fd;
}

int cgroup_open_user_group(const struct cgroup_host *h, unsigned slot,
			   struct err *e)
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "b%u/user", slot);
	fd = cgroup_dir(h->unified_fd, path);
	return fd < 0 ? err_sys(e, "open cgroup %s", path) : fd;
}

/* A group that went away under its descriptor has no files any more. */
static bool is_gone(int code)
{
	return code == ENOENT || code == ENODEV;
}

static int gone_or(int code, const char *what, struct err *e)
{
	if (is_gone(code))
		return err_set(e, ESRCH, "the sandbox has ended");
	return err_set(e, code, "%s cgroup.freeze: %s", what, strerror(code));
}

int cgroup_freeze_begin(int group_fd, struct err *e)
{
	AUTO_CLOSE int fd =
		openat(group_fd, "cgroup.freeze", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return gone_or(errno, "open", e);
	if (write(fd, "1", 1) < 0)
		return gone_or(errno, "write '1' to", e);
	return take_fd(&fd);
}

int cgroup_freeze_end(int freezer_fd, struct err *e)
{
	if (write(freezer_fd, "0", 1) < 0 && !is_gone(errno))
		return err_sys(e, "write '0' to cgroup.freeze");
	return 0;
}

/* 1, 0, or -errno: the group is gone. */
static int is_frozen(int events_fd)
{
	char text[128];
	ssize_t n = pread(events_fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	return strstr(text, "frozen 1") != NULL;
}

bool cgroup_frozen(int events_fd)
{
	return is_frozen(events_fd) == 1;
}

int cgroup_events(int group_fd, struct err *e)
{
	int fd = openat(group_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

	if (fd < 0 && is_gone(errno))
		return err_set(e, ESRCH, "the sandbox has ended");
	return fd < 0 ? err_sys(e, "open cgroup.events") : fd;
}

/* Of /proc/TID/stat; the name in field 2 may contain anything. */
static bool thread_read(int proc_fd, int tid, char *state, unsigned *flags)
{
	char path[32], text[1024], *at;
	ssize_t n;

	snprintf(path, sizeof(path), "%d/stat", tid);
	n = read_file_at(proc_fd, path, text, sizeof(text));
	at = n > 0 ? strrchr(text, ')') : NULL;
	return at &&
	       sscanf(at, ") %c %*d %*d %*d %*d %*d %u", state, flags) == 2;
}

/* Counts the kernel's threads in `file`; -1: another thread runs. */
static int count_kernel_threads(int group_fd, const char *file, int proc_fd)
{
	char text[THREADS_TEXT], *at = text, *end;
	unsigned flags;
	char state;
	int found = 0;

	if (read_file_at(group_fd, file, text, sizeof(text)) <= 0)
		return 0;
	for (; *at; at = end + (*end == '\n')) {
		int tid = (int)strtol(at, &end, 10);

		if (end == at)
			return -1;
		if (!thread_read(proc_fd, tid, &state, &flags))
			continue; /* it has ended */
		if (flags & FLAG_KERNEL_THREAD)
			found++;
		else if (state == 'R' || state == 'D')
			return -1;
	}
	return found;
}

bool cgroup_still_beside_kernel(int group_fd, int proc_fd)
{
	static const char *const files[] = { "cgroup.threads",
					     "user/cgroup.threads" };
	int n, found = 0;
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++) {
		n = count_kernel_threads(group_fd, files[i], proc_fd);
		if (n < 0)
			return false;
		found += n;
	}
	return found > 0;
}

int cgroup_freeze(int group_fd, int proc_fd, struct err *e)
{
	AUTO_CLOSE int fd = cgroup_events(group_fd, e), freezer_fd = -1;
	uint64_t now = clock_boot_ms(), until = now + CGROUP_FREEZE_MS;
	struct pollfd p = { .fd = fd, .events = POLLPRI };
	int r, wait = 1;

	if (fd >= 0)
		freezer_fd = cgroup_freeze_begin(group_fd, e);
	if (freezer_fd < 0)
		return -e->code;
	while ((r = is_frozen(fd)) != 1) {
		if (r < 0)
			return err_set(e, ESRCH, "the sandbox has ended");
		if (proc_fd >= 0 &&
		    cgroup_still_beside_kernel(group_fd, proc_fd))
			break;
		now = clock_boot_ms();
		if (now >= until)
			return err_set(e, ETIMEDOUT,
				       "its processes did not stand still "
				       "within %d s",
				       CGROUP_FREEZE_MS / 1000);
		/* The kernel tells of it every 10 ms at most: we look, too. */
		if (poll(&p, 1, wait) < 0 && errno != EINTR)
			return err_sys(e, "wait for the freezer");
		wait = wait < WAIT_MAX_MS ? wait * 2 : wait;
	}
	return 0;
}

static int thaw_at(int dir_fd, const char *file, struct err *e)
{
	struct err none = { 0 };

	if (cgroup_knob(dir_fd, file, "0", false, &none) == 0 ||
	    none.code == ENODEV || none.code == ENOENT)
		return 0; /* done, or it is gone */
	*e = none;
	return -e->code;
}

int cgroup_thaw(int group_fd, struct err *e)
{
	return thaw_at(group_fd, "cgroup.freeze", e);
}

int cgroup_thaw_slot(const struct cgroup_host *h, unsigned slot, bool user,
		     struct err *e)
{
	char path[40];

	snprintf(path, sizeof(path), "b%u/%scgroup.freeze", slot,
		 user ? "user/" : "");
	return thaw_at(h->unified_fd, path, e);
}

bool cgroup_goes_on(const struct cgroup_host *h, unsigned slot)
{
	char path[40], text[8];

	snprintf(path, sizeof(path), "b%u/cgroup.freeze", slot);
	return read_file_at(h->unified_fd, path, text, sizeof(text)) > 0 &&
	       text[0] == '0';
}
