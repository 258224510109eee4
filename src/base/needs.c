#include "base/needs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"

#define NO_CONTAINER                                                \
	"run it on the host itself, in a virtual machine, or in a " \
	"privileged container (docker: --privileged; LXC: without " \
	"lxc.idmap, lxc.cap.drop and AppArmor profile)"

int needs_caps(struct err *e)
{
	static const struct {
		unsigned cap;
		const char *name;
	} wanted[] = {
		{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN" },
		{ CAP_NET_ADMIN, "CAP_NET_ADMIN" },
		{ CAP_SYS_CHROOT, "CAP_SYS_CHROOT" },
		{ CAP_SETUID, "CAP_SETUID" },
		{ CAP_SETGID, "CAP_SETGID" },
		{ CAP_SETPCAP, "CAP_SETPCAP" },
		{ CAP_MKNOD, "CAP_MKNOD" },
	};
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct have[2] = { 0 };
	size_t i;

	if (syscall(SYS_capget, &head, have) < 0)
		return err_sys(e, "read capabilities");
	for (i = 0; i < ARRAY_LEN(wanted); i++)
		if (!(have[0].effective >> wanted[i].cap & 1))
			return err_set(e, EPERM,
				       "root lacks %s here; " NO_CONTAINER,
				       wanted[i].name);
	return 0;
}

/* Idmapped mounts, loop devices and btrfs need the initial user namespace. */
int needs_host_ids(struct err *e)
{
	unsigned inside = 0, outside = 0, count = 0;
	char map[128];

	if (read_file_at(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map)) <= 0)
		return 0; /* a kernel without user namespaces: see doctor */
	if (sscanf(map, "%u %u %u", &inside, &outside, &count) == 3 &&
	    inside == 0 && outside == 0 && count == UINT32_MAX)
		return 0;
	return err_set(e, EPERM,
		       "this is an unprivileged container: its root is not the "
		       "host's; " NO_CONTAINER);
}

static int check_group_dir(const char *path, struct err *e)
{
	if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0 || errno == ENOENT)
		return 0;
	return err_set(e, errno,
		       "the cgroup tree %s is not writable (%s); make it so: "
		       "mount -o remount,rw %s, or in a container start that "
		       "with --privileged and a cgroup tree of its own",
		       path, strerror(errno), path);
}

int needs_cgroups(struct err *e)
{
	static const char top[] = "/sys/fs/cgroup";
	static const char *const hybrid[] = {
		"/sys/fs/cgroup/unified",
		"/sys/fs/cgroup/memory",
		"/sys/fs/cgroup/cpu",
		"/sys/fs/cgroup/pids",
	};
	struct statfs s;
	size_t i;

	if (statfs(top, &s) == 0 && s.f_type == CGROUP2_SUPER_MAGIC)
		return check_group_dir(top, e);
	for (i = 0; i < ARRAY_LEN(hybrid); i++)
		if (check_group_dir(hybrid[i], e) < 0)
			return -e->code;
	return 0;
}

/* systemd notes it; others leave it in the environment of the first process. */
void needs_container(char out[CONTAINER_CAP])
{
	static const char name[] = "container=";
	char env[4096], *p;
	ssize_t n;

	if (read_file_at(AT_FDCWD, "/run/systemd/container", out,
			 CONTAINER_CAP) > 0) {
		out[strcspn(out, "\n")] = '\0';
		return;
	}
	out[0] = '\0';
	n = read_file_at(AT_FDCWD, "/proc/1/environ", env, sizeof(env));
	for (p = env; n > 0 && p < env + n; p += strlen(p) + 1)
		if (strncmp(p, name, strlen(name)) == 0)
			snprintf(out, CONTAINER_CAP, "%.*s", CONTAINER_CAP - 1,
				 p + strlen(name));
	if (!*out && access("/.dockerenv", F_OK) == 0)
		snprintf(out, CONTAINER_CAP, "docker");
}
