#include "worker/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/privs.h"
#include "seccomp/seccomp.h"
#include "wire/worker.h"
#include "worker/limits.h"
#include "worker/tree.h"

/*
 * Owners and modes of what is unpacked, and walking through directories that
 * their owner closed. Not MKNOD (devices are skipped), not SETFCAP (file
 * capabilities are dropped).
 */
#define UNPACK_CAPS                                                    \
	(1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER | \
	 1U << CAP_FSETID)

/*
 * That we were started as agreed. An id just outside of the map must not
 * exist: it does in the initial user namespace, where we would be real root.
 */
static int check_start(struct err *e)
{

	if (getuid() != 0 || getpid() != 1)
		return err_set(e, EPERM,
			       "not the first process of its own namespaces: "
			       "the warden starts this program");
	if (setresuid((uid_t)-1, ID_LIMIT, (uid_t)-1) == 0 || errno != EINVAL)
		return err_set(e, EPERM,
			       "not in a user namespace of 65536 ids: the "
			       "warden starts this program");
	return 0;
}

/* Below the root of a mount ".." leads nowhere, for anyone. */
static int check_mount(int fd, struct err *e)
{
	struct statx sx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &sx) < 0)
		return err_sys(e, "look at the directory of descriptor %d", fd);
	if (!S_ISDIR(sx.stx_mode) ||
	    !(sx.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return err_set(e, EINVAL,
			       "the directory of descriptor %d is not a mount "
			       "of its own",
			       fd);
	return 0;
}

static int keep_fds(int n, struct err *e)
{
	return close_range((unsigned)n, ~0U, 0) < 0
		       ? err_sys(e, "close descriptors")
		       : 0;
}

/* An empty file system, read-only, in front of the host's. */
static int mount_empty(void)
{
	AUTO_CLOSE int fs_fd = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int fd;

	if (fs_fd < 0 ||
	    fsconfig(fs_fd, FSCONFIG_SET_STRING, "mode", "0555", 0) < 0 ||
	    fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	fd = fsmount(fs_fd, FSMOUNT_CLOEXEC,
		     MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			     MOUNT_ATTR_NOEXEC);
	if (fd >= 0 &&
	    move_mount(fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* pivot_root(2): with "." twice the old root ends up over the new one. */
static int leave_host(struct err *e)
{
	AUTO_CLOSE int fd = -1;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make the mounts private");
	fd = mount_empty();
	if (fd < 0)
		return err_sys(e, "mount an empty root");
	if (fchdir(fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, "change to the empty root");
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(e, "unmount the host's files");
	return 0;
}

static const struct {
	__rlimit_resource_t what;
	uint64_t max;
} limits[] = {
#ifndef SANITIZED /* ASan reserves terabytes of addresses */
	{ RLIMIT_AS, WORKER_MEMORY_MAX },
#endif
	{ RLIMIT_FSIZE, ARCHIVE_BYTES_MAX },
	{ RLIMIT_CPU, WORKER_CPU_SECONDS },
	{ RLIMIT_NPROC, 0 },
	{ RLIMIT_CORE, 0 },
};

static int limit_self(uint64_t files, struct err *e)
{
	struct rlimit nofile = { files, files };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	size_t i;

	for (i = 0; i < ARRAY_LEN(limits); i++) {
		struct rlimit l = { limits[i].max, limits[i].max };

		if (setrlimit(limits[i].what, &l) < 0)
			return err_sys(e, "set limit %d", (int)limits[i].what);
	}
	if (setrlimit(RLIMIT_NOFILE, &nofile) < 0)
		return err_sys(e, "set the limit of files");
	/* A full pipe's end, or a file over the limit, is an error to report,
	 * not a death. */
	if (sigaction(SIGPIPE, &ignore, NULL) < 0 ||
	    sigaction(SIGXFSZ, &ignore, NULL) < 0)
		return err_sys(e, "ignore signals");
	umask(0);
	return 0;
}

static int lock_in(uint64_t files, uint32_t caps,
		   const struct seccomp_filter *filter, struct err *e)
{
	int r = leave_host(e);

	if (r == 0)
		r = limit_self(files, e);
	if (r == 0)
		r = privs_keep(caps, e);
	if (r < 0)
		return r;
	r = seccomp_install(filter);
	if (r < 0) {
		errno = -r;
		return err_sys(e, "install the system-call filter");
	}
	return 0;
}

int confine_viewer(int n, struct err *e)
{
	int r = check_start(e), i;

	for (i = 0; i < n && r == 0; i++)
		r = check_mount(WORKER_VIEW_FD + i, e);
	if (r == 0)
		r = keep_fds(WORKER_VIEW_FD + n, e);
	/* It reads what its owner closed, and changes nothing. */
	return r < 0 ? r
		     : lock_in(WALK_FILES_MAX, 1U << CAP_DAC_READ_SEARCH,
			       &filter_viewer, e);
}

/* The descriptors below `n` are kept. */
static int confine_filler(int n, uint64_t files, struct err *e)
{
	AUTO_CLOSE int root_fd = -1;
	int r, i;

	r = check_start(e);
	for (i = WORKER_ROOT_FD; i < n && r == 0; i++)
		if (i != WORKER_SHIM_FD)
			r = check_mount(i, e);
	if (r == 0)
		r = keep_fds(n, e);
	if (r < 0)
		return r;
	/* The warden's descriptor may be an O_PATH one: syncfs() needs more. */
	root_fd = tree_open(WORKER_ROOT_FD, "", O_RDONLY | O_DIRECTORY, 0);
	if (root_fd < 0) {
		errno = -root_fd;
		return err_sys(e, "open the directory to fill");
	}
	r = lock_in(files, UNPACK_CAPS, &filter_worker, e);
	return r < 0 ? r : take_fd(&root_fd);
}

int confine(struct err *e)
{
	return confine_filler(WORKER_SHIM_FD + 1, WORKER_FILES_MAX, e);
}

int confine_apply(struct err *e)
{
	return confine_filler(WORKER_UPPER_FD + 1, WALK_FILES_MAX, e);
}

int confine_base(struct err *e)
{
	int r = check_start(e);

	if (r == 0)
		r = check_mount(WORKER_ROOT_FD, e);
	if (r == 0)
		r = keep_fds(WORKER_BASE_FD + 1, e);
	return r < 0 ? r
		     : lock_in(WALK_FILES_MAX, 1U << CAP_DAC_READ_SEARCH,
			       &filter_base, e);
}
