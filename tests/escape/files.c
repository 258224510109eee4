/* Group B: mounts, /proc, /sys, /dev, files. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* A file of the image that everybody reads. */
static const char base_file[] = "/etc/passwd";

/*
 * The old calls look up paths before they look at capabilities: behind the
 * filter a missing path is EPERM too, without it ENOENT or EINVAL.
 */
static void b1(void)
{
	const char *dir = scratch();

	if (mount("probe", dir, "tmpfs", 0, NULL) == 0) {
		umount2(dir, MNT_DETACH);
		breach("mount of a tmpfs worked");
	} else {
		wall(errno == EPERM, "mount: %s", errno_name(errno));
	}
	REFUSED("mount on a missing path",
		mount("x", "/nonexistent/x", "tmpfs", 0, NULL), EPERM);
	REFUSED("remount", mount(NULL, dir, NULL, MS_REMOUNT | MS_BIND, NULL),
		EPERM);
	REFUSED("move a mount",
		mount("/nonexistent/a", "/nonexistent/b", NULL, MS_MOVE, NULL),
		EPERM);
	REFUSED("umount2", umount2("/nonexistent/x", 0), EPERM);
	REFUSED("umount2 with wrong flags", umount2(dir, 0x7f000000), EPERM);
	REFUSED("pivot_root", syscall(SYS_pivot_root, "/nonexistent", dir),
		EPERM);
	REFUSED("chroot", chroot("/"), EPERM);
	REFUSED("setns", setns(-1, 0), EPERM);
}

static void b2(void)
{
	const char *dir = scratch();

	REFUSED("fsopen", syscall(SYS_fsopen, "tmpfs", 0L), EPERM, ENOSYS);
	REFUSED("fsconfig", syscall(SYS_fsconfig, -1L, 99L, 0L, 0L, 0L), EPERM,
		ENOSYS);
	REFUSED("fsmount", syscall(SYS_fsmount, -1L, 0L, 0L), EPERM, ENOSYS);
	REFUSED("fspick", syscall(SYS_fspick, AT_FDCWD, dir, 0L), EPERM,
		ENOSYS);
	/* without the flag it needs no capability: only the filter says no */
	REFUSED("open_tree", syscall(SYS_open_tree, AT_FDCWD, dir, 0L), EPERM,
		ENOSYS);
	REFUSED("open_tree clone",
		syscall(SYS_open_tree, AT_FDCWD, dir, 1L /* OPEN_TREE_CLONE */),
		EPERM, ENOSYS);
	REFUSED("move_mount", syscall(SYS_move_mount, -1L, "", -1L, "", 0L),
		EPERM, ENOSYS);
	REFUSED("mount_setattr",
		syscall(SYS_mount_setattr, -1L, dir, -1L, NULL, 0L), EPERM,
		ENOSYS);
	REFUSED("open_tree_attr", syscall(467L, AT_FDCWD, dir, -1L, NULL, 0L),
		EPERM, ENOSYS);
}

/* Opened for writing, never written. */
static void b3(void)
{
	static const char *const files[] = {
		"/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/hostname",
		"/proc/sys/kernel/sysrq",
		"/proc/sys/kernel/hotplug",
		"/proc/sys/kernel/randomize_va_space",
		"/proc/sys/kernel/ns_last_pid",
		"/proc/sys/vm/overcommit_memory",
		"/proc/sys/vm/drop_caches",
		"/proc/sys/fs/file-max",
		"/proc/sys/fs/binfmt_misc/register",
		"/proc/sys/net/core/somaxconn",
		"/proc/sys/net/ipv4/ip_forward",
		"/proc/sysrq-trigger",
		"/proc/irq/default_smp_affinity",
		"/proc/acpi/wakeup",
		"/sys/kernel/uevent_helper",
		"/sys/kernel/mm/ksm/run",
		"/sys/power/state",
	};
	struct statvfs st;

	for (size_t i = 0; i < ALL(files); i++)
		REFUSED(files[i], open(files[i], O_WRONLY | O_CLOEXEC), EACCES,
			EROFS, EPERM, ENOENT);
	/* permissions alone would do; the mount must stand as well */
	wall(statvfs("/proc/sys", &st) == 0 && (st.f_flag & ST_RDONLY),
	     "/proc/sys is not mounted read-only");
}

static void b6(void)
{
	static const char *const files[] = { "/proc/self/exe", "/proc/1/exe",
					     "/usr/bin/sudo" };
	/* sudo is a file of the sandbox: its root may change it */
	size_t n = ALL(files) - (geteuid() == 0);

	for (size_t i = 0; i < n; i++) {
		int fd = open(files[i], O_PATH | O_CLOEXEC);
		char again[64];

		REFUSED(files[i], open(files[i], O_RDWR | O_CLOEXEC), ETXTBSY,
			EROFS, EACCES, EPERM, ENOENT);
		if (fd < 0)
			continue;
		snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
		REFUSED("re-open of an O_PATH descriptor",
			open(again, O_WRONLY | O_CLOEXEC), ETXTBSY, EROFS,
			EACCES, EPERM, ENOENT);
		close(fd);
	}
}

static void b7(void)
{
	wall(start_fds[0] == '\0', "inherited: %s", start_fds);
}

/* Up and up from where we were put must end in our own root. */
static void b8(void)
{
	char path[4096];
	struct stat top, root;
	long n = syscall(SYS_getcwd, path, sizeof(path));

	wall(n > 0 && path[0] == '/', "the directory is %s",
	     n > 0 ? path : errno_name(errno));
	for (int i = 0; i < 64; i++)
		if (chdir(".."))
			break;
	wall(stat(".", &top) == 0 && stat("/", &root) == 0 &&
		     top.st_dev == root.st_dev && top.st_ino == root.st_ino,
	     "the way up ends outside of the root");
	if (param("flag") && access(param("flag"), F_OK) == 0)
		breach("%s of the host is there", param("flag"));
}

/* Roots and directories of every process that can be seen. */
static void b9(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	struct stat mine, st;

	if (!d || stat("/", &mine)) {
		gap("no /proc");
		return;
	}
	while ((e = readdir(d))) {
		char path[300];

		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/root/.", e->d_name);
		if (stat(path, &st) == 0 &&
		    (st.st_dev != mine.st_dev || st.st_ino != mine.st_ino))
			breach("%s is another root", path);
		good();
	}
	closedir(d);
	if (peer())
		return; /* pid 1 is one of ours */
	REFUSED("map_files of pid 1",
		open("/proc/1/map_files", O_RDONLY | O_CLOEXEC), EACCES, EPERM);
}

/* `hostpath` is a word that only the host knows: a directory, an id. */
static void b10(void)
{
	static const char *const files[] = { "/proc/self/mountinfo",
					     "/proc/self/mounts",
					     "/proc/self/mountstats" };
	static char text[1 << 16];
	const char *words[] = { "/var/lib", "/run/", "/pool", "/home/",
				param("hostpath") };

	for (size_t i = 0; i < ALL(files); i++) {
		if (slurp(files[i], text, sizeof(text)) < 0)
			continue;
		for (size_t k = 0; k < ALL(words); k++) {
			const char *at =
				words[k] ? strstr(text, words[k]) : NULL;

			wall(!at, "%s tells: %.40s", files[i], at ? at : "");
		}
	}
}

static void b11(void)
{
	static const char *const telling[] = {
		"/sys/class",      "/sys/block", "/sys/firmware",
		"/sys/kernel",     "/sys/bus",   "/sys/module",
		"/sys/fs/selinux", "/sys/power", "/sys/devices/virtual",
		"/sys/hypervisor", "/sys/dev",   "/sys/devices/pci0000:00",
	};
	struct statfs st;

	wall(statfs("/sys", &st) < 0 || st.f_type != 0x62656572,
	     "/sys is a sysfs");
	for (size_t i = 0; i < ALL(telling); i++)
		wall(access(telling[i], F_OK) < 0, "%s is there", telling[i]);
}

/* Empty, missing or forbidden. */
static void b12(void)
{
	static const char *const files[] = {
		"kcore",           "kallsyms",    "keys",       "key-users",
		"timer_list",      "sched_debug", "slabinfo",   "swaps",
		"diskstats",       "partitions",  "config.gz",  "cmdline",
		"modules",         "interrupts",  "softirqs",   "schedstat",
		"vmstat",          "zoneinfo",    "buddyinfo",  "locks",
		"devices",         "misc",        "crypto",     "consoles",
		"vmallocinfo",     "kmsg",        "iomem",      "ioports",
		"pagetypeinfo",    "kpageflags",  "kpagecount", "pressure/cpu",
		"pressure/memory", "pressure/io", "fs/btrfs",   "tty/drivers",
		"bus/pci/devices", "scsi/scsi",   "driver/rtc",
	};
	char path[64], byte[2];

	for (size_t i = 0; i < ALL(files); i++) {
		snprintf(path, sizeof(path), "/proc/%s", files[i]);
		wall(slurp(path, byte, sizeof(byte)) <= 0, "%s can be read",
		     path);
	}
}

static void b14(void)
{
	static const char *const known[] = {
		".",      "..",      "null",  "zero",    "full",
		"random", "urandom", "tty",   "ptmx",    "pts",
		"shm",    "fd",      "stdin", "stdout",  "stderr",
		"mqueue", "core",    "log",   "console",
	};
	DIR *d = opendir("/dev");
	struct dirent *e;
	struct statvfs st;

	while (d && (e = readdir(d))) {
		bool ok = false;

		for (size_t i = 0; i < ALL(known); i++)
			ok |= strcmp(known[i], e->d_name) == 0;
		wall(ok, "/dev/%s", e->d_name);
	}
	if (d)
		closedir(d);
	wall(d && statvfs("/dev", &st) == 0 && (st.f_flag & ST_RDONLY),
	     "/dev is not read-only");
	REFUSED("make a file in /dev",
		open("/dev/probe", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
		     0600),
		EROFS, EACCES);
	unlink("/dev/probe");
	/* a device node of our own: the first disk */
	REFUSED("mknod",
		mknodat(AT_FDCWD, "/tmp/probe-disk", S_IFBLK | 0600,
			makedev(8, 0)),
		EPERM);
	unlink("/tmp/probe-disk");
}

/* "Shocker": the root directory of a file system by its guessed handle. */
static void b15(void)
{
	struct {
		struct file_handle h;
		unsigned char bytes[8];
	} handle = { .h = { .handle_bytes = 8, .handle_type = 1 } };
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	handle.bytes[0] = 2; /* inode 2 */
	REFUSED("open_by_handle_at",
		syscall(SYS_open_by_handle_at, fd, &handle, O_RDONLY), EPERM);
	handle.h.handle_bytes = 0; /* some kernels look at this first */
	REFUSED("open_by_handle_at, empty handle",
		syscall(SYS_open_by_handle_at, fd, &handle, O_RDONLY), EPERM);
	close(fd);
}

/*
 * Overlay's own marks. A whiteout device needs no capability since 5.8: in an
 * overlay that itself refuses it, elsewhere only the filter does.
 */
static void b16(void)
{
	const char *dir = scratch(), *shm = "/dev/shm/probe-whiteout";
	char path[128], text[4096], *at;

	REFUSED("set trusted.overlay.redirect",
		setxattr(dir, "trusted.overlay.redirect", "/etc", 4, 0), EPERM,
		EOPNOTSUPP);
	snprintf(path, sizeof(path), "%s/whiteout", dir);
	REFUSED("make a whiteout",
		mknodat(AT_FDCWD, path, S_IFCHR | 0600, makedev(0, 0)), EPERM);
	REFUSED("make a whiteout in a tmpfs",
		mknodat(AT_FDCWD, shm, S_IFCHR | 0600, makedev(0, 0)), EPERM);
	unlink(shm);
	slurp("/proc/self/mountinfo", text, sizeof(text));
	at = strstr(text, " - overlay ");
	if (!at)
		return;
	at[strcspn(at, "\n")] = '\0';
	wall(!strstr(at, "userxattr"), "overlay believes user.overlay.*");
	wall(!strstr(at, "metacopy=on"), "overlay uses metacopy");
}

/*
 * Hard links into the writable tree from other mounts, also by descriptor. (A
 * link to a file of the image is a copy of it: overlay copies up first.)
 */
static void b17(void)
{
	static const char *const files[] = { "/proc/version", "/dev/null" };
	const char *dir = scratch();
	char path[128], proc[64];

	snprintf(path, sizeof(path), "%s/link", dir);
	for (size_t i = 0; i < ALL(files); i++) {
		int fd = open(files[i], O_RDONLY | O_CLOEXEC);

		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
		REFUSED(files[i], link(files[i], path), EXDEV, EPERM);
		REFUSED("link to a descriptor",
			linkat(fd, "", AT_FDCWD, path, AT_EMPTY_PATH), ENOENT,
			EPERM, EXDEV);
		REFUSED("link through /proc/self/fd",
			linkat(AT_FDCWD, proc, AT_FDCWD, path,
			       AT_SYMLINK_FOLLOW),
			EPERM, EXDEV);
		close(fd);
	}
	REFUSED("link to a magic link", link("/proc/self/exe", path), EXDEV,
		EPERM);
}

/*
 * Two sandboxes of one image: `lock=hold` in one, `lock=try` in the other
 * while the first still holds.
 */
static void b18(void)
{
	const char *how = param("lock");
	struct flock l = { .l_type = F_RDLCK };
	int fd = open(base_file, O_RDONLY | O_CLOEXEC);

	if (!how) {
		skip("needs two sandboxes: lock=hold, lock=try");
		return;
	}
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
		wall(strcmp(how, "try") != 0, "flock of %s: %s", base_file,
		     errno_name(errno));
		return;
	}
	if (fcntl(fd, F_OFD_SETLK, &l) < 0 && !(peer() && errno == EINVAL))
		gap("OFD lock: %s", errno_name(errno));
	if (strcmp(how, "hold") == 0) {
		fcntl(fd, F_SETLEASE, F_RDLCK);
		fprintf(stderr, "holding\n");
		sleep((unsigned)param_num("seconds", 5));
		observed("held locks on %s", base_file);
	}
	good();
	close(fd);
}

/* Reads with and without the page cache must agree. */
static void same_on_disk(const char *path)
{
	static char cached[4096] __attribute__((aligned(4096)));
	static char direct[4096] __attribute__((aligned(4096)));
	int a = open(path, O_RDONLY | O_CLOEXEC);
	int b = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	ssize_t n, m;

	if (a >= 0 && b >= 0) {
		n = read(a, cached, sizeof(cached));
		m = read(b, direct, sizeof(direct));
		if (m >= 0) /* not every file system can */
			wall(n == m && memcmp(cached, direct, (size_t)n) == 0,
			     "%s differs from what is on disk", path);
	}
	if (a >= 0)
		close(a);
	if (b >= 0)
		close(b);
}

/*
 * The shape of Dirty Pipe, Copy Fail and Dirty Frag, without the bug: pages of
 * a file in a pipe, and the sockets that those bugs wrote through.
 */
static void b19(void)
{
	struct iovec iov = { (void *)base_file, sizeof(base_file) };
	int ends[2], fd = open(base_file, O_RDONLY | O_CLOEXEC);
	loff_t off = 1;

	REFUSED("AF_ALG", socket(38, SOCK_SEQPACKET, 0), EAFNOSUPPORT);
	REFUSED("AF_RXRPC", socket(33, SOCK_DGRAM, 2), EAFNOSUPPORT);
	REFUSED("NETLINK_XFRM", socket(AF_NETLINK, SOCK_RAW, 6),
		EPROTONOSUPPORT);
	if (fd < 0 || pipe2(ends, O_CLOEXEC)) {
		gap("no pipe");
		return;
	}
	REFUSED("vmsplice", vmsplice(ends[1], &iov, 1, 0), EPERM);
	if (splice(fd, &off, ends[1], NULL, 1, 0) == 1 &&
	    write(ends[1], "X", 1) == 1)
		good();
	same_on_disk(base_file);
	close(fd);
}

static int forget(void *map)
{
	for (;;)
		madvise(map, 4096, MADV_DONTNEED);
	return 0;
}

/*
 * Dirty COW: writes a private read-only mapping through /proc/self/mem while
 * another process of the same memory tells the kernel to forget it.
 */
static void cow_race(char *map, long seconds)
{
	static char stack[65536] __attribute__((aligned(16)));
	time_t end = time(NULL) + seconds;
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	pid_t pid =
		clone(forget, stack + sizeof(stack), CLONE_VM | SIGCHLD, map);

	wall((mem >= 0 && pid > 0) || peer(), "no race: %s", errno_name(errno));
	while (mem >= 0 && time(NULL) < end)
		for (int i = 0; i < 1000; i++)
			if (pwrite(mem, "X", 1, (off_t)(uintptr_t)map) < 0)
				break;
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	if (mem >= 0)
		close(mem);
}

static void b20(void)
{
	int fd = open(base_file, O_RDONLY | O_CLOEXEC);
	char before = 0, after = 0, *shared, *priv;
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	if (fd < 0 || pread(fd, &before, 1, 0) != 1) {
		gap("cannot read %s", base_file);
		return;
	}
	shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	priv = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	REFUSED("write a shared read-only mapping",
		pwrite(mem, "X", 1, (off_t)(uintptr_t)shared), EIO, EACCES,
		EFAULT);
	REFUSED("make it writable",
		mprotect(shared, 4096, PROT_READ | PROT_WRITE), EACCES);
	cow_race(priv, param_num("seconds", 1));
	if (pread(fd, &after, 1, 0) != 1 || before != after)
		breach("%s was changed", base_file);
	else
		good();
	close(fd);
}

/*
 * E3: a directory and a link to `target` change places, as often as they can,
 * while the host works on what is in there.
 */
static void e3(void)
{
	const char *target = param("target");
	time_t end = time(NULL) + param_num("seconds", 3);
	long n = 0;

	if (!target) {
		skip("needs target=PATH");
		return;
	}
	(void)!mkdir("swap", 0755);
	(void)!mkdir("swap/d", 0755);
	(void)!symlink(target, "swap/l");
	while (time(NULL) < end) {
		int fd = open("swap/d/f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

		close(fd);
		for (int i = 0; i < 1000; i++)
			n += renameat2(AT_FDCWD, "swap/d", AT_FDCWD, "swap/l",
				       RENAME_EXCHANGE) == 0;
	}
	observed("%ld times", n);
}

const struct row rows_files[] = {
	{ "B1", "mount, umount, pivot_root, chroot", b1, 0, 0 },
	{ "B2", "the new mount calls", b2, 0, 0 },
	{ "B3", "switches of the machine in /proc and /sys", b3, 0, 0 },
	{ "B6", "overwriting programs that run", b6, 0, 0 },
	{ "B7", "inherited descriptors", b7, 0, 0 },
	{ "B8", "a directory outside of the root", b8, 0, 0 },
	{ "B9", "roots of other processes", b9, 0, 0 },
	{ "B10", "paths of the host in the mount table", b10, 0, 0 },
	{ "B11", "what /sys tells", b11, 0, 0 },
	{ "B12", "what /proc tells", b12, 0, 0 },
	{ "B14", "what /dev has", b14, 0, 0 },
	{ "B15", "files by handle", b15, 0, 0 },
	{ "B16", "marks of the overlay", b16, 0, 0 },
	{ "B17", "hard links", b17, 0, 0 },
	{ "B18", "locks on a shared file", b18, BY_NAME, 600 },
	{ "B19", "the image through the page cache", b19, 0, 0 },
	{ "B20", "the image through a private mapping", b20, 0, 60 },
	{ "E3", "a directory and a link change places", e3, BY_NAME, 120 },
	{ 0 },
};
