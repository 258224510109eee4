/*
 * Standing still, by the freezer of the unified tree. It stops processes on
 * their way back to their own code, never inside the kernel: no file is half
 * written by a single write(2), no lock of the kernel is held. What is frozen
 * can be killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_knob.h"

enum { WAIT_MAX_MS = 64 };

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

int cgroup_freeze(int group_fd, struct err *e)
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
