/*
 * One entry made real. Whatever is at its place goes first, so that nothing
 * is ever written through something that an earlier entry made: a file is
 * always a new inode, a link is never followed.
 */
#include "worker/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "image/whiteout.h"
#include "worker/later.h"
#include "worker/path.h"
#include "worker/tree.h"

/* What every kind of entry needs. */
struct place {
	const struct path *path;
	int dir_fd; /* that holds it */
	const char *name;
	uid_t uid;
	gid_t gid;
	mode_t perm;
	struct timespec times[2]; /* of access and change: the same */
};

static int place_sys(const struct place *at, const char *doing, struct err *e)
{
	if (errno == ENOSPC || errno == EDQUOT)
		return err_set(e, errno,
			       "entry %.100s: no space left in the pool: "
			       "remove images or grow it",
			       at->path->s);
	return err_sys(e, "entry %.100s: %s", at->path->s, doing);
}

static unsigned clamp_id(int64_t id)
{
	return id < 0 || id >= ID_LIMIT ? ID_NOBODY : (unsigned)id;
}

static void place_init(struct place *at, const struct path *p,
		       struct archive_entry *ae)
{
	long nsec = archive_entry_mtime_nsec(ae);

	at->path = p;
	at->name = path_name(p);
	at->uid = clamp_id(archive_entry_uid(ae));
	at->gid = clamp_id(archive_entry_gid(ae));
	at->perm = archive_entry_perm(ae) & 07777;
	at->times[0].tv_sec = archive_entry_mtime(ae);
	at->times[0].tv_nsec = nsec >= 0 && nsec < 1000000000 ? nsec : 0;
	at->times[1] = at->times[0];
}

/* `user.overlay.*` means something to overlayfs: it is not an image's. */
static bool xattr_wanted(const char *name, size_t size)
{
	return str_starts(name, "user.") && name[5] &&
	       !str_starts(name, "user.overlay.") &&
	       strlen(name) <= ENTRY_XATTR_NAME_MAX &&
	       size <= ENTRY_XATTR_VALUE_MAX;
}

/*
 * An attribute that the pool's file system cannot hold is dropped: it is a
 * remark on the file, and other tools do the same.
 */
static int put_xattrs(const struct place *at, int fd, struct archive_entry *ae,
		      struct err *e)
{
	const char *name;
	const void *value;
	size_t size;
	int left = ENTRY_XATTRS_MAX;

	archive_entry_xattr_reset(ae);
	while (archive_entry_xattr_next(ae, &name, &value, &size) ==
	       ARCHIVE_OK) {
		if (!name || !xattr_wanted(name, size))
			continue;
		if (left-- == 0)
			return err_set(e, EBADMSG,
				       "entry %.100s: over 64 attributes",
				       at->path->s);
		if (fsetxattr(fd, name, value, size, 0) == 0 ||
		    errno == ENOTSUP || errno == ENOSPC || errno == E2BIG)
			continue;
		return place_sys(at, "set an attribute", e);
	}
	return 0;
}

static int skip_data(struct job *j, struct err *e)
{
	struct block b;
	int r;

	while ((r = source_data(j->src, &b, e)) > 0) {
		r = report_progress(j->report, j->n.entries, j->n.bytes, e);
		if (r < 0)
			return r;
	}
	return r;
}

int check_pool(struct job *j, size_t n, struct err *e)
{
	struct statfs fs;

	j->unchecked += n;
	if (j->unchecked < POOL_CHECK_BYTES)
		return 0;
	j->unchecked = 0;
	if (fstatfs(j->root_fd, &fs) < 0)
		return err_sys(e, "ask the pool for its free space");
	if (fs.f_bavail / POOL_RESERVE_PERCENT >= fs.f_blocks / 100)
		return 0;
	return err_set(e, ENOSPC,
		       "the pool is nearly full: remove images or "
		       "sandboxes, or grow it");
}

static int put_block(struct job *j, int fd, const struct place *at,
		     const struct block *b, struct err *e)
{
	size_t done = 0;
	int r;

	if (b->n > ARCHIVE_BYTES_MAX - j->n.bytes)
		return err_set(e, EFBIG, "the archive holds over 64 GiB");
	while (done < b->n) {
		ssize_t n = pwrite(fd, (const char *)b->p + done, b->n - done,
				   (off_t)(b->offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return place_sys(at, "write", e);
		done += (size_t)n;
	}
	j->n.bytes += b->n;
	r = check_pool(j, b->n, e);
	if (r < 0)
		return r;
	return report_progress(j->report, j->n.entries, j->n.bytes, e);
}

/* Holes are where no block is: between blocks, and up to the size. */
static int put_content(struct job *j, int fd, const struct place *at,
		       struct archive_entry *ae, struct err *e)
{
	int64_t said = archive_entry_size(ae);
	uint64_t size = said < 0 ? 0 : (uint64_t)said;
	struct block b;
	int r;

	if (size > ARCHIVE_BYTES_MAX)
		return err_set(e, EFBIG, "entry %.100s: a file over 64 GiB",
			       at->path->s);
	while ((r = source_data(j->src, &b, e)) > 0) {
		if (b.offset > size || b.n > size - b.offset)
			return err_set(e, EBADMSG,
				       "entry %.100s: content beyond its size",
				       at->path->s);
		r = put_block(j, fd, at, &b, e);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return err_wrap(e, "entry %.100s", at->path->s);
	if (ftruncate(fd, (off_t)size) < 0)
		return place_sys(at, "set its size", e);
	return 0;
}

static int put_file(struct job *j, const struct place *at,
		    struct archive_entry *ae, struct err *e)
{
	AUTO_CLOSE int fd = tree_open(at->dir_fd, at->name,
				      O_WRONLY | O_CREAT | O_EXCL, 0600);
	mode_t perm = at->perm & ~(mode_t)(S_ISUID | S_ISGID);
	int r;

	if (fd < 0) {
		errno = -fd;
		return place_sys(at, "create the file", e);
	}
	r = put_content(j, fd, at, ae, e);
	if (r < 0)
		return r;
	r = put_xattrs(at, fd, ae, e);
	if (r < 0)
		return r;
	if (fchown(fd, at->uid, at->gid) < 0 || fchmod(fd, perm) < 0 ||
	    futimens(fd, at->times) < 0)
		return place_sys(at, "set owner, mode and time", e);
	if (perm & 0111)
		j->n.executables++;
	return 0;
}

static int put_dir(struct job *j, const struct place *at,
		   struct archive_entry *ae, struct err *e)
{
	AUTO_CLOSE int fd = -1;
	int r;

	/* A directory that is there keeps what is in it. */
	fd = tree_open(at->dir_fd, at->name, O_RDONLY | O_DIRECTORY, 0);
	if (fd == -ENOTDIR || fd == -ELOOP) {
		r = tree_remove(at->dir_fd, at->name);
		if (r < 0) {
			errno = -r;
			return place_sys(at, "replace", e);
		}
		fd = -ENOENT;
	}
	if (fd == -ENOENT) {
		if (mkdirat(at->dir_fd, at->name, 0700) < 0)
			return place_sys(at, "create the directory", e);
		fd = tree_open(at->dir_fd, at->name, O_RDONLY | O_DIRECTORY, 0);
	}
	if (fd < 0) {
		errno = -fd;
		return place_sys(at, "open the directory", e);
	}
	r = put_xattrs(at, fd, ae, e);
	if (r < 0)
		return r;
	if (fchown(fd, at->uid, at->gid) < 0 ||
	    fchmod(fd, at->perm & ~(mode_t)S_ISUID) < 0)
		return place_sys(at, "set owner and mode", e);
	later_add(&j->dirs, at->path->s, &at->times[1]);
	return skip_data(j, e);
}

/* Links and fifos cannot be opened: owner and time go by name. */
static int finish_by_name(struct job *j, const struct place *at, struct err *e)
{
	if (fchownat(at->dir_fd, at->name, at->uid, at->gid,
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    utimensat(at->dir_fd, at->name, at->times, AT_SYMLINK_NOFOLLOW) < 0)
		return place_sys(at, "set owner and time", e);
	return skip_data(j, e);
}

static int put_symlink(struct job *j, const struct place *at,
		       struct archive_entry *ae, struct err *e)
{
	const char *target = archive_entry_symlink(ae);

	if (!target || !*target || strlen(target) > ENTRY_PATH_MAX)
		return err_set(e, EBADMSG,
			       "entry %.100s: a link to nothing, or to over "
			       "4095 bytes",
			       at->path->s);
	if (symlinkat(target, at->dir_fd, at->name) < 0)
		return place_sys(at, "create the link", e);
	return finish_by_name(j, at, e);
}

static int put_fifo(struct job *j, const struct place *at, struct err *e)
{
	if (mknodat(at->dir_fd, at->name, S_IFIFO | (at->perm & 0777), 0) < 0)
		return place_sys(at, "create the fifo", e);
	return finish_by_name(j, at, e);
}

/*
 * In a whole root file system links on the way are refused: whoever made it
 * knew the directories' names. A layer's maker saw only what changed, so a
 * directory of it may be a link below; it is followed as if chrooted.
 */
static int open_parent(const struct job *j, const struct path *p, struct err *e)
{
	return j->in_layer ? tree_parent_inside(j->root_fd, p, e)
			   : tree_parent(j->root_fd, p, e);
}

/* The first name must be there already; content is not repeated. */
static int put_hardlink(struct job *j, const struct place *at,
			const char *first_raw, struct err *e)
{
	AUTO_CLOSE int dir_fd = -1;
	struct path first;
	struct stat st;
	int r;

	r = path_clean(&first, first_raw, "hard link to", e);
	if (r < 0)
		return r;
	if (strcmp(first.s, at->path->s) == 0)
		return skip_data(j, e);
	dir_fd = open_parent(j, &first, e);
	if (dir_fd < 0)
		return dir_fd;
	if (fstatat(dir_fd, path_name(&first), &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    S_ISDIR(st.st_mode))
		return err_set(e, EBADMSG,
			       "entry %.80s: hard link to %.80s, which is no "
			       "earlier file of this %s",
			       at->path->s, first.s,
			       j->in_layer ? "image" : "archive");
	r = tree_remove(at->dir_fd, at->name);
	if (r < 0) {
		errno = -r;
		return place_sys(at, "replace", e);
	}
	if (linkat(dir_fd, path_name(&first), at->dir_fd, at->name, 0) < 0)
		return place_sys(at, "create the hard link", e);
	return skip_data(j, e);
}

static int skip_entry(struct job *j, struct err *e)
{
	j->n.skipped++;
	return skip_data(j, e);
}

/* The root is not the archive's to change: only that it is a directory. */
static int put_root(struct job *j, struct archive_entry *ae, struct err *e)
{
	if (archive_entry_filetype(ae) != AE_IFDIR ||
	    archive_entry_hardlink(ae))
		return err_set(e, EBADMSG,
			       "the root is not a directory in this archive");
	return skip_data(j, e);
}

/* Notes of an old file system that builders of layers had, and below them. */
static bool is_note(const struct path *p)
{
	const char *at = p->s;

	while ((at = strstr(at, WHITEOUT_NOTE))) {
		if ((at == p->s || at[-1] == '/') &&
		    strcmp(at, WHITEOUT_OPAQUE) != 0)
			return true;
		at++;
	}
	return false;
}

static int put_typed(struct job *j, const struct place *at,
		     struct archive_entry *ae, struct err *e)
{
	mode_t type = archive_entry_filetype(ae);
	int r;

	if (type == AE_IFDIR)
		return put_dir(j, at, ae, e);
	r = tree_remove(at->dir_fd, at->name);
	if (r < 0) {
		errno = -r;
		return place_sys(at, "replace", e);
	}
	switch (type) {
	case AE_IFREG:
		return put_file(j, at, ae, e);
	case AE_IFLNK:
		return put_symlink(j, at, ae, e);
	case AE_IFIFO:
		return put_fifo(j, at, e);
	default:
		return err_set(e, EBADMSG, "entry %.100s: of no known type",
			       at->path->s);
	}
}

int entry_put(struct job *j, struct archive_entry *ae, struct err *e)
{
	const char *raw = archive_entry_pathname(ae);
	const char *first = archive_entry_hardlink(ae);
	mode_t type = archive_entry_filetype(ae);
	AUTO_CLOSE int dir_fd = -1;
	struct path path;
	struct place at;
	int r;

	r = path_clean(&path, raw ? raw : "", "entry", e);
	if (r < 0)
		return r;
	if (!*path.s)
		return put_root(j, ae, e);
	if (j->in_layer && is_note(&path))
		return skip_data(j, e);
	/* The mark by which overlayfs hides files of a lower layer. */
	if (!first && !j->in_layer && type == AE_IFCHR &&
	    archive_entry_rdev(ae) == 0)
		return err_set(e, EBADMSG,
			       "entry %.100s: a whiteout: give a whole root "
			       "file system, not a layer",
			       path.s);
	if (!first &&
	    (type == AE_IFCHR || type == AE_IFBLK || type == AE_IFSOCK))
		return skip_entry(j, e);
	dir_fd = open_parent(j, &path, e);
	if (dir_fd < 0)
		return dir_fd;
	if (j->in_layer) {
		r = whiteout_apply(&j->seen, &path, dir_fd, e);
		if (r != 0)
			return r < 0 ? r : skip_data(j, e);
		seen_add(&j->seen, path.s);
	}
	place_init(&at, &path, ae);
	at.dir_fd = dir_fd;
	if (first)
		return put_hardlink(j, &at, first, e);
	return put_typed(j, &at, ae, e);
}
