#include "gate/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/privs.h"
#include "gate/record.h"

enum {
	KEEPER_FILES = 8192,
	DOOR_FILES = 256 * 1024, /* sockets of sandboxes, connections, pipes */
	LOCKED_BYTES = 64 * 1024 * 1024, /* keys and secrets, never on a disk */
};

static int mount_at(const char *type, int dir_fd, const char *path)
{
	AUTO_CLOSE int fs_fd = fsopen(type, FSOPEN_CLOEXEC), fd = -1;

	if (fs_fd < 0 ||
	    (strcmp(type, "tmpfs") == 0 &&
	     (fsconfig(fs_fd, FSCONFIG_SET_STRING, "mode", "0555", 0) < 0 ||
	      fsconfig(fs_fd, FSCONFIG_SET_STRING, "size", "64k", 0) < 0)) ||
	    fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	fd = fsmount(fs_fd, FSMOUNT_CLOEXEC,
		     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (fd < 0 ||
	    move_mount(fd, "", dir_fd, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -1;
	return take_fd(&fd);
}

/* Where the scribe listens, and nothing else. */
static int fill(int root_fd, int log_fd)
{
	static const char log_dir[] = GATE_LOG_DIR;

#ifdef SANITIZED /* the leak checker reads its own maps */
	AUTO_CLOSE int proc_fd = -1;

	if (mkdirat(root_fd, "proc", 0555) < 0)
		return -1;
	proc_fd = mount_at("proc", root_fd, "proc");
	if (proc_fd < 0)
		return -1;
#endif
	if (log_fd < 0)
		return 0;
	if (mkdirat(root_fd, log_dir + 1, 0555) < 0)
		return -1;
	return move_mount(log_fd, "", root_fd, log_dir + 1,
			  MOVE_MOUNT_F_EMPTY_PATH);
}

/* As worker/confine.c: with "." twice the old root ends up over the new. */
static int leave_host(int log_fd, struct err *e)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	AUTO_CLOSE int fd = -1;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make the mounts private");
	fd = mount_at("tmpfs", AT_FDCWD, "/");
	if (fd < 0)
		return err_sys(e, "mount an empty root");
	if (fill(fd, log_fd) < 0)
		return err_sys(e, "fill the root");
	if (mount_setattr(fd, "", AT_EMPTY_PATH, &read_only,
			  sizeof(read_only)) < 0)
		return err_sys(e, "make the root read-only");
	if (fchdir(fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, "change to the empty root");
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(e, "unmount the host's files");
	return 0;
}

static int limit_self(uint64_t files, struct err *e)
{
	const struct {
		__rlimit_resource_t what;
		uint64_t max;
	} limits[] = {
		{ RLIMIT_NOFILE, files },
		{ RLIMIT_MEMLOCK, LOCKED_BYTES },
		{ RLIMIT_CORE, 0 },
	};
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	size_t i;

	for (i = 0; i < ARRAY_LEN(limits); i++) {
		struct rlimit l;

		/* Who starts us may have set a lower one. */
		if (getrlimit(limits[i].what, &l) < 0)
			return err_sys(e, "read limit %d", (int)limits[i].what);
		if (l.rlim_max > limits[i].max)
			l.rlim_max = limits[i].max;
		l.rlim_cur = l.rlim_max;
		if (setrlimit(limits[i].what, &l) < 0)
			return err_sys(e, "set limit %d", (int)limits[i].what);
	}
	return sigaction(SIGPIPE, &ignore, NULL) < 0
		       ? err_sys(e, "ignore signals")
		       : 0;
}

static int install(const struct seccomp_filter *f, struct err *e)
{
	int r = seccomp_install(f);

	return r < 0 ? err_set(e, -r, "install the system-call filter: %s",
			       strerror(-r))
		     : 0;
}

int confine_child(const char *name, pid_t parent, struct err *e)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		return err_set(e, ESRCH, "the gate has gone");
	return prctl(PR_SET_NAME, name) < 0 ? err_sys(e, "set a name") : 0;
}

int confine_keeper(struct setup *s, struct err *e)
{
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) < 0)
		return err_sys(e, "leave the host's namespaces");
	if (leave_host(-1, e) < 0 || limit_self(KEEPER_FILES, e) < 0 ||
	    privs_drop(s->uid, s->gid, NULL, 0, e) < 0)
		return -e->code;
	return install(&filter_keeper, e);
}

int confine_starter(struct setup *s, struct err *e)
{
	if (unshare(CLONE_NEWNS | CLONE_NEWIPC) < 0)
		return err_sys(e, "leave the host's namespaces");
	if (leave_host(s->log_fd, e) < 0)
		return -e->code;
	auto_close(&s->log_fd);
	if (limit_self(DOOR_FILES, e) < 0 ||
	    privs_drop(s->uid, s->gid, NULL, 0, e) < 0)
		return -e->code;
	return install(&filter_starter, e);
}

int confine_door(struct err *e)
{
	return install(&filter_gate, e);
}
