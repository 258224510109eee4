/*
 * What a sandbox sees of the machine: /dev with the harmless devices, /proc
 * with the dangerous and the telling parts covered, and of /sys only its own
 * limits. They are built at places of our own (LAUNCH_DIRS) before there is a
 * root, and moved into it.
 *
 * Files of /proc that only the host's root may open need no cover: nobody
 * inside is that (the masks are for those that everybody may read). Covers are
 * made from the sandbox's own /dev, never from an inode that two sandboxes
 * share: a lock on it would be a channel between them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "sandbox/container/network.h"
#include "sandbox/container/steps.h"
#include "sandbox/mount.h"
#include "sandbox/walls.h"

/* VIEW_FLAGS, for the classic call. */
#define VIEW_MS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

static const struct {
	const char *name;
	unsigned minor, major;
} nodes[] = {
	{ "null", 3, 1 },   { "zero", 5, 1 },    { "full", 7, 1 },
	{ "random", 8, 1 }, { "urandom", 9, 1 }, { "tty", 0, 5 },
};

static const struct {
	const char *name, *to;
} links[] = {
	{ "ptmx", "pts/ptmx" },          { "fd", "/proc/self/fd" },
	{ "stdin", "/proc/self/fd/0" },  { "stdout", "/proc/self/fd/1" },
	{ "stderr", "/proc/self/fd/2" },
};

/* Sources of the covers; they lose their names when the covers are on. */
#define COVER_FILE ".void"
#define COVER_DIR ".empty"
#define COVER_MEMINFO ".meminfo"
#define COVER_BOOT_ID ".boot_id"

/* Where they are found while the covers are put on. */
#define COVERS "/vcover"
#define FILE_COVER COVERS "/" COVER_FILE
#define DIR_COVER COVERS "/" COVER_DIR

static const struct {
	const char *path, *with;
} covers[] = {
	{ "buddyinfo", FILE_COVER },  { "cmdline", FILE_COVER },
	{ "config.gz", FILE_COVER },  { "consoles", FILE_COVER },
	{ "crypto", FILE_COVER },     { "devices", FILE_COVER },
	{ "diskstats", FILE_COVER },  { "interrupts", FILE_COVER },
	{ "iomem", FILE_COVER },      { "ioports", FILE_COVER },
	{ "kallsyms", FILE_COVER },   { "kcore", FILE_COVER },
	{ "key-users", FILE_COVER },  { "keys", FILE_COVER },
	{ "kmsg", FILE_COVER },       { "locks", FILE_COVER },
	{ "misc", FILE_COVER },       { "modules", FILE_COVER },
	{ "partitions", FILE_COVER }, { "schedstat", FILE_COVER },
	{ "slabinfo", FILE_COVER },   { "softirqs", FILE_COVER },
	{ "swaps", FILE_COVER },      { "sysrq-trigger", FILE_COVER },
	{ "timer_list", FILE_COVER }, { "vmallocinfo", FILE_COVER },
	{ "vmstat", FILE_COVER },     { "zoneinfo", FILE_COVER },
	{ "acpi", DIR_COVER },        { "bus", DIR_COVER },
	{ "driver", DIR_COVER },      { "dynamic_debug", DIR_COVER },
	{ "fs", DIR_COVER },          { "irq", DIR_COVER },
	{ "pressure", DIR_COVER },    { "scsi", DIR_COVER },
	{ "sysvipc", NULL }, /* the own namespace's: shown */
	{ "tty", DIR_COVER },         { "meminfo", COVERS "/" COVER_MEMINFO },
};

static int put_file(int dir_fd, const char *name, const char *text,
		    struct err *e)
{
	AUTO_CLOSE int fd = openat(
		dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	int r;

	if (fd < 0)
		return err_sys(e, "create %s", name);
	r = write_full(fd, text, strlen(text));
	return r < 0 ? err_set(e, -r, "write %s", name) : 0;
}

/* MemTotal is the limit, as a machine of that size would show it. */
static int put_meminfo(int dir_fd, uint64_t limit, struct err *e)
{
	struct sysinfo si;
	unsigned long long kb;
	char text[512];

	if (sysinfo(&si) < 0)
		return err_sys(e, "sysinfo");
	if (limit > (uint64_t)si.totalram * si.mem_unit)
		limit = (uint64_t)si.totalram * si.mem_unit;
	kb = limit / 1024;
	snprintf(text, sizeof(text),
		 "MemTotal:       %8llu kB\nMemFree:        %8llu kB\n"
		 "MemAvailable:   %8llu kB\nBuffers:               0 kB\n"
		 "Cached:                0 kB\nSwapCached:            0 kB\n"
		 "Active:                0 kB\nInactive:              0 kB\n"
		 "SwapTotal:             0 kB\nSwapFree:              0 kB\n"
		 "Dirty:                 0 kB\nWriteback:             0 kB\n"
		 "Shmem:                 0 kB\nSlab:                  0 kB\n"
		 "SReclaimable:          0 kB\nSUnreclaim:            0 kB\n",
		 kb, kb, kb);
	return put_file(dir_fd, COVER_MEMINFO, text, e);
}

static int put_boot_id(int dir_fd, struct err *e)
{
	unsigned char r[16];
	char t[48];

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return err_sys(e, "getrandom");
	r[6] = (unsigned char)((r[6] & 0x0f) | 0x40);
	r[8] = (unsigned char)((r[8] & 0x3f) | 0x80);
	snprintf(t, sizeof(t),
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x\n",
		 r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9],
		 r[10], r[11], r[12], r[13], r[14], r[15]);
	return put_file(dir_fd, COVER_BOOT_ID, t, e);
}

static int fill_dev(const struct launch_ctx *l, int fd, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(nodes); i++)
		if (mknodat(fd, nodes[i].name, S_IFCHR | 0666,
			    makedev(nodes[i].major, nodes[i].minor)) < 0)
			return err_sys(e, "make /dev/%s", nodes[i].name);
	for (i = 0; i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i].to, fd, links[i].name) < 0)
			return err_sys(e, "make /dev/%s", links[i].name);
	if (mkdirat(fd, "pts", 0755) < 0 || mkdirat(fd, "shm", 0755) < 0 ||
	    mkdirat(fd, COVER_DIR, 0555) < 0)
		return err_sys(e, "make directories of /dev");
	if (put_file(fd, COVER_FILE, "", e) < 0 ||
	    put_meminfo(fd, l->spec->mem_bytes, e) < 0)
		return -e->code;
	return put_boot_id(fd, e);
}

/* One of LAUNCH_DIRS, or what is mounted on it. */
static int open_place(const char *path, struct err *e)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

/*
 * A new file system at a place of our own, or in a view that is being made,
 * where nobody else has been. The classic call: one does the work of a dozen.
 */
static int mount_here(const char *type, const char *source, const char *at,
		      unsigned long flags, const char *options, struct err *e)
{
	return mount(source, at, type, flags, options) < 0
		       ? err_sys(e, "mount %s", source)
		       : 0;
}

/* Otherwise the kernel shows a number made of the host's memory. */
#define SHM_FILES "1048576"

static int mount_pts_shm(const struct launch_ctx *l, struct err *e)
{
	enum { TERMINALS_MAX = 64 };
	char pts[80], shm[96];

	snprintf(pts, sizeof(pts),
		 "newinstance,ptmxmode=0666,mode=0620,gid=%u,max=%d",
		 l->base + 5, TERMINALS_MAX);
	/* Half of the memory, as on any machine; it is charged to it. */
	snprintf(shm, sizeof(shm),
		 "mode=1777,uid=%u,gid=%u,size=%llu,nr_inodes=" SHM_FILES,
		 l->base, l->base, (unsigned long long)l->spec->mem_bytes / 2);
	if (mount_here("devpts", "devpts", "/vdev/pts", MS_NOSUID | MS_NOEXEC,
		       pts, e) < 0)
		return -e->code;
	return mount_here("tmpfs", "shm", "/vdev/shm", MS_NOSUID | MS_NODEV,
			  shm, e);
}

int step_dev(struct launch_ctx *l, struct err *e)
{
	char options[80];
	AUTO_CLOSE int fd = -1;

	snprintf(options, sizeof(options),
		 "mode=0755,uid=%u,gid=%u,size=64k,nr_inodes=64", l->base,
		 l->base);
	if (mount_here("tmpfs", "dev", "/vdev", MS_NOSUID | MS_NOEXEC, options,
		       e) < 0)
		return -e->code;
	fd = open_place("/vdev", e);
	if (fd < 0 || fill_dev(l, fd, e) < 0)
		return -e->code;
	return mount_pts_shm(l, e);
}

/*
 * A read-only cover over one path of /proc, the current directory; a path that
 * is not there is fine: kernels differ. What it makes has all attributes of the
 * mount that `with` is on.
 */
static int cover(const char *path, const char *with, struct err *e)
{
	if (mount(with, path, NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
		return err_sys(e, "cover /proc/%s", path);
	return 0;
}

/* Where the covers are taken from: /dev once more, but read-only. They are all
 * there: one that is not would be taken for a path that is not. */
static int open_covers(int dev_fd, struct err *e)
{
	AUTO_CLOSE int at_fd = open_place(COVERS, e), fd = -1;

	if (at_fd < 0)
		return at_fd;
	fd = mount_clone(dev_fd, "", VIEW_FLAGS | MOUNT_ATTR_RDONLY, -1, e);
	if (fd < 0 || mount_at(fd, at_fd, e) < 0)
		return -e->code;
	if (access(FILE_COVER, F_OK) < 0 || access(DIR_COVER, F_OK) < 0 ||
	    access(COVERS "/" COVER_MEMINFO, F_OK) < 0)
		return err_sys(e, "find the covers");
	return 0;
}

static int cover_sys(int proc_fd, struct err *e)
{
	AUTO_CLOSE int fd = mount_clone(proc_fd, "sys",
					VIEW_FLAGS | MOUNT_ATTR_RDONLY, -1, e);
	AUTO_CLOSE int at_fd = -1;

	if (fd < 0)
		return fd;
	at_fd = open_beneath(proc_fd, "sys", O_PATH);
	if (at_fd < 0)
		return err_set(e, -at_fd, "open /proc/sys: %s",
			       strerror(-at_fd));
	return mount_at(fd, at_fd, e);
}

static int cover_all(int proc_fd, struct err *e)
{
	size_t i;

	if (fchdir(proc_fd) < 0)
		return err_sys(e, "enter /proc");
	for (i = 0; WALL(PROCMASK) && i < ARRAY_LEN(covers); i++)
		if (covers[i].with &&
		    cover(covers[i].path, covers[i].with, e) < 0)
			return -e->code;
	if (WALL(PROCSYS) && cover_sys(proc_fd, e) < 0)
		return -e->code;
	/* Through the cover of /proc/sys, hence after it; no kernel is without
	 * it. */
	if (mount(COVERS "/" COVER_BOOT_ID, "sys/kernel/random/boot_id", NULL,
		  MS_BIND, NULL) < 0)
		return err_sys(e, "cover boot_id");
	return 0;
}

/* The names of the sources go away; the covers stay. Then /dev is fixed. */
static int seal_dev(int dev_fd, struct err *e)
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };

	if (unlinkat(dev_fd, COVER_FILE, 0) < 0 ||
	    unlinkat(dev_fd, COVER_MEMINFO, 0) < 0 ||
	    unlinkat(dev_fd, COVER_BOOT_ID, 0) < 0 ||
	    unlinkat(dev_fd, COVER_DIR, AT_REMOVEDIR) < 0)
		return err_sys(e, "tidy /dev");
	if (WALL(DEVRO) &&
	    mount_setattr(dev_fd, "", AT_EMPTY_PATH, &ro, sizeof(ro)) < 0)
		return err_sys(e, "make /dev read-only");
	return 0;
}

int step_proc(struct launch_ctx *l, struct err *e)
{
	AUTO_CLOSE int fd = -1, dev_fd = -1;
	int r = 0;

	if (mount_here("proc", "proc", "/vproc", VIEW_MS, NULL, e) < 0)
		return -e->code;
	fd = open_place("/vproc", e);
	if (fd < 0)
		return fd;
	if (!l->has_net) /* before /proc/sys is covered */
		r = network_any_port(fd);
	if (r < 0)
		return err_set(e, -r, "open all ports: %s", strerror(-r));
	dev_fd = open_place("/vdev", e);
	if (dev_fd < 0)
		return dev_fd;
	if (open_covers(dev_fd, e) < 0 || cover_all(fd, e) < 0)
		return -e->code;
	l->oom_fd = openat(fd, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	/* The warden's own value may be far below, and would be inherited. One
	 * above (EACCES) stays: only a host's root could lower it. */
	if (l->oom_fd < 0 || (write(l->oom_fd, "0", 1) != 1 && errno != EACCES))
		return err_sys(e, "set oom_score_adj");
	return seal_dev(dev_fd, e);
}

/* glibc counts the processors here. */
static int put_cpu_online(int sys_fd, uint64_t cpus_milli, struct err *e)
{
	unsigned n = (unsigned)((cpus_milli + 999) / 1000);
	AUTO_CLOSE int fd = -1;
	cpu_set_t set;
	char text[32];

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return err_sys(e, "sched_getaffinity");
	if (n > (unsigned)CPU_COUNT(&set))
		n = (unsigned)CPU_COUNT(&set);
	if (mkdirat(sys_fd, "devices", 0755) < 0 ||
	    mkdirat(sys_fd, "devices/system", 0755) < 0 ||
	    mkdirat(sys_fd, "devices/system/cpu", 0755) < 0)
		return err_sys(e, "make directories of /sys");
	fd = openat(sys_fd, "devices/system/cpu", O_PATH | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open directory of /sys");
	if (n > 1)
		snprintf(text, sizeof(text), "0-%u\n", n - 1);
	else
		snprintf(text, sizeof(text), "0\n");
	if (put_file(fd, "online", text, e) < 0)
		return -e->code;
	return put_file(fd, "possible", text, e);
}

int step_sys(struct launch_ctx *l, struct err *e)
{
	AUTO_CLOSE int fd = -1;

	if (mount_here("tmpfs", "sys", "/vsys", VIEW_MS,
		       "mode=0755,size=64k,nr_inodes=64", e) < 0)
		return -e->code;
	fd = open_place("/vsys", e);
	if (fd < 0)
		return fd;
	if (mkdirat(fd, "fs", 0755) < 0 || mkdirat(fd, "fs/cgroup", 0755) < 0)
		return err_sys(e, "make /sys/fs/cgroup");
	return put_cpu_online(fd, l->spec->cpus_milli, e);
}

/* On v2 the limits can be shown only from inside the cgroup namespace. */
static int finish_sys(const struct launch_ctx *l, struct err *e)
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	AUTO_CLOSE int sys_fd = open_place("/vsys", e), fd = -1;

	if (sys_fd < 0)
		return sys_fd;
	fd = openat(sys_fd, "fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open /sys/fs/cgroup");
	if (cgroup_view(l->host->cg, l->slot, fd, e) < 0)
		return err_wrap(e, "view of the limits");
	if (mount_setattr(sys_fd, "", AT_EMPTY_PATH, &ro, sizeof(ro)) < 0)
		return err_sys(e, "make /sys read-only");
	return 0;
}

int step_views(struct launch_ctx *l, struct err *e)
{
	static const char *const views[][2] = { { "/vdev", "dev" },
						{ "/vproc", "proc" },
						{ "/vsys", "sys" } };
	size_t i;

	if (finish_sys(l, e) < 0)
		return -e->code;
	for (i = 0; i < ARRAY_LEN(views); i++) {
		AUTO_CLOSE int at_fd = mount_point(l, views[i][1], e);

		if (at_fd < 0)
			return at_fd;
		if (move_mount(AT_FDCWD, views[i][0], at_fd, "",
			       MOVE_MOUNT_T_EMPTY_PATH) < 0)
			return err_sys(e, "place /%s", views[i][1]);
	}
	return 0;
}
