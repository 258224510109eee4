/* What a host must have, and should have, to run sandboxes. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/needs.h"
#include "base/product.h"
#include "base/str.h"
#include "cli/doctor.h"

enum { KERNEL_MAJOR = 5, KERNEL_MINOR = 19 };
static const uint64_t pool_min_bytes = 4ULL << 30;
static const uint64_t beside_min_bytes = 64ULL << 20; /* of the pool */

void found(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	f->level = LEVEL_OK;
	f->remedy[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(f->is, sizeof(f->is), fmt, ap);
	va_end(ap);
}

void lacks(struct finding *f, enum level level, const char *remedy,
	   const char *fmt, ...)
{
	va_list ap;

	f->level = level;
	snprintf(f->remedy, sizeof(f->remedy), "%s", remedy);
	va_start(ap, fmt);
	vsnprintf(f->is, sizeof(f->is), fmt, ap);
	va_end(ap);
}

void lacks_need(struct finding *f, enum level level, const struct err *e)
{
	const char *remedy = strstr(e->msg, "; ");

	lacks(f, level, remedy ? remedy + 2 : "", "%.*s",
	      (int)(remedy ? remedy - e->msg : (int)sizeof(e->msg)), e->msg);
}

static void check_root(const struct conf *c, struct finding *f)
{
	char remedy[128];

	if (geteuid() == 0) {
		found(f, "you are root");
		return;
	}
	snprintf(remedy, sizeof(remedy),
		 "run " PRODUCT " doctor as root to see all; to use sandboxes "
		 "join the group '%s'",
		 c->group);
	lacks(f, LEVEL_WARNING, remedy,
	      "you are not root: some checks are only guesses");
}

static void check_caps(const struct conf *c, struct finding *f)
{
	struct err e = { 0 };

	(void)c;
	if (geteuid() != 0)
		found(f, "not tried: only root has them");
	else if (needs_host_ids(&e) < 0 || needs_caps(&e) < 0)
		lacks_need(f, LEVEL_FAIL, &e);
	else
		found(f, "all that are needed");
}

static void check_container(const struct conf *c, struct finding *f)
{
	char name[CONTAINER_CAP];

	(void)c;
	needs_container(name);
	if (!*name)
		found(f, "not in a container");
	else
		lacks(f, LEVEL_WARNING,
		      "use the host itself or a virtual machine; LXC: no "
		      "lxc.idmap, lxc.cap.drop empty, lxc.apparmor.profile = "
		      "unconfined",
		      "inside a container (%s), whose limits apply too", name);
}

static void check_kernel(const struct conf *c, struct finding *f)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	(void)c;
	uname(&u);
	if (sscanf(u.release, "%u.%u", &major, &minor) != 2 ||
	    major < KERNEL_MAJOR ||
	    (major == KERNEL_MAJOR && minor < KERNEL_MINOR))
		lacks(f, LEVEL_FAIL,
		      "install a kernel of version 5.19 or newer (Debian 12 "
		      "has 6.1)",
		      "%s", u.release);
	else
		found(f, "%s", u.release);
}

static bool is_cgroup2(const char *path)
{
	struct statfs s;

	return statfs(path, &s) == 0 && s.f_type == CGROUP2_SUPER_MAGIC;
}

static const char *unified(void)
{
	if (is_cgroup2("/sys/fs/cgroup"))
		return "/sys/fs/cgroup";
	if (is_cgroup2("/sys/fs/cgroup/unified"))
		return "/sys/fs/cgroup/unified";
	return NULL;
}

static void check_cgroups(const struct conf *c, struct finding *f)
{
	const char *at = unified();
	struct err e = { 0 };

	(void)c;
	if (at && geteuid() == 0 && needs_cgroups(&e) < 0)
		lacks_need(f, LEVEL_FAIL, &e);
	else if (!at)
		lacks(f, LEVEL_FAIL,
		      "mount the unified tree: mount -t cgroup2 none "
		      "/sys/fs/cgroup (or boot with "
		      "systemd.unified_cgroup_hierarchy=1)",
		      "no cgroup2 tree");
	else if (strcmp(at, "/sys/fs/cgroup") == 0)
		found(f, "version 2");
	else
		found(f, "hybrid: limits by version 1, freeze and kill by 2");
}

static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);
	const char *at = list;

	while ((at = strstr(at, word))) {
		if ((at == list || strchr(" \n\t,", at[-1])) &&
		    (at[n] == '\0' || strchr(" \n\t,", at[n])))
			return true;
		at += n;
	}
	return false;
}

/* v2: what the root offers. v1: what is mounted by its name. */
static bool has_controller(const char *v2_list, const char *name)
{
	char path[64];

	if (v2_list)
		return has_word(v2_list, name);
	snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/tasks", name);
	return access(path, F_OK) == 0;
}

static void check_controllers(const struct conf *c, struct finding *f)
{
	static const struct {
		const char *v2, *v1;
		enum level without;
	} want[] = {
		{ "cpu", "cpu", LEVEL_FAIL },
		{ "memory", "memory", LEVEL_FAIL },
		{ "pids", "pids", LEVEL_FAIL },
		{ "io", "blkio", LEVEL_WARNING },
		{ "cpuset", "cpuset", LEVEL_WARNING },
	};
	char have[96] = "", miss[96] = "", list[512];
	enum level level = LEVEL_OK;
	bool v2 = is_cgroup2("/sys/fs/cgroup");
	size_t i;

	(void)c;
	if (v2 && read_file_at(AT_FDCWD, "/sys/fs/cgroup/cgroup.controllers",
			       list, sizeof(list)) < 0)
		list[0] = '\0';
	for (i = 0; i < ARRAY_LEN(want); i++) {
		const char *name = v2 ? want[i].v2 : want[i].v1;
		bool is = has_controller(v2 ? list : NULL, name);
		char *to = is ? have : miss;
		size_t n = strlen(to);

		snprintf(to + n, 96 - n, "%s%s", n ? " " : "", name);
		if (!is && want[i].without > level)
			level = want[i].without;
	}
	if (level == LEVEL_OK)
		found(f, "%s", have);
	else
		lacks(f, level,
		      "turn them on (kernel command line: "
		      "cgroup_enable=memory; "
		      "in a container: delegate them)",
		      "%s; without %s", *have ? have : "none", miss);
}

static void check_spaces(const struct conf *c, struct finding *f)
{
	static const char *const kinds[] = { "user", "mnt", "pid",   "net",
					     "ipc",  "uts", "cgroup" };
	char path[64], text[32], remedy[64];
	size_t i;

	(void)c;
	if (access("/proc/self/ns/user", F_OK) < 0) {
		lacks(f, LEVEL_FAIL, "use a kernel with CONFIG_USER_NS",
		      "no user namespaces in this kernel");
		return;
	}
	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces",
			 kinds[i]);
		if (read_file_at(AT_FDCWD, path, text, sizeof(text)) <= 0 ||
		    strtoll(text, NULL, 10) != 0)
			continue;
		snprintf(remedy, sizeof(remedy),
			 "sysctl -w user.max_%s_namespaces=65536", kinds[i]);
		lacks(f, LEVEL_FAIL, remedy,
		      "turned off by user.max_%s_namespaces = 0", kinds[i]);
		return;
	}
	found(f, "available");
}

static void check_seccomp(const struct conf *c, struct finding *f)
{
	char text[256];

	(void)c;
	if (read_file_at(AT_FDCWD, "/proc/sys/kernel/seccomp/actions_avail",
			 text, sizeof(text)) > 0 &&
	    has_word(text, "errno"))
		found(f, "filters are available");
	else
		lacks(f, LEVEL_FAIL, "use a kernel with CONFIG_SECCOMP_FILTER",
		      "no filters in this kernel");
}

static bool file_has(const char *path, const char *text)
{
	char line[512];
	bool is = false;
	FILE *f = fopen(path, "re");

	while (f && !is && fgets(line, sizeof(line), f))
		is = strstr(line, text) != NULL;
	if (f)
		fclose(f);
	return is;
}

/* Known to the running kernel, or a module it would load. */
static bool has_module(const char *fs, const char *module)
{
	char path[256], name[64];
	struct utsname u;

	snprintf(name, sizeof(name), "\t%s\n", fs);
	if (file_has("/proc/filesystems", name))
		return true;
	uname(&u);
	snprintf(name, sizeof(name), "/%s.ko", module);
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", u.release);
	if (file_has(path, name))
		return true;
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.builtin",
		 u.release);
	return file_has(path, name);
}

static void check_overlay(const struct conf *c, struct finding *f)
{
	(void)c;
	if (has_module("overlay", "overlay"))
		found(f, "available");
	else
		lacks(f, LEVEL_FAIL,
		      "modprobe overlay, or a kernel with CONFIG_OVERLAY_FS",
		      "not in this kernel");
}

static bool has_program(const char *name)
{
	static const char *const dirs[] = { "/usr/sbin", "/usr/bin", "/sbin",
					    "/bin", "/usr/local/bin" };
	char path[96];
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static void check_btrfs(const struct conf *c, struct finding *f)
{
	(void)c;
	if (!has_module("btrfs", "btrfs"))
		lacks(f, LEVEL_WARNING,
		      "modprobe btrfs, or a kernel with CONFIG_BTRFS_FS; until "
		      "then: pool_driver = dir",
		      "not in this kernel: no snapshots, and disk limits only "
		      "by project quotas");
	else if (!has_program("mkfs.btrfs"))
		lacks(f, LEVEL_FAIL, "apt-get install btrfs-progs",
		      "in the kernel, but mkfs.btrfs is not installed");
	else
		found(f, "available");
}

static void check_loop(const struct conf *c, struct finding *f)
{
	if (strcmp(c->pool, "auto") != 0)
		found(f, "not needed: the pool is %s", c->pool);
	else if (access("/dev/loop-control", F_OK) == 0)
		found(f, "available");
	else
		lacks(f, LEVEL_FAIL,
		      "modprobe loop; or set `pool` to a directory on btrfs",
		      "no /dev/loop-control");
}

/* The nearest directory of `path` that is there. */
static void existing_dir(const char *path, char out[CONF_PATH])
{
	snprintf(out, CONF_PATH, "%s", path);
	while (access(out, F_OK) < 0) {
		char *slash = strrchr(out, '/');

		if (!slash || slash == out) {
			snprintf(out, CONF_PATH, "/");
			return;
		}
		*slash = '\0';
	}
}

static void check_idmap(const struct conf *c, struct finding *f)
{
	char dir[CONF_PATH];
	int r;

	if (geteuid() != 0) {
		found(f, "not tried: only root can");
		return;
	}
	existing_dir(c->state_dir, dir);
	r = probe_idmap(dir);
	if (r == 0)
		found(f, "available, tried on %s", dir);
	else if (r == -EINVAL)
		/* The pool's own filesystem is what counts in the end. */
		lacks(f, LEVEL_WARNING,
		      "use a btrfs pool (the default), or move state_dir to "
		      "btrfs, ext4 or xfs",
		      "the filesystem of %s cannot", dir);
	else
		lacks(f, LEVEL_FAIL,
		      "run the daemon as root with CAP_SYS_ADMIN on a kernel "
		      "of 5.19 or newer",
		      "failed on %s: %s", dir, strerror(-r));
}

static void check_into_cgroup(const struct conf *c, struct finding *f)
{
	const char *at = unified();
	int r;

	(void)c;
	if (geteuid() != 0 || !at) {
		found(f, "not tried: %s",
		      at ? "only root can" : "there is no cgroup2 tree");
		return;
	}
	r = probe_into_cgroup(at);
	if (r == 0)
		found(f, "available");
	else
		lacks(f, LEVEL_WARNING,
		      "a kernel of 5.7 or newer starts processes in their "
		      "group at once; without it they move there",
		      "failed: %s", strerror(-r));
}

/* ext4 may say only to writers that it stopped after an error (seen on 6.18).
 */
static bool is_read_only(const char *dir, const struct statvfs *v)
{
	AUTO_CLOSE int fd = -1;

	if (v->f_flag & ST_RDONLY)
		return true;
	fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	return fd < 0 && errno == EROFS;
}

/* The pool's file is sparse: holes take space when they are written. */
static uint64_t growth_of(const struct stat *st)
{
	uint64_t size = (uint64_t)st->st_size,
		 have = (uint64_t)st->st_blocks * 512;

	return size > have ? size - have : 0;
}

static void check_space(const struct conf *c, struct finding *f)
{
	const char *pool = strcmp(c->pool, "auto") ? c->pool : c->state_dir;
	char dir[CONF_PATH], image[CONF_PATH + 16];
	char size[SIZE_TEXT], grow[SIZE_TEXT];
	struct statvfs v;
	struct stat st;
	uint64_t bytes;

	snprintf(image, sizeof(image), "%s/pool.img", c->state_dir);
	existing_dir(pool, dir);
	if (statvfs(dir, &v) < 0) {
		lacks(f, LEVEL_WARNING, "look at that directory", "%s: %s", dir,
		      strerror(errno));
		return;
	}
	bytes = (uint64_t)v.f_bavail * v.f_frsize;
	size_text(bytes, size);
	if (stat(image, &st) < 0)
		st = (struct stat){ 0 };
	size_text(growth_of(&st), grow);
	if (st.st_size > 0 && bytes < beside_min_bytes)
		lacks(f, LEVEL_FAIL,
		      "free some space there: the database and the log cannot "
		      "be written, and a pool that cannot grow becomes "
		      "read-only",
		      "%s free in %s", size, dir);
	else if (is_read_only(dir, &v))
		lacks(f, LEVEL_FAIL,
		      "look for errors of its disk with dmesg, check it, and "
		      "mount it read-write again",
		      "%s is read-only", dir);
	else if (st.st_size > 0 && growth_of(&st) > bytes)
		lacks(f, LEVEL_WARNING,
		      "keep that much free, or move other files away: a pool "
		      "that cannot grow becomes read-only",
		      "%s free in %s, but the pool may grow by %s", size, dir,
		      grow);
	else if (st.st_size > 0)
		found(f, "the pool is made; %s free beside it in %s", size,
		      dir);
	else if (bytes < pool_min_bytes)
		lacks(f, LEVEL_FAIL,
		      "free some space, or move state_dir or pool to another "
		      "disk (at least 4 GiB)",
		      "%s free in %s", size, dir);
	else
		found(f, "%s free in %s", size, dir);
}

static void check_mmdebstrap(const struct conf *c, struct finding *f)
{
	(void)c;
	if (has_program("mmdebstrap"))
		found(f, "installed");
	else
		lacks(f, LEVEL_WARNING,
		      "apt-get install mmdebstrap (for `" PRODUCT
		      " image build`; `image import` works without)",
		      "not installed");
}

static void check_kvm(const struct conf *c, struct finding *f)
{
	(void)c;
	if (access("/dev/kvm", R_OK | W_OK) == 0)
		found(f, "/dev/kvm is there");
	else
		found(f, "no usable /dev/kvm (containers do not need it)");
}

static void check_socket_lookup(const struct conf *c, struct finding *f)
{
	int r;

	(void)c;
	if (geteuid() != 0) {
		found(f, "not tried: only root can");
		return;
	}
	r = probe_socket_lookup();
	if (r == 0)
		found(f, "available: every program gets to its sandbox's door");
	else
		lacks(f, LEVEL_WARNING,
		      "use a kernel of 5.9 or newer with CONFIG_BPF_SYSCALL, "
		      "not locked down; until then only programs that know "
		      "proxies (HTTP_PROXY) get out of a sandbox",
		      "no sk_lookup: %s", strerror(-r));
}

const struct check host_checks[] = {
	{ "host", "privilege", "only root can make sandboxes", check_root },
	{ "host", "capabilities",
	  "mounts, namespaces and ids are made with them", check_caps },
	{ "host", "container", "a container takes away what sandboxes need",
	  check_container },
	{ "host", "kernel", "overlay over idmapped mounts came with 5.19",
	  check_kernel },
	{ "host", "newer kernels", "each of these makes something faster",
	  check_kernel_features },
	{ "host", "namespaces",
	  "a sandbox is made of them, and root inside has no rights "
	  "outside",
	  check_spaces },
	{ "host", "seccomp", "filters the system calls of what runs inside",
	  check_seccomp },
	{ "host", "idmapped mounts", "each sandbox has ids of its own",
	  check_idmap },
	{ "host", "cgroup tree", "limits, freezing, killing all at once",
	  check_cgroups },
	{ "host", "controllers", "each is one of the limits",
	  check_controllers },
	{ "host", "clone into cgroup", "limits from the first instruction",
	  check_into_cgroup },
	{ "disk", "overlayfs", "a sandbox is an image and what it writes",
	  check_overlay },
	{ "disk", "btrfs", "volumes in no time, enforced disk limits",
	  check_btrfs },
	{ "disk", "loop devices", "the pool is a file by default", check_loop },
	{ "disk", "space", "images and volumes live in the pool", check_space },
	{ "network", "socket lookup",
	  "programs that know no proxy use the door, too",
	  check_socket_lookup },
	{ "tools", "mmdebstrap", "builds the Debian image", check_mmdebstrap },
	{ "tools", "kvm", "for the microVM tier", check_kvm },
	{ 0 },
};
