/*
 * The plain-directory driver, for hosts without btrfs: a tree is a directory.
 * Its limit is a project quota (ext4, xfs) where the file system enforces
 * them: a project id of its own, which everything made below inherits.
 * quotactl_fd(2), Linux 5.14, because the warden cannot name the device.
 * Snapshots are copies (copytree.h): they take the time and the space of one,
 * or only the time where files can share their data (xfs, btrfs).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "store/copytree.h"
#include "store/ops.h"

/* Ours among the projects that the host may have. */
#define PROJECT_FIRST 0x20000000ULL
#define PROJECT_END 0xfffffff0ULL
/* An inode for so many bytes of the limit, as mkfs.ext4 makes them. */
#define BYTES_PER_INODE 16384
#define MIN_INODES 4096

static int quota(int fd, unsigned cmd, uint64_t project, void *arg)
{
	return (int)syscall(SYS_quotactl_fd, fd, QCMD(cmd, PRJQUOTA),
			    (unsigned)project, arg);
}

static bool enforced(int fd)
{
	struct fs_quota_statv st = { .qs_version = FS_QSTATV_VERSION1 };

	return quota(fd, Q_XGETQSTATV, 0, &st) == 0 &&
	       (st.qs_flags & FS_QUOTA_PDQ_ENFD) != 0;
}

/*
 * The next of our projects at or above `from` that has a limit or usage: 0,
 * or -ENOENT at the end.
 */
static int next_project(int fd, uint64_t from, uint64_t end,
			struct if_nextdqblk *out)
{
	if (from >= end)
		return -ENOENT;
	if (quota(fd, Q_GETNEXTQUOTA, from, out) < 0)
		return errno == ESRCH ? -ENOENT : -errno;
	return out->dqb_id >= end ? -ENOENT : 0;
}

static int dir_start(struct store *s, struct err *e)
{
	struct if_nextdqblk q;
	int r;

	s->next_family = PROJECT_FIRST;
	s->disk_limit = enforced(s->root_fd);
	if (!s->disk_limit)
		return 0;
	while ((r = next_project(s->root_fd, s->next_family, PROJECT_END,
				 &q)) == 0)
		s->next_family = (uint64_t)q.dqb_id + 1;
	if (r != -ENOENT)
		return err_set(e, -r, "read the pool's project quotas: %s",
			       strerror(-r));
	return 0;
}

static int set_limit(int fd, uint64_t project, uint64_t bytes)
{
	uint64_t inodes = bytes / BYTES_PER_INODE;
	struct if_dqblk q = {
		.dqb_bhardlimit = bytes / QIF_DQBLKSIZE,
		.dqb_ihardlimit = inodes > MIN_INODES ? inodes : MIN_INODES,
		.dqb_valid = QIF_LIMITS,
	};

	if (bytes == 0)
		q.dqb_ihardlimit = 0;
	return quota(fd, Q_SETQUOTA, project, &q);
}

/* An empty directory of that project, if there are any. */
static int make_in(struct store *s, int dir_fd, const char *name,
		   uint64_t project, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	struct fsxattr x;

	if (mkdirat(dir_fd, name, 0755) < 0)
		return err_sys(e, "make a directory");
	if (!s->disk_limit)
		return 0;
	fd = openat(dir_fd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open a new directory");
	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0)
		return err_sys(e, "read a project id");
	x.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	x.fsx_projid = (uint32_t)project;
	if (ioctl(fd, FS_IOC_FSSETXATTR, &x) < 0)
		return err_sys(e, "set a project id");
	return 0;
}

static int dir_make(struct store *s, int dir_fd, const char *name,
		    uint64_t bytes, struct err *e)
{
	uint64_t project = 0;
	int r;

	if (s->disk_limit && s->next_family >= PROJECT_END)
		return err_set(e, EOVERFLOW, "no project ids left");
	if (s->disk_limit)
		project = s->next_family++;
	r = make_in(s, dir_fd, name, project, e);
	if (r == 0 && s->disk_limit &&
	    set_limit(s->root_fd, project, bytes) < 0)
		r = err_sys(e, "set a project's limit");
	return r;
}

/* A project is there as soon as something has its number. */
static int dir_family(struct store *s, uint64_t family, struct err *e)
{
	(void)s;
	(void)family;
	(void)e;
	return 0;
}

static int project_of(struct store *s, int tree_fd, uint64_t *project,
		      struct err *e)
{
	struct fsxattr x;

	if (!s->disk_limit)
		return err_set(
			e, ENOTSUP,
			"the pool has no quotas: mount it with prjquota, "
			"or use btrfs");
	if (ioctl(tree_fd, FS_IOC_FSGETXATTR, &x) < 0)
		return err_sys(e, "read a project id");
	if (x.fsx_projid < PROJECT_FIRST)
		return err_set(e, ENOTSUP, "made when the pool had no quotas");
	*project = x.fsx_projid;
	return 0;
}

/* We may write beyond a limit; what we made shall not be beyond it. */
static int check_used(struct store *s, uint64_t project, struct err *e)
{
	struct if_dqblk q;

	if (quota(s->root_fd, Q_GETQUOTA, project, &q) < 0)
		return err_sys(e, "read a project's usage");
	if (q.dqb_bhardlimit > 0 &&
	    q.dqb_curspace > q.dqb_bhardlimit * QIF_DQBLKSIZE)
		return err_set(e, EDQUOT,
			       "the copy does not fit into the disk limit");
	return 0;
}

static int clone_project(struct store *s, const struct clone_how *how,
			 uint64_t *project, struct err *e)
{
	int r = 0;

	*project = how->family;
	if (!s->disk_limit)
		return 0;
	if (how->like_fd >= 0)
		r = project_of(s, how->like_fd, project, e);
	if (r == 0 && how->bytes > 0 &&
	    set_limit(s->root_fd, *project, how->bytes) < 0)
		r = err_sys(e, "set a project's limit");
	return r;
}

/* Real work: a copy, whole and on disk before it has its name. */
static int dir_clone(struct store *s, int from_fd, int dir_fd, const char *name,
		     const struct clone_how *how, struct err *e)
{
	static const char tmp[] = "new";
	uint64_t project = 0;
	int r = clone_project(s, how, &project, e);

	if (r == 0)
		r = make_in(s, dir_fd, tmp, project, e);
	if (r < 0)
		return r;
	r = copy_tree(s->ops, from_fd, dir_fd, tmp);
	if (r < 0)
		return err_set(e, -r, "copy a tree: %s", strerror(-r));
	if (s->disk_limit && check_used(s, project, e) < 0)
		return -e->code;
	if (syncfs(dir_fd) < 0 || renameat(dir_fd, tmp, dir_fd, name) < 0 ||
	    fsync(dir_fd) < 0)
		return err_sys(e, "keep a copy");
	return 0;
}

static int dir_limit(struct store *s, int tree_fd, uint64_t bytes,
		     struct err *e)
{
	uint64_t project = 0;
	int r = project_of(s, tree_fd, &project, e);

	if (r < 0)
		return r;
	if (set_limit(tree_fd, project, bytes) < 0)
		return err_sys(e, "set a project's limit");
	return 0;
}

static int dir_usage(struct store *s, int tree_fd, uint64_t *bytes,
		     struct err *e)
{
	struct if_dqblk q;
	uint64_t project = 0;
	int r = project_of(s, tree_fd, &project, e);

	if (r < 0)
		return r;
	if (quota(tree_fd, Q_GETQUOTA, project, &q) < 0)
		return err_sys(e, "read a project's usage");
	*bytes = q.dqb_curspace;
	return 0;
}

/* What is removed does not count. */
static void dir_settle(struct store *s, int tree_fd)
{
	(void)s;
	(void)tree_fd;
}

/* Launches see an image through a read-only mount; nothing else writes. */
static int dir_seal(int tree_fd, struct err *e)
{
	(void)tree_fd;
	(void)e;
	return 0;
}

static void dir_unseal(int tree_fd)
{
	(void)tree_fd;
}

static int dir_destroy(int dir_fd, const char *name)
{
	(void)dir_fd;
	(void)name;
	return 0;
}

static int dir_sweep(struct store *s, struct err *e)
{
	uint64_t from = PROJECT_FIRST;
	uint64_t end = s->n_reserved ? s->first_reserved : s->next_family;
	struct if_nextdqblk q;
	int r;

	if (!s->disk_limit)
		return 0;
	while ((r = next_project(s->root_fd, from, end, &q)) == 0) {
		from = (uint64_t)q.dqb_id + 1;
		if (q.dqb_curspace == 0 && q.dqb_curinodes == 0 &&
		    set_limit(s->root_fd, q.dqb_id, 0) < 0)
			return err_sys(e, "drop the limit of project %u",
				       q.dqb_id);
	}
	if (r != -ENOENT)
		return err_set(e, -r, "read the pool's project quotas: %s",
			       strerror(-r));
	return 0;
}

const struct store_ops store_dir = {
	.name = "dir",
	.start = dir_start,
	.make = dir_make,
	.family = dir_family,
	.clone = dir_clone,
	.limit = dir_limit,
	.usage = dir_usage,
	.settle = dir_settle,
	.seal = dir_seal,
	.unseal = dir_unseal,
	.destroy = dir_destroy,
	.sweep = dir_sweep,
};
