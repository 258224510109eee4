/*
 * What the kernel does not do by itself. The root that it starts with cannot
 * be left behind by those who are launched, so there is another one on top.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "guest/guest.h"

enum { WAIT_MS = 10 * 1000, STEP_MS = 2 };

/* In the order they need each other: `m/order` of the initramfs has a name on
 * each line. */
static int load_one(const char *name, struct err *e)
{
	char path[96];
	AUTO_CLOSE int fd = -1;

	snprintf(path, sizeof(path), "/m/%.64s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s", path);
	if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
		return err_sys(e, "module %s", name);
	return 0;
}

int machine_load(struct guest *g, struct err *e)
{
	char list[1024], *save = NULL, *name;

	if (read_file_at(AT_FDCWD, "/m/order", list, sizeof(list)) <= 0)
		return err_sys(e, "read /m/order");
	for (name = strtok_r(list, "\n", &save); name;
	     name = strtok_r(NULL, "\n", &save))
		if (load_one(name, e) < 0)
			return -e->code;
	/* The agent is reopened by its descriptor. */
	if (mkdir("/proc", 0700) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0)
		return err_sys(e, "mount /proc");
	g->launch.agent_fd = launch_load_agent("/agent", e);
	return g->launch.agent_fd < 0 ? g->launch.agent_fd : 0;
}

static const struct view {
	const char *type, *at;
	unsigned long flags;
} views[] = {
	{ "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC },
	{ "devtmpfs", "dev", MS_NOSUID | MS_NOEXEC },
	{ "sysfs", "sys", MS_NOSUID | MS_NODEV | MS_NOEXEC },
	{ "cgroup2", "sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC },
};

/*
 * What is dirty goes to the disk within a second or two: the machine may end
 * without a warning, and for those inside a container never does that to their
 * files. (sync() does nothing in a sandbox, fsync() does.)
 */
static int write_soon(struct err *e)
{
	static const char *const files[] = {
		"proc/sys/vm/dirty_expire_centisecs",
		"proc/sys/vm/dirty_writeback_centisecs",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++) {
		AUTO_CLOSE int fd = open(files[i], O_WRONLY | O_CLOEXEC);

		if (fd < 0 || write(fd, "100", 3) != 3)
			return err_sys(e, "set %s", files[i]);
	}
	return 0;
}

static int make_dirs(struct err *e)
{
	static const char *const dirs[] = LAUNCH_DIRS;
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0700) < 0)
			return err_sys(e, "mkdir %s", dirs[i]);
	return 0;
}

int machine_root(struct guest *g, struct err *e)
{
	size_t i;

	if (mkdir("/n", 0700) < 0 ||
	    mount("root", "/n", "tmpfs", MS_NOSUID, "mode=0700,size=4m") < 0 ||
	    chdir("/n") < 0)
		return err_sys(e, "mount the root");
	for (i = 0; i < ARRAY_LEN(views); i++) {
		if (mkdir(views[i].at, 0700) < 0 && errno != EEXIST)
			return err_sys(e, "mkdir %s", views[i].at);
		if (mount(views[i].type, views[i].at, views[i].type,
			  views[i].flags, NULL) < 0)
			return err_sys(e, "mount %s", views[i].type);
	}
	if (write_soon(e) < 0 || make_dirs(e) < 0)
		return -e->code;
	if (mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
	    chdir("/") < 0)
		return err_sys(e, "enter the root");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "keep mounts apart");
	g->launch.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return g->launch.proc_fd < 0 ? err_sys(e, "open /proc") : 0;
}

/* The device of a port; -1: not yet. */
static int find_port(const char *want)
{
	static const char top[] = "/sys/class/virtio-ports";
	AUTO_DIR DIR *d = opendir(top);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		char path[320], name[64];
		size_t n = strlen(want);

		snprintf(path, sizeof(path), "%s/%s/name", top, de->d_name);
		if (read_file_at(AT_FDCWD, path, name, sizeof(name)) <= 0 ||
		    strncmp(name, want, n) != 0 || strcmp(name + n, "\n") != 0)
			continue;
		snprintf(path, sizeof(path), "/dev/%s", de->d_name);
		return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	}
	return -1;
}

static int await_port(const char *name, struct err *e)
{
	unsigned waited;

	for (waited = 0; waited < WAIT_MS; waited += STEP_MS) {
		int fd = find_port(name);

		if (fd >= 0)
			return fd;
		usleep(STEP_MS * 1000);
	}
	return err_set(e, ENODEV, "there is no port '%s'", name);
}

int machine_ports(struct guest *g, struct err *e)
{
	static const char *const names[GUEST_PORTS] = GUEST_PORT_NAMES;
	size_t i;

	for (i = 0; i < GUEST_PORTS; i++) {
		g->port_fd[i] = await_port(names[i], e);
		if (g->port_fd[i] < 0)
			return g->port_fd[i];
	}
	return 0;
}
