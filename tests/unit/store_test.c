/*
 * The pool on real file systems: a btrfs loop file with simple quotas, a btrfs
 * of the user's with classic ones, ext4 with project quotas where the kernel
 * has them, and a directory without any. Everything in a mount namespace of
 * its own and one directory under /tmp: dies with this process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "check.h"
#include "store/loopdev.h"
#include "store/qgroup.h"
#include "store/store.h"

#define MIB (1ULL << 20)

static char base[64];
static struct err e;

/* Every call starts with a clean error, and says what was wrong. */
#define OK(call)                                            \
	({                                                  \
		err_clear(&e);                              \
		int r_ = (call);                            \
		CHECK(r_ >= 0);                             \
		if (r_ < 0)                                 \
			printf("# %s: %s\n", #call, e.msg); \
		r_;                                         \
	})
#define FAILS(call, code)                                     \
	do {                                                  \
		err_clear(&e);                                \
		int r_ = (call);                              \
		CHECK(r_ == -(code));                         \
		printf("# %d %s\n", r_, r_ < 0 ? e.msg : ""); \
	} while (0)

static const char *in_base(const char *name)
{
	static char path[4][128];
	static unsigned n;

	n = (n + 1) % 4;
	snprintf(path[n], sizeof(path[n]), "%s/%s", base, name);
	return path[n];
}

static struct conf conf_make(const char *pool, const char *driver)
{
	struct conf c = { .pool_bytes = 512 * MIB };

	snprintf(c.state_dir, sizeof(c.state_dir), "%s/state", base);
	snprintf(c.pool, sizeof(c.pool), "%s", pool);
	snprintf(c.pool_driver, sizeof(c.pool_driver), "%s", driver);
	return c;
}

static int run(const char *const *argv)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int null_fd = open("/dev/null", O_RDWR);

		dup2(null_fd, 1);
		dup2(null_fd, 2);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* A file of that size on a loop device, with a file system on it, mounted. */
static int mount_image(const char *name, uint64_t bytes,
		       const char *const *mkfs, const char *type,
		       const char *options)
{
	char dev[LOOPDEV_PATH];
	int fd, dev_fd, r;

	fd = open(in_base(name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	r = posix_fallocate(fd, 0, (off_t)bytes) ? -1 : run(mkfs);
	dev_fd = loopdev_attach(fd, dev, &e);
	if (r == 0 && dev_fd >= 0) {
		char at[128];

		snprintf(at, sizeof(at), "%s/%s.mnt", base, name);
		mkdir(at, 0700);
		r = mount(dev, at, type, 0, options);
	}
	close(dev_fd);
	close(fd);
	return r;
}

static void drop_sys_resource(void)
{
	struct __user_cap_header_struct h = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct d[2];

	syscall(SYS_capget, &h, d);
	d[0].effective &= ~(1U << CAP_SYS_RESOURCE);
	syscall(SYS_capset, &h, d);
}

/* Writes so many MiB and returns 0, or the errno that stopped it. */
static int fill(const char *path, unsigned mib)
{
	static char block[1 << 20];
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	unsigned i;
	int r = fd < 0 ? errno : 0;

	memset(block, 'x', sizeof(block));
	for (i = 0; i < mib && r == 0; i++)
		if (write(fd, block, sizeof(block)) < 0)
			r = errno;
	if (r == 0 && fsync(fd) < 0)
		r = errno;
	close(fd);
	return r;
}

/* In a child without CAP_SYS_RESOURCE, as sandboxes are: ext4 lets it pass. */
static int fill_as_sandbox(const char *path, unsigned mib)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		drop_sys_resource();
		_exit(fill(path, mib));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void overlay_mount(int lower_fd, int vol_fd, const char *at)
{
	char opt[256];

	snprintf(opt, sizeof(opt),
		 "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d/upper,"
		 "workdir=/proc/self/fd/%d/work,index=off,metacopy=off,"
		 "redirect_dir=on",
		 lower_fd, vol_fd, vol_fd);
	mkdir(at, 0755);
	CHECK(mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, opt) == 0);
}

static void new_id(char id[ID_CAP])
{
	CHECK(id_make(id) == 0);
}

/* Until nothing waits for the kernel; its commits are hurried along. */
static void sweep_all(struct store *s)
{
	int tries, r = 1;

	for (tries = 0; tries < 1000 && r == 1; tries++) {
		err_clear(&e);
		r = store_sweep(s, &e);
		if (r == 1) {
			if (ioctl(s->root_fd, BTRFS_IOC_SYNC) < 0)
				syncfs(s->root_fd);
			usleep(20 * 1000);
		}
	}
	CHECK(r == 0);
	if (r != 0)
		printf("# sweep %d %s\n", r, e.msg);
}

static int entries(struct store *s, const char *part)
{
	int fd = openat(s->root_fd, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_DIR DIR *d = fdopendir(fd);
	int n = -2;

	while (readdir(d))
		n++;
	return n;
}

/* The limit, two volumes, usage, the trash: the same for every driver. */
static void check_limits(struct store *s, const char *image)
{
	char a[ID_CAP], b[ID_CAP], next[ID_CAP];
	AUTO_CLOSE int a_fd = -1, b_fd = -1, image_fd = -1;
	uint64_t used = 0;
	struct stat st;

	new_id(a);
	new_id(b);
	image_fd = OK(store_image_open(s, image, &e));
	a_fd = OK(store_volume_new(s, a, 40 * MIB, false, &e));
	b_fd = OK(store_volume_new(s, b, 40 * MIB, false, &e));
	FAILS(store_volume_new(s, a, 40 * MIB, false, &e), EEXIST);
	FAILS(store_volume_new(s, "izzz", 0, false, &e), EINVAL);
	CHECK(fstatat(a_fd, "upper", &st, 0) == 0 &&
	      (st.st_mode & 07777) == 0755 && st.st_uid == 0);
	CHECK(fstatat(a_fd, "work", &st, 0) == 0 &&
	      (st.st_mode & 07777) == 0700);

	overlay_mount(image_fd, a_fd, in_base("ov_a"));
	overlay_mount(image_fd, b_fd, in_base("ov_b"));
	CHECK(fill_as_sandbox(in_base("ov_a/big"), 60) == EDQUOT);
	CHECK(fill_as_sandbox(in_base("ov_b/big"), 20) == 0);
	syncfs(s->root_fd);
	OK(store_volume_usage(s, a, &used, &e));
	CHECK(used > 30 * MIB && used <= 41 * MIB);
	OK(store_volume_usage(s, b, &used, &e));
	CHECK(used > 19 * MIB && used < 22 * MIB);
	/* A removed file gives its space back; a raised limit gives more. */
	CHECK(unlink(in_base("ov_a/big")) == 0);
	syncfs(s->root_fd);
	CHECK(fill_as_sandbox(in_base("ov_a/again"), 30) == 0);
	OK(store_volume_limit(s, a, 80 * MIB, &e));
	CHECK(fill_as_sandbox(in_base("ov_a/more"), 30) == 0);
	OK(store_volume_limit(s, b, 25 * MIB, &e));
	CHECK(fill_as_sandbox(in_base("ov_b/more"), 20) == EDQUOT);
	umount(in_base("ov_a"));
	umount(in_base("ov_b"));

	next[0] = '\0'; /* in place, too */
	CHECK(store_volume_next(s, next, next) == 0);
	CHECK_STR(next, strcmp(a, b) < 0 ? a : b);
	CHECK(store_volume_next(s, next, next) == 0);
	CHECK_STR(next, strcmp(a, b) < 0 ? b : a);
	CHECK(store_volume_next(s, next, next) == -ENOENT);
	auto_close(&a_fd);
	auto_close(&b_fd);
	OK(store_volume_discard(s, a, &e));
	OK(store_volume_discard(s, b, &e));
	FAILS(store_volume_discard(s, b, &e), ENOENT);
	FAILS(store_volume_open(s, b, &e), ENOENT);
	CHECK(entries(s, "trash") >= 2);
	sweep_all(s);
	CHECK(entries(s, "trash") == 0 && entries(s, "box") == 0);
}

/* An image with a static program in it. */
static void check_image(struct store *s, char id[ID_CAP], bool sealed)
{
	char staged[ID_CAP], got[ID_CAP];
	char path[256];
	int fd;

	new_id(staged);
	new_id(id);
	close(OK(store_image_stage(s, staged, &e)));
	fd = OK(store_image_stage(s, id, &e));
	CHECK(mkdirat(fd, "bin", 0755) == 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d/bin/busybox", getpid(),
		 fd);
	CHECK(run((const char *const[]){ "/bin/cp", "/bin/busybox", path,
					 NULL }) == 0);
	close(fd);
	FAILS(store_image_open(s, id, &e), ENOENT);
	OK(store_image_commit(s, id, &e));
	FAILS(store_image_commit(s, id, &e), ENOENT);
	fd = OK(store_image_open(s, id, &e));
	if (sealed)
		CHECK(mkdirat(fd, "x", 0755) < 0 && errno == EROFS);
	close(fd);
	CHECK(store_image_next(s, "", got) == 0);
	CHECK_STR(got, id);
	CHECK(store_image_next(s, got, got) == -ENOENT);
	CHECK(entries(s, "stage") == 1);
	OK(store_stage_clear(s, &e));
	CHECK(entries(s, "stage") == 0);
	FAILS(store_image_discard(s, staged, &e), ENOENT);
}

/* There when it is whole, whatever happens meanwhile. */
static void check_base(struct store *s, const char *image)
{
	uint64_t room = 0;
	char text[8] = "";
	int fd;

	FAILS(store_base_open(s, image, &e), ENOENT);
	FAILS(store_base_commit(s, image, &e), ENOENT);
	fd = OK(store_base_new(s, image, &room, &e));
	CHECK(room > 0 && write(fd, "cut", 3) == 3);
	close(fd);
	FAILS(store_base_open(s, image, &e), ENOENT);
	OK(store_base_clear(s, &e));
	FAILS(store_base_commit(s, image, &e), ENOENT);
	fd = OK(store_base_new(s, image, &room, &e));
	CHECK(write(fd, "whole", 5) == 5);
	close(fd);
	OK(store_base_commit(s, image, &e));
	OK(store_base_clear(s, &e));
	store_base_drop(s, image);
	fd = OK(store_base_open(s, image, &e));
	CHECK(read(fd, text, sizeof(text)) == 5);
	CHECK_STR(text, "whole");
	close(fd);
	FAILS(store_base_new(s, "iaaaaaaaaaaaaaaaaaaaaaaaaaa", &room, &e),
	      ENOENT);
}

/* The pool is noexec, what runs on top of an overlay is not hindered. */
static void check_exec(struct store *s, const char *image)
{
	AUTO_CLOSE int image_fd = OK(store_image_open(s, image, &e));
	AUTO_CLOSE int fd = -1;
	char id[ID_CAP], direct[64];

	new_id(id);
	fd = OK(store_volume_new(s, id, 40 * MIB, false, &e));
	overlay_mount(image_fd, fd, in_base("ov"));
	CHECK(run((const char *const[]){ in_base("ov/bin/busybox"), "true",
					 NULL }) == 0);
	snprintf(direct, sizeof(direct), "/proc/%d/fd/%d/bin/busybox", getpid(),
		 image_fd);
	CHECK(WEXITSTATUS(run((const char *const[]){ direct, "true", NULL })) ==
	      127);
	umount(in_base("ov"));
	OK(store_volume_discard(s, id, &e));
}

static int family_snapshot(int from_fd, int dir_fd, uint64_t family)
{
	union {
		struct btrfs_qgroup_inherit head;
		char room[sizeof(struct btrfs_qgroup_inherit) + 8];
	} inherit = { .head.num_qgroups = 1 };
	struct btrfs_ioctl_vol_args_v2 args = {
		.fd = from_fd,
		.flags = BTRFS_SUBVOL_QGROUP_INHERIT,
		.size = sizeof(inherit),
		.qgroup_inherit = &inherit.head,
		.name = "snap",
	};

	inherit.head.qgroups[0] = 1ULL << 48 | family;
	return ioctl(dir_fd, BTRFS_IOC_SNAP_CREATE_V2, &args);
}

/* 30 MiB, kept by a snapshot and removed: they still count. */
static void check_family(struct store *s)
{
	AUTO_CLOSE int fd = -1, dir_fd = -1;
	char id[ID_CAP], path[64], file[128];
	uint64_t family = 0;

	new_id(id);
	close(OK(store_volume_new(s, id, 50 * MIB, false, &e)));
	snprintf(path, sizeof(path), "box/%s", id);
	dir_fd = openat(s->root_fd, path, O_RDONLY | O_DIRECTORY);
	fd = openat(dir_fd, "tree", O_RDONLY | O_DIRECTORY);
	CHECK(qgroup_family_of(fd, &family) == 0 && family >= FAMILY_FIRST);
	snprintf(file, sizeof(file), "/proc/%d/fd/%d/upper/f", getpid(), fd);
	CHECK(fill_as_sandbox(file, 30) == 0);
	CHECK(family_snapshot(fd, dir_fd, family) == 0);
	/* Before Linux 6.8 classic quotas count anew after that. */
	syncfs(s->root_fd);
	if (qgroup_repair(s->root_fd) == 1)
		CHECK(ioctl(s->root_fd, BTRFS_IOC_QUOTA_RESCAN_WAIT) == 0);
	CHECK(unlinkat(fd, "upper/f", 0) == 0);
	syncfs(s->root_fd);
	CHECK(fill_as_sandbox(file, 30) == EDQUOT);
	auto_close(&fd);
	auto_close(&dir_fd);
	OK(store_volume_discard(s, id, &e));
	sweep_all(s);
	CHECK(qgroup_family_usage(s->root_fd, family, &family) == -ENOENT);
}

static void make_tree(int fd, unsigned dirs, unsigned files)
{
	char name[64];
	unsigned i, k;

	for (i = 0; i < dirs; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		mkdirat(fd, name, 0755);
		for (k = 0; k < files; k++) {
			snprintf(name, sizeof(name), "d%u/f%u", i, k);
			close(openat(fd, name, O_WRONLY | O_CREAT, 0644));
		}
	}
}

/* Deeper than PATH_MAX and than any limit of descriptors. */
static void make_deep(int fd, unsigned depth)
{
	unsigned i;

	fd = dup(fd);
	for (i = 0; i < depth; i++) {
		int next;

		mkdirat(fd, "deep", 0755);
		close(openat(fd, "f", O_WRONLY | O_CREAT, 0644));
		next = openat(fd, "deep", O_RDONLY | O_DIRECTORY);
		close(fd);
		fd = next;
	}
	close(fd);
}

static int make_subvolume(int fd, const char *name)
{
	struct btrfs_ioctl_vol_args args = { 0 };

	snprintf(args.name, sizeof(args.name), "%s", name);
	CHECK(ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &args) == 0);
	return openat(fd, name, O_RDONLY | O_DIRECTORY);
}

static void seal_subvolume(int fd)
{
	uint64_t flags = BTRFS_SUBVOL_RDONLY;

	CHECK(ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) == 0);
}

/* Subvolumes in a volume: side by side, below directories, in each other, and
 * read-only. */
static void check_nested_subvolumes(struct store *s)
{
	enum { CHAIN = 20 };
	int chain[CHAIN + 1], tree, dir, i;
	char id[ID_CAP], name[16];

	new_id(id);
	tree = OK(store_volume_new(s, id, 10 * MIB, false, &e));
	mkdirat(tree, "a", 0755);
	mkdirat(tree, "a/b", 0755);
	dir = openat(tree, "a/b", O_RDONLY | O_DIRECTORY);
	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "sub%d", i);
		close(make_subvolume(dir, name));
	}
	close(dir);
	chain[0] = openat(tree, ".", O_RDONLY | O_DIRECTORY);
	for (i = 0; i < CHAIN; i++) {
		chain[i + 1] = make_subvolume(chain[i], "below");
		make_deep(chain[i + 1], 3);
		mkdirat(chain[i + 1], "full", 0755);
		dir = openat(chain[i + 1], "full", O_RDONLY | O_DIRECTORY);
		close(make_subvolume(dir, "also"));
		close(dir);
	}
	for (i = 0; i <= CHAIN; i++) {
		seal_subvolume(chain[i]);
		close(chain[i]);
	}
	close(tree);
	OK(store_volume_discard(s, id, &e));
	sweep_all(s);
	CHECK(entries(s, "trash") == 0);
}

/* What a sandbox may leave; a link and a mount must not lead out. */
static void check_sweep(struct store *s)
{
	const char *outside = in_base("outside");
	char id[ID_CAP], at[160];
	int fd, i, killed = 0, status;
	pid_t pid;

	mkdir(outside, 0755);
	close(open(in_base("outside/keep"), O_WRONLY | O_CREAT, 0644));
	mkdirat(s->root_fd, "trash/plain", 0755);
	fd = openat(s->root_fd, "trash/plain", O_RDONLY | O_DIRECTORY);
	CHECK(symlinkat(outside, fd, "link") == 0);
	make_deep(fd, 2000);
	make_tree(fd, 100, 20);
	close(fd);
	CHECK(symlinkat(outside, s->root_fd, "trash/link") == 0);
	for (i = 0; i < 20; i++) {
		new_id(id);
		fd = OK(store_volume_new(s, id, 10 * MIB, !s->disk_limit, &e));
		make_tree(fd, 5, 5);
		close(fd);
		OK(store_volume_discard(s, id, &e));
	}
	for (i = 0; i < 20; i++) {
		pid = fork();
		if (pid == 0)
			_exit(store_sweep(s, &e) < 0);
		usleep(500 + (unsigned)i * 200);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		killed += WIFSIGNALED(status);
	}
	printf("# %d of 20 sweeps killed\n", killed);
	CHECK(killed > 0);
	sweep_all(s);
	CHECK(entries(s, "trash") == 0);
	CHECK(access(in_base("outside/keep"), F_OK) == 0);

	/* A mount in the way: refused, the rest goes on. */
	mkdirat(s->root_fd, "trash/m", 0755);
	mkdirat(s->root_fd, "trash/m/mnt", 0755);
	mkdirat(s->root_fd, "trash/m/other", 0755);
	snprintf(at, sizeof(at), "/proc/self/fd/%d/trash/m/mnt", s->root_fd);
	CHECK(mount(outside, at, NULL, MS_BIND, NULL) == 0);
	FAILS(store_sweep(s, &e), EBUSY);
	CHECK(access(in_base("outside/keep"), F_OK) == 0);
	CHECK(faccessat(s->root_fd, "trash/m/other", F_OK, 0) < 0);
	CHECK(umount(at) == 0);
	sweep_all(s);
	CHECK(entries(s, "trash") == 0);
}

/* Sweeps while volumes come and go: who lives keeps volume and limit. */
static void check_race(struct store *s)
{
	enum { N = 120, KEEP = 20 };
	static char id[N][ID_CAP];
	uint64_t used;
	pid_t pid = -1;
	int i, bad = 0;

	for (i = 0; i < N; i++) {
		if (i % 10 == 0) {
			if (pid > 0)
				bad += waitpid(pid, NULL, 0) != pid;
			pid = fork();
			if (pid == 0) {
				while (store_sweep(s, &e) >= 0)
					;
				_exit(1);
			}
		}
		err_clear(&e);
		bad += id_make(id[i]) < 0;
		close(store_volume_new(s, id[i], 10 * MIB, false, &e));
		bad += e.code != 0;
		if (i >= KEEP)
			bad += store_volume_discard(s, id[i - KEEP], &e) < 0;
		if (i % 10 == 9)
			kill(pid, SIGKILL);
	}
	waitpid(pid, NULL, 0);
	CHECK(bad == 0);
	sweep_all(s);
	for (i = N - KEEP; i < N; i++) {
		bad += store_volume_limit(s, id[i], 20 * MIB, &e) < 0;
		bad += store_volume_usage(s, id[i], &used, &e) < 0;
		bad += store_volume_discard(s, id[i], &e) < 0;
	}
	CHECK(bad == 0);
	sweep_all(s);
	CHECK(entries(s, "trash") == 0 && entries(s, "box") == 0);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void check_speed(struct store *s)
{
	enum { N = 200 };
	static char id[N][ID_CAP];
	uint64_t make[N], drop[N], t;
	int i, fd;

	err_clear(&e);
	for (i = 0; i < N; i++)
		new_id(id[i]);
	for (i = 0; i < N; i++) {
		t = clock_boot_us();
		fd = store_volume_new(s, id[i], 64 * MIB, false, &e);
		make[i] = clock_boot_us() - t;
		close(fd);
	}
	for (i = 0; i < N; i++) {
		t = clock_boot_us();
		if (store_volume_discard(s, id[i], &e) < 0)
			CHECK(!"discard");
		drop[i] = clock_boot_us() - t;
		err_clear(&e);
	}
	qsort(make, N, sizeof(make[0]), by_number);
	qsort(drop, N, sizeof(drop[0]), by_number);
	printf("# volume_new us: p50 %llu p95 %llu; discard: p50 %llu p95 "
	       "%llu\n",
	       (unsigned long long)make[N / 2],
	       (unsigned long long)make[N * 95 / 100],
	       (unsigned long long)drop[N / 2],
	       (unsigned long long)drop[N * 95 / 100]);
	t = clock_boot_us();
	sweep_all(s);
	printf("# sweep of %d volumes: %llu ms\n", N,
	       (unsigned long long)(clock_boot_us() - t) / 1000);
	CHECK(entries(s, "trash") == 0);
}

/* Fill it up: creates are refused, what is there goes on; then free again. */
static void check_full(struct store *s)
{
	struct store_status st;
	char id[ID_CAP], other[ID_CAP], file[128];
	int fd;

	new_id(id);
	new_id(other);
	fd = OK(store_volume_new(s, id, 4096 * MIB, false, &e));
	snprintf(file, sizeof(file), "/proc/%d/fd/%d/upper/f", getpid(), fd);
	OK(store_status(s, &st, &e));
	CHECK(fill_as_sandbox(file, (unsigned)((st.free_bytes - st.bytes / 14) /
					       MIB)) == 0);
	close(fd);
	FAILS(store_volume_new(s, other, MIB, false, &e), ENOSPC);
	FAILS(store_image_stage(s, other, &e), ENOSPC);
	CHECK(entries(s, "box") == 1 && entries(s, "stage") == 0);
	OK(store_volume_discard(s, id, &e));
	sweep_all(s);
	close(OK(store_volume_new(s, other, MIB, false, &e)));
	OK(store_volume_discard(s, other, &e));
	sweep_all(s);
}

/* A staged image cannot take what is kept free. */
static void check_stage_limit(struct store *s)
{
	struct store_status st;
	char id[ID_CAP], file[128];
	int fd;

	new_id(id);
	fd = OK(store_image_stage(s, id, &e));
	snprintf(file, sizeof(file), "/proc/%d/fd/%d/f", getpid(), fd);
	CHECK(fill_as_sandbox(file, 4096) == EDQUOT);
	close(fd);
	OK(store_status(s, &st, &e));
	CHECK(st.free_bytes > st.bytes / 20);
	OK(store_image_discard(s, id, &e));
	sweep_all(s);
}

static int loops_on(const struct conf *c)
{
	char path[128], dev[LOOPDEV_PATH];
	int fd, r;

	snprintf(path, sizeof(path), "%s/pool.img", c->state_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	r = loopdev_find(fd, dev);
	close(fd);
	return r == 0;
}

static void check_mount(struct store *s, const struct conf *c)
{
	struct statvfs fs;
	struct stat st;

	CHECK(fstatvfs(s->root_fd, &fs) == 0);
	CHECK((fs.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC)) ==
	      (ST_NOSUID | ST_NODEV | ST_NOEXEC));
	CHECK(statvfs(in_base("state/pool.d/mnt"), &fs) == 0 &&
	      (fs.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC)) ==
		      (ST_NOSUID | ST_NODEV | ST_NOEXEC));
	CHECK(stat(in_base("state/pool.d"), &st) == 0 &&
	      (st.st_mode & 07777) == 0700);
	CHECK(stat(in_base("state/pool.img"), &st) == 0 &&
	      (st.st_mode & 07777) == 0600 &&
	      (uint64_t)st.st_size == c->pool_bytes &&
	      (uint64_t)st.st_blocks * 512 >= c->pool_bytes);
}

static void check_refusals(void)
{
	struct conf c = conf_make("auto", "btrfs");
	struct store s;

	FAILS(store_open(&s, &c, &e), ENOENT);
	mkdir(c.state_dir, 0755);
	c.pool_bytes = MIB;
	FAILS(store_open(&s, &c, &e), EINVAL);
	CHECK(strstr(e.msg, "pool_size") != NULL);
	c.pool_bytes = 1ULL << 50;
	FAILS(store_open(&s, &c, &e), ENOSPC);
	CHECK(strstr(e.msg, "set pool_size") != NULL);
	chmod(in_base("state/pool.d"), 0755);
	FAILS(store_open(&s, &c, &e), EPERM);
	chmod(in_base("state/pool.d"), 0700);
	CHECK(symlink("/etc/passwd", in_base("state/pool.img")) == 0);
	FAILS(store_open(&s, &c, &e), ELOOP);
	unlink(in_base("state/pool.img"));
	c = conf_make("relative", "auto");
	FAILS(store_open(&s, &c, &e), EINVAL);
	c = conf_make("auto", "zfs");
	FAILS(store_open(&s, &c, &e), EINVAL);
	mkdir(in_base("tmpfs"), 0700);
	CHECK(mount("t", in_base("tmpfs"), "tmpfs", 0, "mode=0700") == 0);
	c = conf_make(in_base("tmpfs"), "btrfs");
	FAILS(store_open(&s, &c, &e), EINVAL);
	umount(in_base("tmpfs"));
}

/* What a sandbox may have: links, holes, whiteouts, attributes, depth. */
static void make_odd(int fd)
{
	AUTO_CLOSE int file = openat(fd, "f", O_RDWR | O_CREAT, 04751);

	CHECK(file >= 0 && pwrite(file, "end", 3, 40 * MIB) == 3);
	CHECK(fchown(file, 1000, 1001) == 0 && fchmod(file, 04751) == 0);
	CHECK(fsetxattr(file, "user.x", "y", 1, 0) == 0);
	CHECK(linkat(fd, "f", fd, "g", 0) == 0);
	CHECK(symlinkat("/etc/passwd", fd, "link") == 0);
	CHECK(mknodat(fd, "gone", S_IFCHR, 0) == 0);
	CHECK(mknodat(fd, "fifo", S_IFIFO | 0640, 0) == 0);
	CHECK(mkdirat(fd, "d", 0700) == 0 && fchownat(fd, "d", 7, 8, 0) == 0);
	CHECK(linkat(fd, "f", fd, "d/h", 0) == 0);
	make_deep(fd, 300);
}

static void check_odd(int fd)
{
	AUTO_CLOSE int file = openat(fd, "f", O_RDONLY);
	struct stat st, other;
	char text[16] = "";
	int depth = 0, at = dup(fd), next;

	CHECK(file >= 0 && pread(file, text, 8, 40 * MIB) == 3);
	CHECK_STR(text, "end");
	CHECK(fstat(file, &st) == 0 && st.st_uid == 1000 && st.st_gid == 1001);
	CHECK((st.st_mode & 07777) == 04751 && st.st_nlink == 3);
	CHECK(st.st_blocks * 512 < (blkcnt_t)MIB);
	CHECK(fgetxattr(file, "user.x", text, sizeof(text)) == 1);
	CHECK(fstatat(fd, "d/h", &other, 0) == 0 && other.st_ino == st.st_ino);
	CHECK(readlinkat(fd, "link", text, 11) == 11);
	CHECK(fstatat(fd, "gone", &st, 0) == 0 && S_ISCHR(st.st_mode) &&
	      st.st_rdev == 0);
	CHECK(fstatat(fd, "fifo", &st, 0) == 0 && S_ISFIFO(st.st_mode));
	CHECK(fstatat(fd, "d", &st, 0) == 0 && st.st_uid == 7 &&
	      (st.st_mode & 07777) == 0700);
	while ((next = openat(at, "deep", O_RDONLY | O_DIRECTORY)) >= 0) {
		close(at);
		at = next;
		depth++;
	}
	close(at);
	CHECK(depth == 300);
}

static int from(struct store *s, const char *id, const char *snap,
		uint64_t bytes)
{
	uint64_t family = store_reserve(s, 1);
	const struct disk_spec d = { id, bytes, !s->disk_limit };
	int r = store_volume_from(s, &d, snap, family, &e);

	store_release(s);
	return r;
}

/* A copy, a copy of that, and everything goes in some order. */
static void check_snapshots(struct store *s)
{
	char a[ID_CAP], b[ID_CAP], one[ID_CAP], two[ID_CAP], next[ID_CAP];
	int fd, upper;

	new_id(a);
	new_id(b);
	new_id(one);
	new_id(two);
	fd = OK(store_volume_new(s, a, 100 * MIB, !s->disk_limit, &e));
	close(fd);
	fd = OK(store_volume_read(s, a, &e));
	upper = openat(fd, "upper", O_RDONLY | O_DIRECTORY);
	make_odd(upper);
	mkdirat(fd, "work/incompat", 0);
	mkdirat(fd, "work/incompat/volatile", 0);
	OK(store_snapshot_new(s, one, a, fd, &e));
	FAILS(store_snapshot_new(s, one, a, fd, &e), EEXIST);
	CHECK(unlinkat(upper, "f", 0) == 0);
	close(upper);
	close(fd);
	CHECK(store_snapshot_next(s, "", next) == 0);
	CHECK_STR(next, one);
	CHECK(store_snapshot_next(s, next, next) == -ENOENT);
	OK(store_volume_discard(s, a, &e));
	OK(from(s, b, one, 100 * MIB));
	FAILS(from(s, b, one, 100 * MIB), EEXIST);
	FAILS(from(s, a, two, 100 * MIB), ENOENT);
	fd = OK(store_volume_read(s, b, &e));
	upper = openat(fd, "upper", O_RDONLY | O_DIRECTORY);
	check_odd(upper);
	CHECK(faccessat(fd, "work", F_OK, 0) == 0 &&
	      faccessat(fd, "work/incompat", F_OK, 0) < 0);
	CHECK(unlinkat(upper, "f", 0) == 0);
	OK(store_snapshot_new(s, two, b, fd, &e));
	close(upper);
	close(fd);
	fd = OK(store_snapshot_open(s, one, &e));
	upper = openat(fd, "upper", O_RDONLY | O_DIRECTORY);
	check_odd(upper);
	if (s->usage_fd >= 0)
		CHECK(mkdirat(upper, "x", 0755) < 0 && errno == EROFS);
	close(upper);
	close(fd);
	/* One that was cut short is none, and goes. */
	CHECK(mkdirat(s->root_fd, "snap", 0700) < 0);
	new_id(next);
	fd = openat(s->root_fd, "snap", O_RDONLY | O_DIRECTORY);
	CHECK(mkdirat(fd, next, 0700) == 0);
	close(fd);
	CHECK(entries(s, "snap") == 3);
	OK(store_snapshot_clear(s, &e));
	CHECK(entries(s, "snap") == 2);
	OK(store_snapshot_discard(s, one, &e));
	OK(store_volume_discard(s, b, &e));
	OK(store_snapshot_discard(s, two, &e));
	FAILS(store_snapshot_discard(s, two, &e), ENOENT);
	sweep_all(s);
	CHECK(entries(s, "trash") == 0 && entries(s, "snap") == 0);
}

/* As the sandbox, since we may write beyond limits. */
static int fill_volume(struct store *s, const char *id, const char *name,
		       unsigned mib)
{
	int fd = OK(store_volume_read(s, id, &e)), r;
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d/upper/%s", getpid(), fd,
		 name);
	r = fill_as_sandbox(path, mib);
	close(fd);
	syncfs(s->root_fd);
	return r;
}

static void wait_counted(struct store *s)
{
	syncfs(s->root_fd);
	if (s->usage_fd >= 0 && !s->simple_quota &&
	    qgroup_repair(s->root_fd) == 1)
		CHECK(ioctl(s->root_fd, BTRFS_IOC_QUOTA_RESCAN_WAIT) == 0);
}

/*
 * The limit of a sandbox holds for what its snapshots keep, also when it is
 * rolled back; and afterwards nothing is left of it.
 */
static void check_snapshot_limit(struct store *s)
{
	char a[ID_CAP], snap[2][ID_CAP];
	struct store_status before, after;
	int fd, i;

	new_id(a);
	sweep_all(s);
	OK(store_status(s, &before, &e));
	close(OK(store_volume_new(s, a, 50 * MIB, false, &e)));
	CHECK(fill_volume(s, a, "f", 20) == 0);
	for (i = 0; i < 2; i++) {
		new_id(snap[i]);
		fd = OK(store_volume_read(s, a, &e));
		OK(store_snapshot_new(s, snap[i], a, fd, &e));
		wait_counted(s);
		close(fd);
		OK(store_volume_discard(s, a, &e));
		OK(from(s, a, snap[0], 50 * MIB));
		wait_counted(s);
		CHECK(fill_volume(s, a, "g", i == 0 ? 20 : 40) ==
		      (i == 0 ? 0 : EDQUOT));
	}
	OK(store_snapshot_discard(s, snap[0], &e));
	OK(store_volume_discard(s, a, &e));
	OK(store_snapshot_discard(s, snap[1], &e));
	sweep_all(s);
	OK(store_status(s, &after, &e));
	CHECK(after.free_bytes + 4 * MIB > before.free_bytes);
	if (s->usage_fd >= 0) {
		uint64_t next = 0;

		CHECK(qgroup_next_family(s->root_fd, &next) == 0);
		CHECK(next < s->next_family);
	}
}

/* The default: our own file, simple quotas where the kernel has them. */
static void check_identity(struct store *s)
{
	char id[STORE_ID_CAP], snap[ID_CAP], of[ID_CAP], box[ID_CAP];
	char about[STORE_ABOUT_CAP];
	uint64_t generation;
	int fd;

	OK(store_identity_read(s, id, &generation, &e));
	CHECK_STR(id, "");
	CHECK(!store_has_contents(s));
	OK(store_identity_write(s, "00112233445566778899aabbccddeeff", 7, true,
				&e));
	OK(store_identity_write(s, "00112233445566778899aabbccddeeff", 8, false,
				&e));
	OK(store_identity_read(s, id, &generation, &e));
	CHECK_STR(id, "00112233445566778899aabbccddeeff");
	CHECK(generation == 8);
	new_id(box);
	new_id(snap);
	fd = OK(store_volume_new(s, box, 100 * MIB, !s->disk_limit, &e));
	close(fd);
	OK(store_volume_mark(s, box, &e));
	OK(store_volume_describe(s, box, "some words", &e));
	fd = OK(store_volume_read(s, box, &e));
	OK(store_snapshot_new(s, snap, box, fd, &e));
	close(fd);
	CHECK(store_snapshot_about(s, snap, of, about) == -ENOENT);
	OK(store_volume_keep(s, box, &e));
	CHECK(store_snapshot_about(s, box, of, about) == 0);
	CHECK_STR(of, box);
	CHECK_STR(about, "some words");
	CHECK(store_has_contents(s));
	OK(store_snapshot_discard(s, snap, &e));
	OK(store_snapshot_discard(s, box, &e));
	CHECK(!store_has_contents(s));
}

static void test_file(void)
{
	struct conf c = conf_make("auto", "auto");
	struct store s, again;
	char image[ID_CAP], id[ID_CAP];

	OK(store_open(&s, &c, &e));
	check_mount(&s, &c);
	check_identity(&s);
	printf("# simple quotas: %d\n", s.simple_quota);
	CHECK(s.disk_limit);
	check_image(&s, image, true);
	check_base(&s, image);
	check_limits(&s, image);
	check_exec(&s, image);
	check_family(&s);
	check_snapshots(&s);
	check_snapshot_limit(&s);
	check_sweep(&s);
	check_nested_subvolumes(&s);
	check_stage_limit(&s);
	check_full(&s);
	check_race(&s);
	check_speed(&s);

	/* A second start, with and without the mount of the first. */
	new_id(id);
	close(OK(store_volume_new(&s, id, 10 * MIB, false, &e)));
	OK(store_open(&again, &c, &e));
	CHECK(again.next_family == s.next_family);
	store_done(&again);
	FAILS(store_close(&c, &e), EBUSY);
	mkdir(in_base("held"), 0700);
	CHECK(mount(in_base("state/pool.d/mnt"), in_base("held"), NULL, MS_BIND,
		    NULL) == 0);
	store_done(&s);
	OK(store_close(&c, &e));
	CHECK(loops_on(&c));
	FAILS(store_destroy(&c, &e), EBUSY);
	OK(store_open(&again, &c, &e));
	close(OK(store_volume_open(&again, id, &e)));
	store_done(&again);
	OK(store_close(&c, &e));
	CHECK(umount(in_base("held")) == 0);
	CHECK(!loops_on(&c));
	OK(store_open(&s, &c, &e));
	close(OK(store_volume_open(&s, id, &e)));
	close(OK(store_image_open(&s, image, &e)));
	store_done(&s);
	OK(store_destroy(&c, &e));
	CHECK(access(in_base("state/pool.img"), F_OK) < 0);
	CHECK(rmdir(c.state_dir) == 0 && mkdir(c.state_dir, 0755) == 0);
}

/* An existing file system, mounted without our flags. */
static void test_directory(const char *name, const char *driver, bool limits)
{
	struct conf c = conf_make(in_base(name), "auto");
	char image[ID_CAP], id[ID_CAP];
	struct store_status st;
	struct statvfs fs;
	struct store s;
	uint64_t used;

	OK(store_open(&s, &c, &e));
	OK(store_status(&s, &st, &e));
	CHECK_STR(st.driver, driver);
	CHECK(st.disk_limit == limits && !st.simple_quota);
	CHECK(fstatvfs(s.root_fd, &fs) == 0 &&
	      (fs.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC)) ==
		      (ST_NOSUID | ST_NODEV | ST_NOEXEC));
	check_image(&s, image, strcmp(driver, "btrfs") == 0);
	check_base(&s, image);
	if (limits) {
		check_limits(&s, image);
		check_exec(&s, image);
		check_race(&s);
		check_speed(&s);
	} else {
		new_id(id);
		FAILS(store_volume_new(&s, id, MIB, false, &e), ENOTSUP);
		CHECK(entries(&s, "box") == 0);
		close(OK(store_volume_new(&s, id, MIB, true, &e)));
		FAILS(store_volume_usage(&s, id, &used, &e), ENOTSUP);
	}
	if (strcmp(driver, "btrfs") == 0) {
		check_nested_subvolumes(&s);
		check_family(&s);
		check_snapshot_limit(&s);
	}
	check_snapshots(&s);
	check_sweep(&s);
	store_done(&s);
	OK(store_open(&s, &c, &e));
	close(OK(store_image_open(&s, image, &e)));
	store_done(&s);
	OK(store_destroy(&c, &e));
	CHECK(rmdir(c.pool) == 0);
	CHECK(rmdir(c.state_dir) == 0 && mkdir(c.state_dir, 0755) == 0);
}

static void test_classic(void)
{
	const char *const mkfs[] = { "/usr/sbin/mkfs.btrfs", "-q",
				     in_base("own.img"), NULL };
	struct btrfs_ioctl_quota_ctl_args ctl = {
		.cmd = BTRFS_QUOTA_CTL_ENABLE,
	};
	int fd;

	CHECK(mount_image("own.img", 512 * MIB, mkfs, "btrfs", "") == 0);
	fd = open(in_base("own.img.mnt"), O_RDONLY | O_DIRECTORY);
	CHECK(ioctl(fd, BTRFS_IOC_QUOTA_CTL, &ctl) == 0);
	close(fd);
	mkdir(in_base("own.img.mnt/p"), 0700);
	test_directory("own.img.mnt/p", "btrfs", true);
	CHECK(umount(in_base("own.img.mnt")) == 0);
}

static void test_project_quota(void)
{
	const char *const mkfs[] = {
		"/usr/sbin/mkfs.ext4", "-q", "-O",
		"quota,project",       "-E", "quotatype=prjquota",
		in_base("ext4.img"),   NULL
	};

	if (mount_image("ext4.img", 512 * MIB, mkfs, "ext4", "prjquota") < 0) {
		printf("ok %d - project quotas # SKIP this kernel has none\n",
		       ++check_n);
		return;
	}
	test_directory("ext4.img.mnt/p", "dir", true);
	CHECK(umount(in_base("ext4.img.mnt")) == 0);
}

/* A pool keeps a tenth of its disk free, and the host's may have less. */
static void test_plain(void)
{
	const char *const mkfs[] = { "/usr/sbin/mkfs.ext4", "-q",
				     in_base("plain.img"), NULL };
	struct conf c = conf_make("auto", "dir");
	struct store s;

	CHECK(mount_image("plain.img", 512 * MIB, mkfs, "ext4", "") == 0);
	test_directory("plain.img.mnt/p", "dir", false);
	CHECK(umount(in_base("plain.img.mnt")) == 0);
	OK(store_open(&s, &c, &e));
	store_done(&s);
	/* What is there decides, not what could be. */
	c = conf_make("auto", "auto");
	OK(store_open(&s, &c, &e));
	CHECK(access(in_base("state/pool.img"), F_OK) < 0);
	store_done(&s);
	OK(store_destroy(&c, &e));
}

static void clean_up(void)
{
	umount2(in_base("state/pool.d/mnt"), MNT_DETACH);
	run((const char *const[]){ "/bin/rm", "-rf", "--one-file-system", base,
				   NULL });
}

int main(void)
{
	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(base, sizeof(base), "/var/tmp/store_test.XXXXXX");
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    !mkdtemp(base)) {
		perror("set up");
		return 1;
	}
	check_refusals();
	test_file();
	test_classic();
	test_project_quota();
	test_plain();
	clean_up();
	return CHECK_DONE();
}
