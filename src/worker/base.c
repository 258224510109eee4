#include "worker/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "worker/erofs.h"
#include "worker/links.h"
#include "worker/tree.h"
#include "worker/walk.h"

enum {
	CHUNK = 64 * 1024,
	/* Smaller ones are copied faster than they are shared. */
	CLONE_MIN = 64 * 1024,
	NID_TEXT = 24,
};

struct base {
	struct look l;
	struct walk w;
	struct links links;
	struct erofs out;
	struct erofs_attrs attrs; /* of what is visited */
	struct erofs_dir *dir;    /* the one that is visited */
	uint64_t bytes;
};

/* --- content --- */

static int copy_part(struct base *b, int fd, uint64_t from, uint64_t to,
		     uint64_t at, struct err *e)
{
	static char chunk[CHUNK];
	int r;

	while (from < to) {
		size_t want = to - from < CHUNK ? (size_t)(to - from) : CHUNK;
		ssize_t n = pread(fd, chunk, want, (off_t)from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read");
		if (n == 0)
			return err_set(e, EIO, "shorter than its size");
		r = erofs_write(&b->out, at, chunk, (size_t)n, e);
		if (r < 0)
			return r;
		from += (size_t)n;
		at += (size_t)n;
	}
	return 0;
}

/* Holes stay holes. */
static int copy_data(struct base *b, int fd, uint64_t len, uint64_t at,
		     struct err *e)
{
	uint64_t done = 0;
	int r = 0;

	while (done < len && r == 0) {
		off_t data = lseek(fd, (off_t)done, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			return 0;
		hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			return err_sys(e, "look for its data");
		if ((uint64_t)data >= len)
			return 0;
		if ((uint64_t)hole > len)
			hole = (off_t)len;
		r = copy_part(b, fd, (uint64_t)data, (uint64_t)hole,
			      at + (uint64_t)data, e);
		done = (uint64_t)hole;
	}
	return r;
}

/* Whole blocks; those of a large file are shared where the pool can. */
static int put_blocks(struct base *b, int fd, uint64_t len, uint64_t at,
		      struct err *e)
{
	struct file_clone_range c = { .src_fd = fd,
				      .src_length = len,
				      .dest_offset = at };

	if (len >= CLONE_MIN && len % EROFS_BLOCK == 0 &&
	    ioctl(b->out.fd, FICLONERANGE, &c) == 0)
		return 0;
	return copy_data(b, fd, len, at, e);
}

/* What of a content lies behind the inode and its attributes. */
static size_t tail_of(const struct base *b, uint64_t size)
{
	size_t tail = (size_t)(size % EROFS_BLOCK);

	return erofs_fits(b->attrs.len + tail) ? tail : 0;
}

static int put_regular(struct base *b, const struct statx *sx, int fd,
		       uint64_t nid, struct err *e)
{
	struct erofs_inode n = { .size = sx->stx_size,
				 .nlink = sx->stx_nlink,
				 .sx = sx,
				 .attrs = &b->attrs,
				 .tail_len = tail_of(b, sx->stx_size) };
	uint64_t len = sx->stx_size - n.tail_len;
	char tail[EROFS_BLOCK];
	int r = 0;

	if (n.tail_len > 0 &&
	    pread(fd, tail, n.tail_len, (off_t)len) != (ssize_t)n.tail_len)
		return err_set(e, EIO, "shorter than its size");
	n.tail = tail;
	if (len > 0)
		r = erofs_blocks(&b->out, (len + EROFS_BLOCK - 1) / EROFS_BLOCK,
				 &n.block, e);
	if (r == 0 && len > 0)
		r = put_blocks(b, fd, len, (uint64_t)n.block * EROFS_BLOCK, e);
	b->bytes += sx->stx_size;
	return r < 0 ? r : erofs_put(&b->out, nid, &n, e);
}

static int put_symlink(struct base *b, struct visit *v, uint64_t nid,
		       struct err *e)
{
	const struct statx *sx = &v->at[0].sx;
	char target[EROFS_BLOCK];
	struct erofs_inode n = { .size = sx->stx_size,
				 .nlink = sx->stx_nlink,
				 .sx = sx,
				 .attrs = &b->attrs,
				 .tail = target,
				 .tail_len = tail_of(b, sx->stx_size) };
	ssize_t len = readlinkat(v->dir_fd[0], v->name, target, sizeof(target));
	int r;

	if (len < 0)
		return err_sys(e, "read the link");
	if ((uint64_t)len != n.size || n.size >= EROFS_BLOCK)
		return err_set(e, EIO, "not the target of its size");
	if (n.tail_len > 0)
		return erofs_put(&b->out, nid, &n, e);
	r = erofs_blocks(&b->out, 1, &n.block, e);
	if (r == 0)
		r = erofs_write(&b->out, (uint64_t)n.block * EROFS_BLOCK,
				target, (size_t)len, e);
	return r < 0 ? r : erofs_put(&b->out, nid, &n, e);
}

static int put_special(struct base *b, struct visit *v, uint64_t nid,
		       struct err *e)
{
	const struct statx *sx = &v->at[0].sx;
	const struct erofs_inode n = { .block = erofs_device(sx),
				       .nlink = sx->stx_nlink,
				       .sx = sx,
				       .attrs = &b->attrs };

	return erofs_put(&b->out, nid, &n, e);
}

/* --- entries --- */

/* Only what can be opened has attributes that count. */
static int open_regular(struct base *b, struct visit *v, int *fd, struct err *e)
{
	b->attrs.len = 0;
	if (v->at[0].type != FILE_REGULAR)
		return 0;
	*fd = walk_open(v, 0);
	if (*fd < 0) {
		errno = -*fd;
		return err_sys(e, "open");
	}
	return erofs_attrs_read(&b->attrs, *fd, e);
}

/* The first name of an inode gives it its place; the others have its number. */
static int put_inode(struct base *b, struct visit *v, uint64_t *nid,
		     struct err *e)
{
	const struct statx *sx = &v->at[0].sx;
	bool sized = S_ISREG(sx->stx_mode) || S_ISLNK(sx->stx_mode);
	AUTO_CLOSE int fd = -1;
	const char *first = NULL;
	char text[NID_TEXT];
	size_t behind;
	int r = open_regular(b, v, &fd, e);

	if (r < 0)
		return r;
	behind = b->attrs.len + (sized ? tail_of(b, sx->stx_size) : 0);
	*nid = erofs_place(&b->out, behind);
	snprintf(text, sizeof(text), "%" PRIu64, *nid);
	if (sx->stx_nlink > 1)
		first = links_first(&b->links, sx, text);
	if (first) {
		*nid = strtoull(first, NULL, 10);
		return 0;
	}
	erofs_take(&b->out, behind);
	if (S_ISREG(sx->stx_mode))
		return put_regular(b, sx, fd, *nid, e);
	return S_ISLNK(sx->stx_mode) ? put_symlink(b, v, *nid, e)
				     : put_special(b, v, *nid, e);
}

static int count_names(int fd, struct erofs_names *out, struct err *e)
{
	static _Alignas(struct dirent64) char block[CHUNK];
	long got, at;

	while ((got = syscall(SYS_getdents64, fd, block, sizeof(block))) > 0)
		for (at = 0; at < got;) {
			const struct dirent64 *d =
				(const struct dirent64 *)(block + at);

			at += d->d_reclen;
			if (strcmp(d->d_name, ".") == 0 ||
			    strcmp(d->d_name, "..") == 0)
				continue;
			out->n++;
			out->bytes += strlen(d->d_name);
		}
	return got < 0 ? err_sys(e, "read the directory") : 0;
}

static int begin_dir(struct base *b, int fd, struct err *e)
{
	struct erofs_names names = { 0 };
	int r;

	if (fd < 0) {
		errno = -fd;
		return err_sys(e, "open");
	}
	r = count_names(fd, &names, e);
	if (r == 0)
		r = erofs_attrs_read(&b->attrs, fd, e);
	return r < 0 ? r
		     : erofs_dir_new(&b->out, &b->dir, &names, &b->attrs, e);
}

static int enter_dir(struct base *b, struct visit *v, struct err *e)
{
	AUTO_CLOSE int fd = walk_open(v, 0);
	struct erofs_dir *up = b->dir;
	int r = begin_dir(b, fd, e);

	if (r == 0)
		r = erofs_dir_add(&b->out, up, v->name, erofs_dir_nid(b->dir),
				  S_IFDIR, e);
	return r < 0 ? err_wrap(e, "%.150s", v->path) : 1;
}

static int enter(struct walk *w, struct visit *v, struct err *e)
{
	struct base *b = w->arg;
	uint64_t nid = 0;
	int r;

	if (v->at[0].type == FILE_NONE)
		return err_set(e, ENOENT, "%.150s: gone", v->path);
	if (v->at[0].type == FILE_DIRECTORY)
		return enter_dir(b, v, e);
	r = put_inode(b, v, &nid, e);
	if (r == 0)
		r = erofs_dir_add(&b->out, b->dir, v->name, nid,
				  v->at[0].sx.stx_mode, e);
	return r < 0 ? err_wrap(e, "%.150s", v->path) : 0;
}

static int leave(struct walk *w, struct visit *v, struct err *e)
{
	struct base *b = w->arg;
	int r = erofs_dir_end(&b->out, &b->dir, &v->at[0].sx, e);

	return r < 0 ? err_wrap(e, "%.150s", v->path) : 0;
}

static int alive(struct say *s, struct err *e)
{
	(void)s;
	(void)e;
	return 0;
}

static int make(struct base *b, int root_fd, struct err *e)
{
	/* The root is no entry of any directory: it is not visited. */
	AUTO_CLOSE int fd = tree_open(root_fd, ".", O_RDONLY | O_DIRECTORY, 0);
	struct statx sx;
	uint64_t nid;
	int r = begin_dir(b, fd, e);

	if (r < 0)
		return r;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &sx) < 0)
		return err_sys(e, "look at the root");
	nid = erofs_dir_nid(b->dir);
	r = walk_asked(&b->w, e);
	if (r == 0)
		r = erofs_dir_end(&b->out, &b->dir, &sx, e);
	return r < 0 ? r : erofs_close(&b->out, nid, e);
}

int base_make(int root_fd, int out_fd, uint64_t max, uint64_t *entries,
	      uint64_t *bytes, struct err *e)
{
	static const struct walk_ops ops = { .enter = enter, .leave = leave };
	static struct base b; /* too large for a stack */
	int r;

	memset(&b, 0, sizeof(b));
	b.l.n = b.w.n = 1;
	b.l.say.alive = alive;
	b.l.side[0].fd = root_fd;
	b.w.l = &b.l;
	b.w.ops = &ops;
	b.w.arg = &b;
	erofs_open(&b.out, out_fd, max);
	r = make(&b, root_fd, e);
	erofs_dirs_free(b.dir);
	links_done(&b.links);
	*entries = b.l.say.entries;
	*bytes = b.bytes;
	return r;
}
