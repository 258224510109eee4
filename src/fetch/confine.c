#include "fetch/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/privs.h"
#include "seccomp/seccomp.h"

enum { ID_LIMIT = 65536, FILE_MAX = 256 * 1024 };

/* For getaddrinfo(). Other sources of names are libraries, or sockets of
 * other programs: a library of ours opens neither. */
static const char *const copied[] = { "/etc/resolv.conf", "/etc/hosts" };
static const char nsswitch[] = "hosts: files dns\n";

/* As worker/confine.c: an id outside of the map does not exist. */
static int check_start(struct err *e)
{
	if (getuid() != 0 || getpid() != 1 ||
	    setresuid((uid_t)-1, ID_LIMIT, (uid_t)-1) == 0 || errno != EINVAL)
		return err_set(e, EPERM,
			       "not the first process of a user namespace of "
			       "65536 ids: the warden starts this program");
	if (close_range(STDERR_FILENO + 1, ~0U, 0) < 0)
		return err_sys(e, "close descriptors");
	return 0;
}

static int put_file(int root_fd, const char *path, const char *text, size_t n,
		    struct err *e)
{
	AUTO_CLOSE int fd =
		openat(root_fd, path + 1,
		       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	int r;

	if (fd < 0)
		return err_sys(e, "create %s", path);
	r = write_full(fd, text, n);
	return r < 0 ? err_set(e, -r, "write %s: %s", path, strerror(-r)) : 0;
}

/* A host without one of them does without it. */
static int copy_file(int root_fd, const char *path, struct err *e)
{
	static char text[FILE_MAX];
	ssize_t n = read_file_at(AT_FDCWD, path, text, sizeof(text));

	if (n == -ENOENT)
		return 0;
	if (n < 0)
		return err_set(e, (int)-n, "read %s: %s", path,
			       strerror((int)-n));
	return put_file(root_fd, path, text, (size_t)n, e);
}

static int fill(int root_fd, struct err *e)
{
	size_t i;

	if (mkdirat(root_fd, "etc", 0755) < 0)
		return err_sys(e, "create /etc");
	for (i = 0; i < ARRAY_LEN(copied); i++)
		if (copy_file(root_fd, copied[i], e) < 0)
			return -e->code;
	return put_file(root_fd, "/etc/nsswitch.conf", nsswitch,
			sizeof(nsswitch) - 1, e);
}

static int mount_root(void)
{
	AUTO_CLOSE int fs_fd = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int fd;

	if (fs_fd < 0 ||
	    fsconfig(fs_fd, FSCONFIG_SET_STRING, "mode", "0555", 0) < 0 ||
	    fsconfig(fs_fd, FSCONFIG_SET_STRING, "size", "1m", 0) < 0 ||
	    fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	fd = fsmount(fs_fd, FSMOUNT_CLOEXEC,
		     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (fd >= 0 &&
	    move_mount(fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int leave_host(struct err *e)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	AUTO_CLOSE int fd = -1;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make the mounts private");
	fd = mount_root();
	if (fd < 0)
		return err_sys(e, "mount an empty root");
	if (fill(fd, e) < 0)
		return -e->code;
	if (mount_setattr(fd, "", AT_EMPTY_PATH, &read_only,
			  sizeof(read_only)) < 0)
		return err_sys(e, "make the root read-only");
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
	{ RLIMIT_AS, UINT64_C(512) << 20 },
#endif
	{ RLIMIT_FSIZE, 0 },
	{ RLIMIT_NOFILE, 64 },
	{ RLIMIT_CPU, 3600 },
	{ RLIMIT_NPROC, 0 },
	{ RLIMIT_CORE, 0 },
};

static int limit_self(struct err *e)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	size_t i;

	for (i = 0; i < ARRAY_LEN(limits); i++) {
		struct rlimit l = { limits[i].max, limits[i].max };

		if (setrlimit(limits[i].what, &l) < 0)
			return err_sys(e, "set limit %d", (int)limits[i].what);
	}
	return sigaction(SIGPIPE, &ignore, NULL) < 0
		       ? err_sys(e, "ignore signals")
		       : 0;
}

int fetch_confine(struct err *e)
{
	int r;

	if (check_start(e) < 0 || leave_host(e) < 0 || limit_self(e) < 0 ||
	    privs_keep(0, e) < 0)
		return -e->code;
	r = seccomp_install(&filter_fetch);
	if (r < 0)
		return err_set(e, -r, "install the system-call filter: %s",
			       strerror(-r));
	return 0;
}
